//! Small writes that are enqueued before their bytes are there.

use ropeway_abi as cl;
use ropeway_protocol::types::Status;

use super::{Event, Memory, Part, Place, Queue, UserEvent, Waits};

/// A small write that waits for its bytes: enqueued before they are there, so that the device goes on by itself once they are.
#[derive(Debug)]
pub struct AwaitedWrite {
    /// `None` only while it is dropped.
    bytes: Option<Place>,
    /// What the write waits for; `None` once it was set.
    gate: Option<UserEvent>,
    end: Event,
}

impl AwaitedWrite {
    /// Enqueues a write of part of `memory` that waits for `gate`, on a queue on which it holds up no other command. OpenCL lets implementations take
    /// the bytes when a write is enqueued: it must be one that takes them when the write is carried out.
    ///
    /// # Errors
    /// What the native call returned; CL_INVALID_VALUE when the part leaves the object, or has not as many bytes as the place.
    pub fn enqueue(
        queue: &Queue,
        (memory, part): (&Memory, &Part),
        gate: UserEvent,
        mut place: Place,
    ) -> Result<Self, Status> {
        let from = place.pointer_for(part)?;
        // SAFETY: the bytes are neither moved nor freed before the event has ended (`drop` leaks them rather), and only written while the gate is
        // not set.
        let end = unsafe { queue.write(memory, part, from, &Waits::one(gate.event()), true) }?;
        let end = end.ok_or(cl::CL_OUT_OF_RESOURCES)?;
        queue.flush()?;
        Ok(Self { bytes: Some(place), gate: Some(gate), end })
    }

    /// How many bytes it writes.
    pub fn size(&self) -> usize {
        self.bytes.as_ref().map_or(0, Place::size)
    }

    /// The bytes, as long as the write waits for them.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        self.gate.as_ref()?;
        self.bytes.as_mut().map(Place::bytes_mut)
    }

    /// What it waits for, which is to be set; from now on the bytes are the device's.
    pub fn open(&mut self) -> Option<UserEvent> {
        self.gate.take()
    }

    /// The end of the write.
    pub fn end(&self) -> &Event {
        &self.end
    }
}

impl Drop for AwaitedWrite {
    fn drop(&mut self) {
        if !self.end.ended() {
            std::mem::forget(self.bytes.take());
        }
    }
}

//! Small writes that are enqueued before their bytes are there.

use ropeway_abi as cl;
use ropeway_protocol::types::Status;

use super::{Event, Memory, Part, Place, Queue, UserEvent, Waits};

/// A small write that waits for its bytes: enqueued before they are there, so that the device goes on by itself once
/// they are.
#[derive(Debug)]
pub struct AwaitedWrite {
    /// `None` only while it is dropped.
    bytes: Option<Place>,
    /// The user event that the write waits for; `None` once it was set.
    trigger: Option<UserEvent>,
    end: Event,
}

impl AwaitedWrite {
    /// Enqueues a write of part of `memory` that waits for `trigger`, on a queue where it holds up no other command.
    /// OpenCL lets implementations take the bytes when a write is enqueued: this one must take them when the write is
    /// carried out.
    ///
    /// # Errors
    /// The status of the native call; CL_INVALID_VALUE when the part leaves the object, or has not as many bytes as the
    /// place.
    pub fn enqueue(
        queue: &Queue,
        (memory, part): (&Memory, &Part),
        trigger: UserEvent,
        mut place: Place,
    ) -> Result<Self, Status> {
        let from = place.pointer_for(part)?;
        // SAFETY: the bytes are neither moved nor freed before the event has ended (`drop` leaks them rather), and only
        // written while the gate is not set.
        let end = unsafe { queue.write(memory, part, from, &Waits::one(trigger.event()), true) }?;
        let end = end.ok_or(cl::CL_OUT_OF_RESOURCES)?;
        queue.flush()?;
        Ok(Self { bytes: Some(place), trigger: Some(trigger), end })
    }

    /// How many bytes it writes.
    pub fn size(&self) -> usize {
        self.bytes.as_ref().map_or(0, Place::size)
    }

    /// The bytes, as long as the write waits for them.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        self.trigger.as_ref()?;
        self.bytes.as_mut().map(Place::bytes_mut)
    }

    /// The user event that the write waits for, for the caller to set; from then on the device owns the bytes.
    pub fn open(&mut self) -> Option<UserEvent> {
        self.trigger.take()
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

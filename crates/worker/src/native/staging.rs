//! Host memory that small writes and reads go through while they wait for the device.

use std::collections::VecDeque;

use ropeway_abi as cl;
use ropeway_protocol::Tail;
use ropeway_protocol::limits;
use ropeway_protocol::types::Status;

use super::{Event, Memory, Part, Place, Queue, Waits};

/// Bytes of one arena. Pages that are never written take no memory.
const ARENA: usize = 2 * limits::MAX_EAGER;

/// Where small writes are put: writers rather start at a fresh cache line than share one.
const ALIGN: usize = 64;

/// Arenas kept for reuse.
const SPARE: usize = 4;

/// Memory of one queue's small writes: arenas filled from the bottom up, each reused once the device has read all of it.
#[derive(Debug, Default)]
pub struct Staging {
    current: Vec<u8>,
    used: usize,
    /// Full arenas, with the event that says when the device is done with them.
    retired: VecDeque<(Vec<u8>, Event)>,
    spare: Vec<Vec<u8>>,
}

impl Staging {
    /// Receives the whole of `tail` and enqueues a write of it.
    ///
    /// # Errors
    /// The outer error when the link broke; the inner one is what the native call returned, CL_INVALID_VALUE for a part
    /// of another size, CL_OUT_OF_HOST_MEMORY when
    /// writes that do not end hold [`limits::MAX_STAGED`] bytes.
    pub fn write(
        &mut self,
        queue: &Queue,
        (memory, part): (&Memory, &Part),
        tail: &mut dyn Tail,
        waits: &Waits<'_>,
        event: bool,
    ) -> Result<Result<Option<Event>, Status>, ropeway_protocol::TailError> {
        let len = tail.remaining();
        if part.size() != len as u64 {
            return Ok(Err(cl::CL_INVALID_VALUE));
        }
        if let Err(status) = self.make_room(queue, len) {
            return Ok(Err(status));
        }
        let place = &mut self.current[self.used..self.used + len];
        tail.read_exact(place)?;
        let from = place.as_ptr();
        self.used = (self.used + len).next_multiple_of(ALIGN).min(self.current.len());
        // SAFETY: an arena is neither moved nor reused before `retire`'s event, enqueued after this write, has ended;
        // `drop` leaks arenas that are not known to be done.
        Ok(unsafe { queue.write(memory, part, from, waits, event) })
    }

    /// Makes `len` bytes free in the current arena.
    fn make_room(&mut self, queue: &Queue, len: usize) -> Result<(), Status> {
        if self.current.len() - self.used >= len {
            return Ok(());
        }
        if self.used > 0 {
            // All writes from this arena were enqueued before the marker, which waits for all before it.
            let Some(done) = queue.marker(&Waits::none(), true)? else { return Err(cl::CL_OUT_OF_RESOURCES) };
            self.retired.push_back((std::mem::take(&mut self.current), done));
            self.used = 0;
        }
        while let Some((_, done)) = self.retired.front()
            && done.ended()
        {
            let (arena, _) = self.retired.pop_front().expect("there is a front");
            if self.spare.len() < SPARE {
                self.spare.push(arena);
            }
        }
        if (self.retired.len() + 1) * ARENA > limits::MAX_STAGED {
            return Err(cl::CL_OUT_OF_HOST_MEMORY);
        }
        self.current = self.spare.pop().unwrap_or_else(|| vec![0; ARENA.max(len)]);
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // The device may still be reading: better lost than freed.
        if self.used > 0 {
            std::mem::forget(std::mem::take(&mut self.current));
        }
        for (arena, done) in self.retired.drain(..) {
            if !done.ended() {
                std::mem::forget(arena);
            }
        }
    }
}

/// A small read under way: the memory that it goes to, and its event.
#[derive(Debug)]
pub struct StagedRead {
    /// `None` only while it is dropped.
    memory: Option<Place>,
    event: Event,
}

impl StagedRead {
    /// Enqueues a read into `place`.
    ///
    /// # Errors
    /// What the native call returned; CL_INVALID_VALUE when the part leaves the object, or has not as many bytes as the place.
    pub fn enqueue(
        queue: &Queue,
        (memory, part): (&Memory, &Part),
        waits: &Waits<'_>,
        mut place: Place,
    ) -> Result<Self, Status> {
        let into = place.pointer_for(part)?;
        // SAFETY: `place` is not touched before the event has ended, and leaked by `drop` if it has not.
        let event = unsafe { queue.read(memory, part, into, waits) }?;
        Ok(Self { memory: Some(place), event })
    }

    /// How many bytes it reads.
    pub fn size(&self) -> usize {
        self.memory.as_ref().map_or(0, Place::size)
    }

    /// The event of the read.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// The bytes, once the read has ended; CL_COMPLETE is not awaited here.
    ///
    /// # Errors
    /// The status it ended with, or is in.
    pub fn bytes(&self) -> Result<&[u8], Status> {
        match (self.event.status(), &self.memory) {
            (cl::CL_COMPLETE, memory) => Ok(memory.as_ref().map_or(&[], Place::bytes)),
            (status, _) => Err(status),
        }
    }
}

impl Drop for StagedRead {
    fn drop(&mut self) {
        if !self.event.ended() {
            std::mem::forget(self.memory.take());
        }
    }
}

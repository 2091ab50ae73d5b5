//! Copies between a device and pieces of host memory, of which a few are under way at a time.

use std::sync::Arc;

use ropeway_protocol::types::Status;

use super::{Event, Memory, Part, Queue, Waits};

/// The last copy of each of `N` pieces of host memory. Waits for all of them when dropped.
#[derive(Debug)]
pub(super) struct Copies<const N: usize> {
    queue: Arc<Queue>,
    last: [Option<Event>; N],
}

impl<const N: usize> Copies<N> {
    /// Copies that go over `queue`, which is in order.
    pub(super) fn new(queue: &Arc<Queue>) -> Self {
        Self { queue: queue.clone(), last: [const { None }; N] }
    }

    /// Starts copying from piece `index` of the host memory, which begins at `from`, to these parts, one after the other.
    ///
    /// # Errors
    /// The status of the native call that failed.
    ///
    /// # Safety
    /// The piece has as many bytes as the parts have together, and keeps them until [`Self::settle`] has returned for it,
    /// or this is dropped.
    pub(super) unsafe fn write(
        &mut self,
        index: usize,
        memory: &Memory,
        parts: &[Part],
        mut from: *const u8,
    ) -> Result<(), Status> {
        for part in parts {
            // SAFETY: as the caller promises; the last copy's end is that of all, as they run in order.
            self.last[index] = unsafe { self.queue.write(memory, part, from, &Waits::none(), true) }?;
            from = from.wrapping_add(part.size() as usize);
        }
        self.queue.flush()
    }

    /// Starts copying these parts, one after the other, into piece `index` of the host memory, which begins at `into`.
    ///
    /// # Errors
    /// As [`Self::write`].
    ///
    /// # Safety
    /// As [`Self::write`].
    pub(super) unsafe fn read(
        &mut self,
        index: usize,
        memory: &Memory,
        parts: &[Part],
        mut into: *mut u8,
    ) -> Result<(), Status> {
        for part in parts {
            // SAFETY: as in `write`.
            self.last[index] = Some(unsafe { self.queue.read(memory, part, into, &Waits::none()) }?);
            into = into.wrapping_add(part.size() as usize);
        }
        self.queue.flush()
    }

    /// The last copy of piece `index`, unless it was waited for.
    pub(super) fn last(&self, index: usize) -> Option<&Event> {
        self.last[index].as_ref()
    }

    /// Waits for the last copy of piece `index`.
    ///
    /// # Errors
    /// The status that it ended with.
    pub(super) fn settle(&mut self, index: usize) -> Result<(), Status> {
        self.last[index].take().map_or(Ok(()), |copy| copy.wait())
    }

    /// Waits for all copies.
    ///
    /// # Errors
    /// The status of the first that failed.
    pub(super) fn drain(&mut self) -> Result<(), Status> {
        (0..N).map(|index| self.settle(index)).fold(Ok(()), Result::and)
    }
}

impl<const N: usize> Drop for Copies<N> {
    fn drop(&mut self) {
        // The host memory must not go under a copy.
        let _ = self.drain();
    }
}

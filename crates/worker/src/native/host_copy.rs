//! Copies between a device and host memory.

use ropeway_protocol::types::Status;

use super::{Event, Memory, Part, Queue, Waits};

/// A copy that uses host memory until it has ended. Waits for that when dropped.
#[derive(Debug)]
pub(super) struct HostCopy(Option<Event>);

impl HostCopy {
    /// Starts copying from the host memory at `from` to these parts, one after the other, over a queue that is in order.
    ///
    /// # Errors
    /// The status of the native call that failed.
    ///
    /// # Safety
    /// There are as many bytes as the parts have together, until [`Self::wait`] has returned or this is dropped.
    pub(super) unsafe fn write(
        queue: &Queue,
        memory: &Memory,
        parts: &[Part],
        mut from: *const u8,
    ) -> Result<Self, Status> {
        let mut copy = Self(None);
        for part in parts {
            // SAFETY: as the caller promises; the last one's end is that of all, as they run in order.
            copy.0 = unsafe { queue.write(memory, part, from, &Waits::none(), true) }?;
            from = from.wrapping_add(part.size() as usize);
        }
        queue.flush().map(|()| copy)
    }

    /// Starts copying these parts, one after the other, to the host memory at `into`; as [`Self::write`].
    ///
    /// # Errors
    /// As [`Self::write`].
    ///
    /// # Safety
    /// As [`Self::write`].
    pub(super) unsafe fn read(
        queue: &Queue,
        memory: &Memory,
        parts: &[Part],
        mut into: *mut u8,
    ) -> Result<Self, Status> {
        let mut copy = Self(None);
        for part in parts {
            // SAFETY: as in `write`.
            copy.0 = Some(unsafe { queue.read(memory, part, into, &Waits::none()) }?);
            into = into.wrapping_add(part.size() as usize);
        }
        queue.flush().map(|()| copy)
    }

    /// The event of its end.
    pub(super) fn event(&self) -> Option<&Event> {
        self.0.as_ref()
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// The status that it ended with.
    pub(super) fn wait(mut self) -> Result<(), Status> {
        self.0.take().map_or(Ok(()), |event| event.wait())
    }
}

impl Drop for HostCopy {
    fn drop(&mut self) {
        // The host memory must not go under it.
        let _ = self.0.take().map(|event| event.wait());
    }
}

//! A range of memory that another process sees, through which bytes go to a device and from it.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use ropeway_abi as cl;
use ropeway_protocol::types::Status;
use ropeway_transport::Arena;

use super::host_copy::HostCopy;
use super::part::total;
use super::{Context, Event, Memory, Part, Queue, SharedStorage};

/// Over which queues copies go.
#[derive(Clone, Debug)]
pub struct Queues {
    /// Those from memory objects to host memory.
    pub reads: Arc<Queue>,
    /// Those the other way.
    pub writes: Arc<Queue>,
}

/// A range of an arena, pinned for a context. Drivers pin the memory of a buffer that uses it (CL_MEM_USE_HOST_PTR): NVIDIA's
/// moves 52 GB/s to and from it, where it moves 5 to 16 from other memory. Who uses it says which of its bytes each copy is
/// for, and several may be under way.
///
/// The buffer itself is used for nothing. Its memory is the other process's to write at any time, so nothing of it is borrowed.
#[derive(Debug)]
pub struct PinnedRange {
    queues: Queues,
    base: NonNull<u8>,
    range: Range<u64>,
    arena: Arc<Arena>,
    _memory: Memory,
}

// SAFETY: the address is of shared memory, which belongs to no thread.
unsafe impl Send for PinnedRange {}
// SAFETY: as above; what uses the address is the native implementation alone.
unsafe impl Sync for PinnedRange {}

/// A copy between a device and a [`PinnedRange`]. Waits for its end when dropped.
#[derive(Debug)]
pub struct PinnedCopy {
    // Before the memory: it waits for the copy when dropped.
    copy: HostCopy,
    _range: Arc<PinnedRange>,
}

impl PinnedRange {
    /// These bytes of `arena`, for copies that go over `queues`.
    ///
    /// # Errors
    /// The status of the native call; CL_MEM_OBJECT_ALLOCATION_FAILURE where they are not all in the arena.
    pub fn new(context: &Context, queues: Queues, arena: &Arc<Arena>, range: Range<u64>) -> Result<Self, Status> {
        let memory = Memory::over_arena(context, arena, &range)?;
        Self::of(memory, queues, arena, range)
    }

    /// `size` bytes of `storage`, for copies that go over `queue`.
    ///
    /// # Errors
    /// The status of the native call; CL_MEM_OBJECT_ALLOCATION_FAILURE where there is no memory for them.
    pub fn taken(
        context: &Context,
        queue: &Arc<Queue>,
        storage: &Arc<SharedStorage>,
        size: u64,
    ) -> Result<Self, Status> {
        let memory = Memory::shared(context, cl::CL_MEM_READ_WRITE, size, None, storage)?;
        let at = memory.place_in(storage.arena()).ok_or(cl::CL_MEM_OBJECT_ALLOCATION_FAILURE)?;
        let queues = Queues { reads: queue.clone(), writes: queue.clone() };
        Self::of(memory, queues, storage.arena(), at..at + size)
    }

    fn of(memory: Memory, queues: Queues, arena: &Arc<Arena>, range: Range<u64>) -> Result<Self, Status> {
        let len = usize::try_from(range.end - range.start).map_err(|_| cl::CL_INVALID_BUFFER_SIZE)?;
        let base = arena.address(range.start, len).ok_or(cl::CL_MEM_OBJECT_ALLOCATION_FAILURE)?;
        Ok(Self { queues, base, range, arena: arena.clone(), _memory: memory })
    }

    /// Whether it is in this arena.
    pub fn is_in(&self, arena: &Arc<Arena>) -> bool {
        Arc::ptr_eq(&self.arena, arena)
    }

    /// Which bytes of the arena it is.
    pub fn range(&self) -> &Range<u64> {
        &self.range
    }

    /// The number of 4 bytes at `offset` in it, which the other process may change at any time. `None` where it is not all in it.
    pub(super) fn number(&self, offset: u64) -> Option<&AtomicU32> {
        let at = self.range.start.checked_add(offset)?;
        at.checked_add(4).filter(|end| *end <= self.range.end).and_then(|_| self.arena.number(at))
    }

    /// Starts copying the bytes at `at` in the arena to these parts, one after the other.
    ///
    /// # Errors
    /// The status of the native call that failed; CL_INVALID_VALUE where the bytes are not all in the range.
    pub fn write(self: &Arc<Self>, at: u64, memory: &Memory, parts: &[Part]) -> Result<PinnedCopy, Status> {
        let from = self.address(at, parts)?;
        // SAFETY: the range has so many bytes there, and the copy keeps it until it has ended.
        let copy = unsafe { HostCopy::write(&self.queues.writes, memory, parts, from) }?;
        Ok(PinnedCopy { copy, _range: self.clone() })
    }

    /// Starts copying these parts, one after the other, to `at` in the arena.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn read(self: &Arc<Self>, at: u64, memory: &Memory, parts: &[Part]) -> Result<PinnedCopy, Status> {
        let into = self.address(at, parts)?;
        // SAFETY: as in `write`.
        let copy = unsafe { HostCopy::read(&self.queues.reads, memory, parts, into) }?;
        Ok(PinnedCopy { copy, _range: self.clone() })
    }

    /// The address of as many bytes at `at` in the arena as these parts have.
    pub(super) fn address(&self, at: u64, parts: &[Part]) -> Result<*mut u8, Status> {
        let end = total(parts).and_then(|total| at.checked_add(total)).filter(|end| *end <= self.range.end);
        let offset = at.checked_sub(self.range.start).filter(|_| end.is_some()).ok_or(cl::CL_INVALID_VALUE)?;
        Ok(self.base.as_ptr().wrapping_add(offset as usize))
    }
}

impl PinnedCopy {
    /// The event of its end.
    pub fn event(&self) -> Option<&Event> {
        self.copy.event()
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// The status that it ended with.
    pub fn wait(self) -> Result<(), Status> {
        self.copy.wait()
    }
}

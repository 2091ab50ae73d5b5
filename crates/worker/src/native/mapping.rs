//! Parts of buffers, mapped into the worker's memory.

use std::sync::Arc;

use ropeway_abi as cl;
use ropeway_protocol::types::Status;

use super::api::api;
use super::{Event, Memory, Queue, check, svm, waiting};

/// Part of a buffer, mapped. Unmapped when dropped.
#[derive(Debug)]
pub struct Mapping {
    queue: Arc<Queue>,
    buffer: Arc<Memory>,
    /// Null once unmapped.
    at: *mut u8,
    len: usize,
}

// SAFETY: the mapped memory belongs to this value alone (it hands out slices by its own borrow rules).
unsafe impl Send for Mapping {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a range to be overwritten as a whole; returns when it is mapped. Returns `None` if the address that the
    /// native implementation reports cannot be trusted: the bytes must then go another way.
    ///
    /// # Errors
    /// The status of the native call; CL_INVALID_VALUE when the range leaves the buffer.
    pub fn to_write(queue: &Arc<Queue>, buffer: &Arc<Memory>, offset: u64, size: u64) -> Result<Option<Self>, Status> {
        Self::new(queue, buffer, offset, size, cl::CL_MAP_WRITE_INVALIDATE_REGION)
    }

    /// Maps a range to be read; returns when it is mapped. `None` as for [`Mapping::to_write`].
    ///
    /// # Errors
    /// As [`Mapping::to_write`].
    pub fn to_read(queue: &Arc<Queue>, buffer: &Arc<Memory>, offset: u64, size: u64) -> Result<Option<Self>, Status> {
        Self::new(queue, buffer, offset, size, cl::CL_MAP_READ)
    }

    fn new(
        queue: &Arc<Queue>,
        buffer: &Arc<Memory>,
        offset: u64,
        size: u64,
        flags: u64,
    ) -> Result<Option<Self>, Status> {
        let (offset, len) = buffer.range(offset, size)?;
        let map = || Self::map_natively(queue, buffer, (offset, len), flags);
        // A failed unmap does not matter: from now on, nothing else of the buffer is mapped while a mapping exists.
        let unmap = |at| {
            let _ = Self::unmap_natively(queue, buffer, at);
        };
        let at = buffer.addresses.map(buffer.origin + offset, map, unmap)?;
        Ok(at.map(|at| Self { queue: queue.clone(), buffer: buffer.clone(), at, len }))
    }

    fn map_natively(
        queue: &Queue,
        buffer: &Memory,
        (offset, len): (usize, usize),
        flags: u64,
    ) -> Result<*mut u8, Status> {
        if let Some(memory) = buffer.as_svm() {
            let at = memory.at(offset);
            return svm::map(queue, flags, at, len).map(|()| at);
        }
        let mut at = std::ptr::null_mut();
        waiting::for_command(queue.raw(), |blocking, event| {
            let (map, mut status) = (api().clEnqueueMapBuffer, 0);
            // SAFETY: the range is within the buffer; the memory is used once the command has ended.
            at = unsafe {
                map(queue.raw(), buffer.mem, blocking, flags, offset, len, 0, std::ptr::null(), event, &raw mut status)
            };
            status
        })?;
        if at.is_null() { Err(cl::CL_MAP_FAILURE) } else { Ok(at.cast()) }
    }

    /// Unmaps what was mapped at `at`, and waits for the end of that.
    fn unmap_natively(queue: &Queue, buffer: &Memory, at: *mut u8) -> Result<(), Status> {
        if buffer.as_svm().is_some() {
            return svm::unmap(queue, at)?.wait();
        }
        let mut event = std::ptr::null_mut();
        // SAFETY: `at` was returned by a map call on this buffer; the callers do not use it afterwards.
        check(unsafe {
            (api().clEnqueueUnmapMemObject)(queue.raw(), buffer.mem, at.cast(), 0, std::ptr::null(), &raw mut event)
        })?;
        Event::owned(event).wait()
    }

    /// Maps the whole of a buffer in pinned memory, to be read and written. Nobody else maps anything of it.
    pub(super) fn pinned(queue: &Arc<Queue>, buffer: &Arc<Memory>, size: u64) -> Result<Self, Status> {
        Self::new(queue, buffer, 0, size, cl::CL_MAP_READ | cl::CL_MAP_WRITE)?.ok_or(cl::CL_MAP_FAILURE)
    }

    /// The address of the byte at `offset`, which must be in the mapping.
    pub(super) fn pointer_to(&self, offset: usize) -> *mut u8 {
        assert!(offset < self.len, "an offset within the mapping");
        self.at.wrapping_add(offset)
    }

    /// The mapped bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the native implementation mapped `len` bytes there until they are unmapped. Device memory that a
        // kernel changes meanwhile is the application's own race; the bytes are only ever copied out.
        unsafe { std::slice::from_raw_parts(self.at, self.len) }
    }

    /// The mapped bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.len) }
    }

    /// Unmaps and waits until what was written is in the buffer.
    ///
    /// # Errors
    /// The status of the native call that failed.
    pub fn unmap(mut self) -> Result<(), Status> {
        self.give_back()
    }

    fn give_back(&mut self) -> Result<(), Status> {
        let at = std::mem::replace(&mut self.at, std::ptr::null_mut());
        self.buffer.addresses.unmap(|| Self::unmap_natively(&self.queue, &self.buffer, at))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if !self.at.is_null() {
            // A failure has nobody to go to: the transfer was given up.
            let _ = self.give_back();
        }
    }
}

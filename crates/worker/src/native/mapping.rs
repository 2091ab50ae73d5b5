//! Host memory that large transfers go through: a mapped buffer, or a ring of pinned chunks.

use std::sync::Arc;

use ropeway_abi as cl;
use ropeway_protocol::types::Status;

use super::api::api;
use super::{Context, Event, Memory, Part, Queue, Waits, check, svm, waiting};

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

/// Bytes of one chunk of a [`Ring`].
pub const RING_CHUNK: usize = ropeway_protocol::limits::CHUNK;

/// Chunks of a [`Ring`]: enough that the network and the device's copies overlap.
const RING_CHUNKS: usize = 8;

/// A ring of chunks of pinned memory (CL_MEM_ALLOC_HOST_PTR, mapped once): the fastest way to and from a GPU.
///
/// Each chunk carries the event of the copy that uses it, and its memory is given out only once that has ended.
#[derive(Debug)]
pub struct Ring {
    memory: Mapping,
    queue: Arc<Queue>,
    copies: [Option<Event>; RING_CHUNKS],
    next: usize,
}

impl Ring {
    /// A ring whose copies go over `queue`.
    ///
    /// # Errors
    /// The status of the native call that failed.
    pub fn new(context: &Context, queue: &Arc<Queue>) -> Result<Self, Status> {
        let flags = cl::CL_MEM_READ_WRITE | cl::CL_MEM_ALLOC_HOST_PTR;
        let size = (RING_CHUNK * RING_CHUNKS) as u64;
        let buffer = Arc::new(Memory::buffer(context, flags, size, None)?);
        let memory = Mapping::pinned(queue, &buffer, size)?;
        Ok(Self { memory, queue: queue.clone(), copies: Default::default(), next: 0 })
    }

    /// How many copies can be under way at once.
    pub fn depth(&self) -> usize {
        RING_CHUNKS
    }

    /// Waits until the next chunk's last copy has ended, and gives its memory.
    ///
    /// # Errors
    /// The status that the copy ended with.
    pub fn chunk(&mut self) -> Result<&mut [u8], Status> {
        self.settle(self.next)?;
        let start = self.next * RING_CHUNK;
        Ok(&mut self.memory.bytes_mut()[start..start + RING_CHUNK])
    }

    /// Starts copying the first bytes of the next chunk into these parts, one after the other, and moves on to the
    /// chunk after it.
    ///
    /// # Errors
    /// The status of the native call that failed; CL_INVALID_VALUE when the parts have more bytes than a chunk.
    pub fn write(&mut self, memory: &Memory, pieces: &[Part]) -> Result<(), Status> {
        let len = chunk_bytes(pieces)?;
        let mut from = self.chunk()?[..len].as_ptr();
        for piece in pieces {
            // SAFETY: pieces have `len` bytes together, which the chunk has; it is not given out or overwritten before
            // `settle` has seen the end of the last copy, and with it, as they run in order, of all.
            self.copies[self.next] = unsafe { self.queue.write(memory, piece, from, &Waits::none(), true) }?;
            from = from.wrapping_add(piece.size() as usize);
        }
        self.start()
    }

    /// Starts copying these parts, one after the other, into the next chunk, and moves on; returns the chunk's number.
    ///
    /// # Errors
    /// As [`Ring::write`].
    pub fn read(&mut self, memory: &Memory, pieces: &[Part]) -> Result<usize, Status> {
        let index = self.next;
        let len = chunk_bytes(pieces)?;
        let mut into = self.chunk()?[..len].as_mut_ptr();
        for piece in pieces {
            // SAFETY: as in `write`.
            self.copies[index] = Some(unsafe { self.queue.read(memory, piece, into, &Waits::none()) }?);
            into = into.wrapping_add(piece.size() as usize);
        }
        self.start()?;
        Ok(index)
    }

    /// Waits for the copy into chunk `index`, and gives the chunk's memory.
    ///
    /// # Errors
    /// The status that the copy ended with.
    pub fn copied(&mut self, index: usize) -> Result<&[u8], Status> {
        self.settle(index)?;
        Ok(&self.memory.bytes()[index * RING_CHUNK..(index + 1) * RING_CHUNK])
    }

    /// Waits for all copies.
    ///
    /// # Errors
    /// The status of the first copy that failed.
    pub fn drain(&mut self) -> Result<(), Status> {
        (0..RING_CHUNKS).map(|index| self.settle(index)).fold(Ok(()), Result::and)
    }

    fn start(&mut self) -> Result<(), Status> {
        self.next = (self.next + 1) % RING_CHUNKS;
        self.queue.flush()
    }

    fn settle(&mut self, index: usize) -> Result<(), Status> {
        match self.copies[index].take() {
            Some(event) => event.wait(),
            None => Ok(()),
        }
    }
}

/// Returns the total size of the pieces, if it fits into a chunk.
fn chunk_bytes(pieces: &[Part]) -> Result<usize, Status> {
    let total = pieces.iter().try_fold(0_u64, |sum, piece| sum.checked_add(piece.size()));
    total.filter(|total| *total <= RING_CHUNK as u64).map(|total| total as usize).ok_or(cl::CL_INVALID_VALUE)
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The memory must not be unmapped under a copy.
        let _ = self.drain();
    }
}

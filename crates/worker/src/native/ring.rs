//! A ring of pinned memory, through which bytes go that arrive over a socket or leave over it.

use std::sync::Arc;

use ropeway_abi as cl;
use ropeway_protocol::types::Status;

use super::host_copy::HostCopy;
use super::part::total;
use super::{Context, Mapping, Memory, Part, Queue};

/// Bytes of one chunk of a [`Ring`].
pub const RING_CHUNK: usize = ropeway_protocol::limits::CHUNK;

/// Chunks of a [`Ring`]: enough that the network and the device's copies overlap.
const RING_CHUNKS: usize = 8;

/// A ring of chunks of pinned memory (CL_MEM_ALLOC_HOST_PTR, mapped once): the fastest way to and from a GPU.
///
/// The memory of each chunk is given out only once the copy that uses it has ended.
#[derive(Debug)]
pub struct Ring {
    // Before the memory: it waits for copies when dropped.
    copies: [Option<HostCopy>; RING_CHUNKS],
    memory: Mapping,
    queue: Arc<Queue>,
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
        Ok(Self { copies: Default::default(), memory, queue: queue.clone(), next: 0 })
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
        let from = self.chunk()?[..len].as_ptr();
        // SAFETY: pieces have `len` bytes together, which the chunk has; it is given out again only by `chunk`.
        self.copies[self.next] = Some(unsafe { HostCopy::write(&self.queue, memory, pieces, from) }?);
        self.next = (self.next + 1) % RING_CHUNKS;
        Ok(())
    }

    /// Starts copying these parts, one after the other, into the next chunk, and moves on; returns the chunk's number.
    ///
    /// # Errors
    /// As [`Ring::write`].
    pub fn read(&mut self, memory: &Memory, pieces: &[Part]) -> Result<usize, Status> {
        let index = self.next;
        let len = chunk_bytes(pieces)?;
        let into = self.chunk()?[..len].as_mut_ptr();
        // SAFETY: as in `write`; `copied` gives the chunk out as well.
        self.copies[index] = Some(unsafe { HostCopy::read(&self.queue, memory, pieces, into) }?);
        self.next = (index + 1) % RING_CHUNKS;
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

    fn settle(&mut self, index: usize) -> Result<(), Status> {
        self.copies[index].take().map_or(Ok(()), HostCopy::wait)
    }
}

/// Returns the total size of the pieces, if it fits into a chunk.
fn chunk_bytes(pieces: &[Part]) -> Result<usize, Status> {
    total(pieces).filter(|total| *total <= RING_CHUNK as u64).map(|total| total as usize).ok_or(cl::CL_INVALID_VALUE)
}

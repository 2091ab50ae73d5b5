//! A pool of pinned memory for small reads and writes.
//!
//! Reading four bytes from an H200 takes 15 us into ordinary memory and 7 us into pinned memory.

use std::sync::{Arc, Mutex, PoisonError};

use ropeway_abi as cl;
use ropeway_protocol::types::Status;

use super::mapping::Mapping;
use super::{Context, Memory, Queue};

/// Bytes of one block.
const BLOCK: usize = 1 << 10;

/// Blocks of a pool: 1 MiB in all, so that pinning it takes little time.
const BLOCKS: usize = 1024;

/// Which blocks are taken, and where to look first for free ones.
#[derive(Debug)]
struct Blocks {
    taken: [bool; BLOCKS],
    next: usize,
}

/// The pool of one context.
#[derive(Debug)]
pub struct PinnedPool {
    memory: Mapping,
    blocks: Mutex<Blocks>,
}

/// Some bytes of a pool, given back when dropped.
#[derive(Debug)]
pub struct PinnedPiece {
    pool: Arc<PinnedPool>,
    first: usize,
    len: usize,
}

impl PinnedPool {
    /// A pool in `context`.
    ///
    /// # Errors
    /// The status of the native call that failed.
    pub fn new(context: &Context, queue: &Arc<Queue>) -> Result<Arc<Self>, Status> {
        let flags = cl::CL_MEM_READ_WRITE | cl::CL_MEM_ALLOC_HOST_PTR;
        let size = (BLOCK * BLOCKS) as u64;
        let buffer = Arc::new(Memory::buffer(context, flags, size, None)?);
        let memory = Mapping::pinned(queue, &buffer, size)?;
        Ok(Arc::new(Self { memory, blocks: Mutex::new(Blocks { taken: [false; BLOCKS], next: 0 }) }))
    }

    /// `len` bytes, if that many are free in one piece.
    pub fn take(self: &Arc<Self>, len: usize) -> Option<PinnedPiece> {
        let first = self.blocks.lock().unwrap_or_else(PoisonError::into_inner).take(len.div_ceil(BLOCK))?;
        Some(PinnedPiece { pool: self.clone(), first, len })
    }
}

impl Blocks {
    /// Takes the first `count` free blocks in a row; returns the number of the first.
    fn take(&mut self, count: usize) -> Option<usize> {
        let fits = |at: usize| self.taken[at..].len() >= count && !self.taken[at..at + count].contains(&true);
        let first = (self.next..BLOCKS).chain(0..self.next).find(|at| fits(*at))?;
        self.taken[first..first + count].fill(true);
        self.next = (first + count) % BLOCKS;
        Some(first)
    }
}

impl PinnedPiece {
    /// Where it begins. The memory is this piece's alone until it is dropped.
    pub(super) fn pointer(&self) -> *mut u8 {
        self.pool.memory.pointer_to(self.first * BLOCK)
    }

    /// How many bytes.
    pub(super) fn size(&self) -> usize {
        self.len
    }

    /// The bytes; nothing may be writing them.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the piece's blocks lie within the mapping, which the pool keeps; the caller knows that the read into
        // them has ended.
        unsafe { std::slice::from_raw_parts(self.pointer(), self.len) }
    }

    /// The same, to be written; no command may be reading them.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; the blocks are this piece's alone.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(), self.len) }
    }
}

impl Drop for PinnedPiece {
    fn drop(&mut self) {
        let count = self.len.div_ceil(BLOCK);
        let mut blocks = self.pool.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.taken[self.first..self.first + count].fill(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_taken_once_and_in_one_piece() {
        let mut blocks = Blocks { taken: [false; BLOCKS], next: 0 };
        assert_eq!(blocks.take(BLOCKS + 1), None);
        assert_eq!(blocks.take(1), Some(0));
        assert_eq!(blocks.take(BLOCKS - 56), Some(1));
        assert_eq!(blocks.take(100), None);
        assert_eq!(blocks.take(55), Some(BLOCKS - 55));
        assert_eq!(blocks.take(1), None);
        blocks.taken[10..20].fill(false);
        assert_eq!(blocks.take(11), None);
        assert_eq!(blocks.take(10), Some(10));
    }
}

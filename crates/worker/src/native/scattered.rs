//! Mapped ranges of a buffer, filled in pieces by several threads at once.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ropeway_abi as cl;
use ropeway_protocol::limits::CHUNK;
use ropeway_protocol::types::Status;
use smallvec::SmallVec;

use super::{Mapping, Memory, Queue, Ranges};

/// Mapped ranges, whose packed bytes are given out in chunks of [`CHUNK`] bytes. Unmapped when dropped.
#[derive(Debug)]
pub struct Scattered {
    ranges: Arc<Ranges>,
    /// Where each is mapped.
    at: Vec<Address>,
    /// Empty once unmapped.
    mappings: Mutex<Vec<Mapping>>,
    /// Whether each chunk was given out to be written.
    given: Vec<AtomicBool>,
    /// How many of them are back.
    back: AtomicUsize,
    /// Whether they are mapped to be read, and never given out to be written.
    reads: bool,
}

/// The first byte of a mapping.
#[derive(Clone, Copy, Debug)]
struct Address(*mut u8);

// SAFETY: what the address leads to is given out under the rules of `Scattered`.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

/// A chunk to be written, which nobody else has.
pub struct Given<'a> {
    /// Its bytes, range after range.
    pub slices: SmallVec<[&'a mut [u8]; 2]>,
    whole: &'a Scattered,
}

impl Drop for Given<'_> {
    fn drop(&mut self) {
        self.whole.back.fetch_add(1, Ordering::AcqRel);
    }
}

impl Scattered {
    /// Maps ranges to be overwritten as a whole; returns when they are mapped. `None` as for [`Mapping::to_write`].
    ///
    /// # Errors
    /// The status of the native call; CL_INVALID_VALUE when a range leaves the buffer.
    pub fn to_write(queue: &Arc<Queue>, buffer: &Arc<Memory>, ranges: &Arc<Ranges>) -> Result<Option<Self>, Status> {
        Self::new(ranges, false, |offset, size| Mapping::to_write(queue, buffer, offset, size))
    }

    /// Maps ranges to be read; returns when they are mapped. `None` as for [`Mapping::to_write`].
    ///
    /// # Errors
    /// As [`Scattered::to_write`].
    pub fn to_read(queue: &Arc<Queue>, buffer: &Arc<Memory>, ranges: &Arc<Ranges>) -> Result<Option<Self>, Status> {
        Self::new(ranges, true, |offset, size| Mapping::to_read(queue, buffer, offset, size))
    }

    fn new(
        ranges: &Arc<Ranges>,
        reads: bool,
        map: impl Fn(u64, u64) -> Result<Option<Mapping>, Status>,
    ) -> Result<Option<Self>, Status> {
        let mut mappings = Vec::with_capacity(ranges.list().len());
        for (offset, size) in ranges.list() {
            match map(*offset, *size)? {
                Some(mapping) => mappings.push(mapping),
                None => return Ok(None),
            }
        }
        let at = mappings.iter().map(|mapping| Address(mapping.pointer_to(0))).collect();
        let given = (0..ranges.size().div_ceil(CHUNK as u64)).map(|_| AtomicBool::new(false)).collect();
        let (ranges, mappings) = (ranges.clone(), Mutex::new(mappings));
        Ok(Some(Self { ranges, at, mappings, given, back: AtomicUsize::new(0), reads }))
    }

    /// The bytes of the chunk of this number, to be written; `None` if they were given out before.
    pub fn chunk_mut(&self, index: usize) -> Option<Given<'_>> {
        if self.reads || self.given.get(index)?.swap(true, Ordering::AcqRel) {
            return None;
        }
        let slices = self.stretch(index).map(|(at, len)| {
            // SAFETY: the bytes are mapped: `land`, `finish` and `drop` come only when all that was given out is back.
            // Chunks do not overlap, as ranges do not, and each is given out once.
            unsafe { std::slice::from_raw_parts_mut(at, len) }
        });
        Some(Given { slices: slices.collect(), whole: self })
    }

    /// Returns the bytes of chunk `index` if the ranges are mapped to be read; otherwise none.
    pub fn chunk(&self, index: usize) -> SmallVec<[&[u8]; 2]> {
        if !self.reads {
            return SmallVec::new();
        }
        let slices = self.stretch(index).map(|(at, len)| {
            // SAFETY: as in `chunk_mut`, and nobody is given any of these to be written.
            unsafe { std::slice::from_raw_parts(at.cast_const(), len) }
        });
        slices.collect()
    }

    fn stretch(&self, index: usize) -> impl Iterator<Item = (*mut u8, usize)> {
        let stretch = self.ranges.stretch(index as u64 * CHUNK as u64, CHUNK as u64);
        stretch.map(|(range, from, len)| (self.at[range].0.wrapping_add(from as usize), len as usize))
    }

    /// Unmaps what was mapped to be written, and waits until it is in the buffer; `whole` if all of it was to be
    /// written.
    ///
    /// # Errors
    /// The status of the native call that failed; CL_INVALID_OPERATION while a chunk is missing.
    pub fn land(&self, whole: bool) -> Result<(), Status> {
        let given = self.given.iter().filter(|given| given.load(Ordering::Acquire)).count();
        if self.back.load(Ordering::Acquire) < if whole { self.given.len() } else { given } {
            return Err(cl::CL_INVALID_OPERATION);
        }
        self.unmap()
    }

    /// Unmaps what was mapped to be read, and waits until that is done.
    ///
    /// # Errors
    /// The status of the native call that failed.
    pub fn finish(self) -> Result<(), Status> {
        self.unmap()
    }

    fn unmap(&self) -> Result<(), Status> {
        let mappings = std::mem::take(&mut *self.mappings.lock().unwrap_or_else(PoisonError::into_inner));
        mappings.into_iter().map(Mapping::unmap).fold(Ok(()), Result::and)
    }
}

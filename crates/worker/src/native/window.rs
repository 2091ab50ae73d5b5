//! Memory that the client sees and the device reaches fast: what goes between the program and a device with memory of its
//! own is copied by the one and by the other, and by nobody between.

use std::sync::Arc;

use ropeway_abi as cl;
use ropeway_protocol::types::Status;

use super::part::total;
use super::{Context, Memory, Part, PinnedCopy, PinnedRange, Queue, SharedStorage};

/// A window of the memory that worker and client share, in slots, each with the last copy that has used it.
#[derive(Debug)]
pub struct Window {
    range: Arc<PinnedRange>,
    copies: [Option<PinnedCopy>; Self::SLOTS],
}

impl Window {
    /// How many slots one has: enough that the client's copies and the device's overlap.
    pub const SLOTS: usize = 4;

    /// Bytes of a slot.
    pub const SLOT: usize = 2 << 20;

    /// A window in `storage` whose copies go over `queue`.
    ///
    /// # Errors
    /// The status of the native call; CL_MEM_OBJECT_ALLOCATION_FAILURE where there is no memory for it.
    pub fn new(context: &Context, queue: &Arc<Queue>, storage: &Arc<SharedStorage>) -> Result<Self, Status> {
        let size = (Self::SLOTS * Self::SLOT) as u64;
        let range = PinnedRange::taken(context, queue, storage, size)?;
        Ok(Self { range: Arc::new(range), copies: Default::default() })
    }

    /// Where a slot begins in the arena.
    pub fn place(&self, slot: usize) -> u64 {
        self.range.range().start + (slot % Self::SLOTS * Self::SLOT) as u64
    }

    /// Starts copying a slot's first bytes to these parts, one after the other.
    ///
    /// # Errors
    /// The status of the native call that failed; CL_INVALID_VALUE where the parts have more bytes than a slot.
    pub fn write(&mut self, slot: usize, memory: &Memory, parts: &[Part]) -> Result<(), Status> {
        fits(parts)?;
        self.copies[slot % Self::SLOTS] = Some(self.range.write(self.place(slot), memory, parts)?);
        Ok(())
    }

    /// Starts copying these parts, one after the other, into a slot.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn read(&mut self, slot: usize, memory: &Memory, parts: &[Part]) -> Result<(), Status> {
        fits(parts)?;
        self.copies[slot % Self::SLOTS] = Some(self.range.read(self.place(slot), memory, parts)?);
        Ok(())
    }

    /// Waits until the copy that uses a slot has ended.
    ///
    /// # Errors
    /// The status that it ended with.
    pub fn settle(&mut self, slot: usize) -> Result<(), Status> {
        self.copies[slot % Self::SLOTS].take().map_or(Ok(()), PinnedCopy::wait)
    }

    /// Waits for all copies.
    ///
    /// # Errors
    /// The status of the first that failed.
    pub fn drain(&mut self) -> Result<(), Status> {
        (0..Self::SLOTS).map(|slot| self.settle(slot)).fold(Ok(()), Result::and)
    }
}

/// Holds the size of these parts against a slot's.
fn fits(parts: &[Part]) -> Result<(), Status> {
    total(parts).filter(|total| *total <= Window::SLOT as u64).map(drop).ok_or(cl::CL_INVALID_VALUE)
}

//! Memory that the client sees and the device reaches fast: what goes between the program and a device with memory of its
//! own is copied by the one and by the other, and by nobody between.

use std::ptr::NonNull;
use std::sync::Arc;

use ropeway_abi as cl;
use ropeway_protocol::types::Status;

use super::copies::Copies;
use super::{Context, Memory, Part, Queue, SharedStorage};

/// A window of the memory that worker and client share, in slots. Drivers pin the memory of a buffer that uses it
/// (CL_MEM_USE_HOST_PTR): NVIDIA's moves 52 GB/s to and from it, where it moves 5 to 16 from other memory.
///
/// The buffer itself is used for nothing. Its memory is the client's to write at any time, so nothing of it is borrowed.
#[derive(Debug)]
pub struct Window {
    // Before the memory: it waits for copies when dropped.
    copies: Copies<{ Self::SLOTS }>,
    at: NonNull<u8>,
    place: u64,
    _memory: Memory,
}

// SAFETY: the address is of shared memory, which belongs to no thread.
unsafe impl Send for Window {}

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
        const SIZE: usize = Window::SLOTS * Window::SLOT;
        let memory = Memory::shared(context, cl::CL_MEM_READ_WRITE, SIZE as u64, None, storage)?;
        let place = memory.place_in(storage.arena());
        let at = place.and_then(|place| Some((storage.arena().address(place, SIZE)?, place)));
        let (at, place) = at.ok_or(cl::CL_MEM_OBJECT_ALLOCATION_FAILURE)?;
        Ok(Self { copies: Copies::new(queue), at, place, _memory: memory })
    }

    /// Where a slot begins in the arena.
    pub fn place(&self, slot: usize) -> u64 {
        self.place + (slot % Self::SLOTS * Self::SLOT) as u64
    }

    /// Starts copying a slot's first bytes to these parts, one after the other.
    ///
    /// # Errors
    /// The status of the native call that failed; CL_INVALID_VALUE where the parts have more bytes than a slot.
    pub fn write(&mut self, slot: usize, memory: &Memory, parts: &[Part]) -> Result<(), Status> {
        let (slot, at) = self.slot(slot, parts)?;
        // SAFETY: the slot has so many bytes, and stays until all copies have ended.
        unsafe { self.copies.write(slot, memory, parts, at) }
    }

    /// Starts copying these parts, one after the other, into a slot.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn read(&mut self, slot: usize, memory: &Memory, parts: &[Part]) -> Result<(), Status> {
        let (slot, at) = self.slot(slot, parts)?;
        // SAFETY: as in `write`.
        unsafe { self.copies.read(slot, memory, parts, at) }
    }

    /// Waits until the copy that uses a slot has ended.
    ///
    /// # Errors
    /// The status that it ended with.
    pub fn settle(&mut self, slot: usize) -> Result<(), Status> {
        self.copies.settle(slot % Self::SLOTS)
    }

    /// Waits for all copies.
    ///
    /// # Errors
    /// The status of the first that failed.
    pub fn drain(&mut self) -> Result<(), Status> {
        self.copies.drain()
    }

    /// A slot's number and address, if it has room for these parts.
    fn slot(&self, slot: usize, parts: &[Part]) -> Result<(usize, *mut u8), Status> {
        let total = parts.iter().try_fold(0_u64, |sum, part| sum.checked_add(part.size()));
        total.filter(|total| *total <= Self::SLOT as u64).ok_or(cl::CL_INVALID_VALUE)?;
        let slot = slot % Self::SLOTS;
        Ok((slot, self.at.as_ptr().wrapping_add(slot * Self::SLOT)))
    }
}

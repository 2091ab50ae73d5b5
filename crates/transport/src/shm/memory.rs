//! Memory that two processes share: a sealed memfd, mapped by both.
//!
//! The other process may write anything there at any time. So nothing is ever borrowed from this memory: bytes are
//! copied out before they are looked at, and each number is read once, as an atomic.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

/// Without these, the other process could shorten the file, and a later access would end this one.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Shared memory, mapped as long as the value lives.
#[derive(Debug)]
pub(crate) struct Memory {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the value owns its mapping, and gives access to it by copies and atomics alone.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Makes `len` bytes, all zero; the file is for the other process.
    ///
    /// # Errors
    /// The operating system's error.
    pub(super) fn create(len: usize) -> io::Result<(Self, OwnedFd)> {
        let file = memfd_create("ropeway-link", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, len as u64)?;
        fcntl_add_seals(&file, SEALS)?;
        Ok((Self::map(&file, len)?, file))
    }

    /// Maps what another process has made.
    ///
    /// # Errors
    /// The operating system's error; [`ErrorKind::InvalidData`] for a file that is not sealed, or not of `len` bytes.
    pub(super) fn open(file: &OwnedFd, len: usize) -> io::Result<Self> {
        let is_sealed = fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SEALS));
        if !is_sealed || u64::try_from(fstat(file)?.st_size) != Ok(len as u64) {
            return Err(io::Error::new(ErrorKind::InvalidData, "the memory that it shares is not what was agreed on"));
        }
        Self::map(file, len)
    }

    fn map(file: &OwnedFd, len: usize) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address that the system chooses, touches no other memory.
        let base = unsafe { mmap(std::ptr::null_mut(), len, access, MapFlags::SHARED, file.as_fd(), 0) }?;
        let base = NonNull::new(base.cast()).ok_or(ErrorKind::OutOfMemory)?;
        let memory = Self { base, len };
        // SAFETY: it is the mapping just made; a child that the program forks has no use for it.
        unsafe { madvise(memory.base.as_ptr().cast(), len, Advice::LinuxDontFork) }?;
        Ok(memory)
    }

    /// The address of `len` bytes at `at`.
    ///
    /// # Panics
    /// They are not all in the memory; callers use offsets of their own, never the other process's.
    fn bytes(&self, at: usize, len: usize) -> NonNull<u8> {
        assert!(at <= self.len && len <= self.len - at, "{len} bytes at {at} of {}", self.len);
        // SAFETY: checked just now.
        unsafe { self.base.add(at) }
    }

    /// The number at `at`, a multiple of 8.
    pub(crate) fn position(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(align_of::<AtomicU64>()));
        // SAFETY: the address is in the mapping, which lives as long as the reference, and is aligned; all values are
        // valid; and within this process it is used as an atomic only.
        unsafe { self.bytes(at, size_of::<AtomicU64>()).cast().as_ref() }
    }

    /// The number at `at`, a multiple of 4.
    pub(super) fn flag(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(align_of::<AtomicU32>()));
        // SAFETY: as in `position`.
        unsafe { self.bytes(at, size_of::<AtomicU32>()).cast().as_ref() }
    }

    /// Copies `bytes` to `at`.
    pub(super) fn copy_in(&self, at: usize, bytes: &[u8]) {
        let to = self.bytes(at, bytes.len());
        // SAFETY: both are as long as that. They do not overlap: no reference into the mapping's data exists. Should the
        // other process access them now, bytes without a meaning yet are mixed up, by its own fault.
        unsafe { to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
    }

    /// Copies what is at `at` to `into`.
    pub(super) fn copy_out(&self, at: usize, into: &mut [u8]) {
        let from = self.bytes(at, into.len());
        // SAFETY: as in `copy_in`; any value is one for a byte.
        unsafe { from.copy_to_nonoverlapping(NonNull::from(&mut *into).cast(), into.len()) };
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: nothing refers to the mapping any more: references to it borrow the value.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}

//! Memory that two processes share: a sealed memfd, mapped by both.
//!
//! The other process may write anything there at any time. So nothing is ever borrowed from this memory: bytes are
//! copied out before they are looked at, and each number is read once, as an atomic.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, MremapFlags, ProtFlags, madvise, mmap, mmap_anonymous, mprotect, mremap,
    mremap_fixed, munmap,
};
use rustix::process::{Resource, getrlimit};

/// Without these, the other process could shorten the file, and a later access would end this one.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Shared memory, mapped as long as the value lives.
#[derive(Debug)]
pub(crate) struct Memory {
    base: NonNull<u8>,
    len: usize,
    /// Whether it is a device's: the processor may then write it in another order than the program does.
    is_device: bool,
}

// SAFETY: the value owns its mapping, and gives access to it by copies and atomics alone.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// Makes a file of `len` bytes, all zero, which nobody can make longer or shorter.
///
/// # Errors
/// The operating system's error; [`ErrorKind::FileTooLarge`] where this process may make none that large.
pub(super) fn make_file(len: u64) -> io::Result<OwnedFd> {
    // Beyond the limit, the system would not return an error, but end the process.
    if getrlimit(Resource::Fsize).current.is_some_and(|most| most < len) {
        return Err(ErrorKind::FileTooLarge.into());
    }
    let file = memfd_create("ropeway-link", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, len)?;
    fcntl_add_seals(&file, SEALS)?;
    Ok(file)
}

/// Returns the length in bytes of a file that another process has made with [`make_file`].
///
/// # Errors
/// The operating system's error; [`ErrorKind::InvalidData`] for a file that is not sealed.
pub(super) fn len_of(file: &OwnedFd) -> io::Result<u64> {
    let is_sealed = fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SEALS));
    u64::try_from(fstat(file)?.st_size).ok().filter(|_| is_sealed).ok_or_else(unexpected)
}

/// The file is not what a client of Ropeway makes.
pub(super) fn unexpected() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "the memory that it shares is not what was agreed on")
}

impl Memory {
    /// Maps these bytes of a file, which has them, and begins and ends at whole pages.
    ///
    /// # Errors
    /// The operating system's error.
    pub(crate) fn map(file: &OwnedFd, bytes: Range<u64>) -> io::Result<Self> {
        let memory = Self::map_with(file, bytes, ProtFlags::READ | ProtFlags::WRITE)?;
        // SAFETY: it is the mapping just made; a child that the program forks has no use for it.
        unsafe { madvise(memory.base.as_ptr().cast(), memory.len, Advice::LinuxDontFork) }?;
        Ok(memory)
    }

    /// As [`Self::map`], for the memory of a device, of which children have what their parent has mapped.
    ///
    /// # Errors
    /// As [`Self::map`].
    pub(super) fn map_device(file: &OwnedFd, bytes: Range<u64>) -> io::Result<Self> {
        let mut memory = Self::map_with(file, bytes, ProtFlags::READ | ProtFlags::WRITE)?;
        memory.is_device = true;
        Ok(memory)
    }

    /// As [`Self::map`], but nothing of it can be used before [`Self::open_up`]: so what is reserved costs addresses and
    /// nothing else, even where the program has all its memory locked. Children have it, too, as they may read what their
    /// parent has mapped.
    ///
    /// # Errors
    /// The operating system's error.
    pub(super) fn reserve(file: &OwnedFd, bytes: Range<u64>) -> io::Result<Self> {
        Self::map_with(file, bytes, ProtFlags::empty())
    }

    fn map_with(file: &OwnedFd, bytes: Range<u64>, access: ProtFlags) -> io::Result<Self> {
        let len = usize::try_from(bytes.end - bytes.start).map_err(|_| ErrorKind::OutOfMemory)?;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a new mapping, at an address that the system chooses, touches no other memory.
        let base = unsafe { mmap(std::ptr::null_mut(), len, access, flags, file.as_fd(), bytes.start) }?;
        let base = NonNull::new(base.cast()).ok_or(ErrorKind::OutOfMemory)?;
        let memory = Self { base, len, is_device: false };
        // SAFETY: it is the mapping just made; a core dump would have all of an arena, which says little of this process.
        unsafe { madvise(memory.base.as_ptr().cast(), len, Advice::LinuxDontDump) }?;
        Ok(memory)
    }

    /// Makes the first `len` bytes of what was reserved usable; whole pages.
    ///
    /// # Errors
    /// The operating system's error.
    pub(super) fn open_up(&self, len: usize) -> io::Result<()> {
        let base = self.bytes(0, len);
        // SAFETY: these bytes are in the mapping, which was made for reading and writing.
        unsafe { mprotect(base.as_ptr().cast(), len, MprotectFlags::READ | MprotectFlags::WRITE) }?;
        Ok(())
    }

    /// Has the system bring in the pages of these bytes, whole ones, with one call: each would otherwise cost a fault when it
    /// is first touched, in the midst of something that somebody waits for.
    pub(super) fn bring_in(&self, bytes: Range<usize>) {
        let base = self.bytes(bytes.start, bytes.len());
        // SAFETY: these bytes are in the mapping, and stay as they are. A system that does not know this (Linux before 5.14), or
        // has no memory to spare, refuses, and the pages come as they are touched.
        let _ = unsafe { madvise(base.as_ptr().cast(), bytes.len(), Advice::LinuxPopulateWrite) };
    }

    /// Gives the pages of these bytes back to the system, for all processes; the bytes are zero then.
    ///
    /// # Errors
    /// The operating system's error.
    pub(super) fn give_back(&self, at: usize, len: usize) -> io::Result<()> {
        let base = self.bytes(at, len);
        // SAFETY: these bytes are in the mapping, and any value is one for a byte.
        unsafe { madvise(base.as_ptr().cast(), len, Advice::LinuxRemove) }?;
        Ok(())
    }

    /// Puts private memory in its place, all zero: what this process still does there concerns nobody else. What it still has
    /// mapped stays mapped.
    pub(super) fn detach(&self) {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the mapping is this value's own, and any value is one for a byte; no reference to its bytes is kept but
        // those of atomics, which stay at their addresses.
        let _ = unsafe { mmap_anonymous(self.base.as_ptr().cast(), self.len, access, flags) };
    }

    /// Whether it was mapped by [`Self::map_device`].
    pub(super) fn is_device(&self) -> bool {
        self.is_device
    }

    /// How many bytes it has.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Where it is in this process.
    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
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
        // SAFETY: both are as long as that; they may overlap where the program gives what it has mapped. Should the other
        // process access them now, bytes without a meaning yet are mixed up, by its own fault.
        unsafe { to.copy_from(NonNull::from(bytes).cast(), bytes.len()) };
        self.keep_order();
    }

    /// Copies what is at `at` to `into`.
    pub(crate) fn copy_out(&self, at: usize, into: &mut [u8]) {
        let from = self.bytes(at, into.len());
        self.keep_order();
        // SAFETY: as in `copy_in`; any value is one for a byte.
        unsafe { from.copy_to(NonNull::from(&mut *into).cast(), into.len()) };
    }

    /// What this thread has written there before is there before what it writes next, and what it reads next is read after
    /// what it has read before: processors collect what goes to the memory of a device, which atomics know nothing of.
    fn keep_order(&self) {
        if self.is_device {
            fence(Ordering::SeqCst);
        }
    }
}

/// Why pages were not mapped a second time.
#[derive(Debug)]
pub enum NotMapped {
    /// Everything is as it was.
    Refused(io::Error),
    /// What was to be replaced may be gone: nobody may use those addresses any more, nor give them back.
    Lost(io::Error),
}

/// Maps `len` bytes from `pages` on, all of one shared mapping, a second time, at `at`, instead of what is there. Both see
/// the same bytes from then on.
///
/// # Errors
/// As [`NotMapped`] says; some systems refuse it always.
///
/// # Safety
/// `len` bytes from `at` on, in whole pages, belong to the caller, and nothing refers to them; `len` bytes from `pages` on are
/// mapped.
pub unsafe fn map_again(pages: NonNull<u8>, len: usize, at: NonNull<u8>) -> Result<(), NotMapped> {
    // Elsewhere at first, as the system removes what is at a given place before it finds out whether it can do the rest.
    // SAFETY: of shared pages, an old size of 0 makes a new mapping, and leaves theirs as it is.
    let again = unsafe { mremap(pages.as_ptr().cast(), 0, len, MremapFlags::MAYMOVE) };
    let again = again.map_err(|error| NotMapped::Refused(error.into()))?;
    // SAFETY: the mapping just made moves to where the caller says that it may.
    let moved = unsafe { mremap_fixed(again, len, len, MremapFlags::MAYMOVE, at.as_ptr().cast()) };
    moved.map(drop).map_err(|error| {
        // SAFETY: the mapping made above, which did not move.
        let _ = unsafe { munmap(again, len) };
        NotMapped::Lost(error.into())
    })
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: nothing refers to the mapping any more: references to it borrow the value.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    /// Private pages at an address that the system chooses, with this byte everywhere.
    fn private(pages: usize, value: u8) -> NonNull<u8> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping.
        let at = unsafe { mmap_anonymous(std::ptr::null_mut(), pages * PAGE, access, MapFlags::PRIVATE) };
        let at = NonNull::new(at.unwrap().cast::<u8>()).unwrap();
        // SAFETY: it has as many bytes.
        unsafe { at.write_bytes(value, pages * PAGE) };
        at
    }

    /// # Safety
    /// The byte is mapped.
    unsafe fn byte(at: NonNull<u8>, offset: usize) -> u8 {
        // SAFETY: the caller's promise.
        unsafe { at.add(offset).read_volatile() }
    }

    #[test]
    fn pages_that_are_mapped_twice_are_the_same() {
        let file = make_file(8 * PAGE as u64).unwrap();
        let memory = Memory::map(&file, 0..8 * PAGE as u64).unwrap();
        drop(file);
        let at = private(4, 7);
        // SAFETY: the two pages in the middle are the test's own; so are those of the memory.
        unsafe { map_again(memory.bytes(3 * PAGE, 2 * PAGE), 2 * PAGE, at.add(PAGE)) }.unwrap();
        memory.copy_in(3 * PAGE + 5, &[1, 2]);
        // SAFETY: all are mapped.
        unsafe {
            assert_eq!((byte(at, PAGE - 1), byte(at, PAGE), byte(at, 3 * PAGE)), (7, 0, 7), "no others have changed");
            assert_eq!((byte(at, PAGE + 5), byte(at, PAGE + 6)), (1, 2));
            at.add(2 * PAGE).write_volatile(9);
        }
        let mut seen = [0];
        memory.copy_out(4 * PAGE, &mut seen);
        assert_eq!(seen, [9]);
        drop(memory);
        // SAFETY: its own mapping, which outlives that of the memory; then it goes.
        unsafe {
            assert_eq!(byte(at, 2 * PAGE), 9);
            munmap(at.as_ptr().cast(), 4 * PAGE).unwrap();
        }
    }

    #[test]
    fn what_is_not_shared_is_not_mapped_twice() {
        let (own, at) = (private(1, 3), private(1, 4));
        // SAFETY: both are the test's own.
        assert!(matches!(unsafe { map_again(own, PAGE, at) }, Err(NotMapped::Refused(_))));
        // SAFETY: as above.
        unsafe {
            assert_eq!((byte(own, 0), byte(at, 0)), (3, 4));
            munmap(own.as_ptr().cast(), PAGE).unwrap();
            munmap(at.as_ptr().cast(), PAGE).unwrap();
        }
    }
}

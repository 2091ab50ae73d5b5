//! Numbers that several processes share.

use std::ffi::c_void;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The numbers in a file, mapped.
pub struct SharedNumbers {
    at: *mut c_void,
    count: usize,
}

// SAFETY: atomic numbers may be used from any thread.
unsafe impl Send for SharedNumbers {}
// SAFETY: as above.
unsafe impl Sync for SharedNumbers {}

impl SharedNumbers {
    /// The first `count` numbers of `file`.
    ///
    /// # Errors
    /// The operating system's error; [`io::ErrorKind::UnexpectedEof`] for a file with fewer of them, or one that might
    /// become shorter.
    pub fn map(file: impl AsFd, count: usize) -> io::Result<Self> {
        let len = count * size_of::<AtomicU64>();
        let file = file.as_fd();
        let has_all = u64::try_from(rustix::fs::fstat(file)?.st_size).is_ok_and(|size| size >= len as u64);
        if !has_all || !rustix::fs::fcntl_get_seals(file)?.contains(rustix::fs::SealFlags::SHRINK) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // What is counted first should not wait for the page.
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping, where the system chooses.
        let at = unsafe { mmap(std::ptr::null_mut(), len, access, flags, file, 0) }?;
        Ok(Self { at, count })
    }

    /// The numbers.
    pub fn all(&self) -> &[AtomicU64] {
        // SAFETY: the mapping starts at a page, has room for so many numbers, lasts as long as this value, and its file
        // cannot shrink. Whoever else writes to the file changes numbers, each of which is valid.
        unsafe { std::slice::from_raw_parts(self.at.cast(), self.count) }
    }
}

impl Drop for SharedNumbers {
    fn drop(&mut self) {
        // SAFETY: it was mapped by `map`, and nobody borrows from it any more.
        let _ = unsafe { munmap(self.at, self.count * size_of::<AtomicU64>()) };
    }
}

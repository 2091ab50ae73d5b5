//! Buffers: memory of this process.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Memory of a buffer, zero at first, or of the caller's. Freed when the last of its ranges is gone.
#[derive(Debug)]
pub struct Storage {
    at: NonNull<u8>,
    len: usize,
    is_own: bool,
}

// SAFETY: it is plain memory, which `Range` lends out under the rules named there.
unsafe impl Send for Storage {}
// SAFETY: as above.
unsafe impl Sync for Storage {}

impl Storage {
    /// Memory of so many bytes; whole pages of the system's, which take up nothing until they are written. `None` if there is none.
    pub fn new(len: usize) -> Option<Arc<Self>> {
        // SAFETY: a new mapping, placed by the system.
        let at = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        let at = NonNull::new(at.ok()?.cast::<u8>())?;
        Some(Arc::new(Self { at, len, is_own: true }))
    }

    /// Memory of the caller's (CL_MEM_USE_HOST_PTR). `None` for a null pointer.
    ///
    /// # Safety
    /// There are `len` bytes at `at`, which stay there as long as the result or a range of it does.
    pub unsafe fn over(at: *mut c_void, len: usize) -> Option<Arc<Self>> {
        Some(Arc::new(Self { at: NonNull::new(at.cast())?, len, is_own: false }))
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if self.is_own {
            // SAFETY: the mapping of `new`, which no range uses any more. It cannot fail with these arguments.
            let _ = unsafe { munmap(self.at.as_ptr().cast(), self.len) };
        }
    }
}

/// Some bytes of a buffer.
///
/// Two commands that use the same bytes at the same time without an order between them are the program's own race, which
/// OpenCL leaves undefined: what they read is any bytes. Within one command, [`crate::kind::Call`] makes sure that nothing that is
/// written is also something else.
#[derive(Clone, Debug)]
pub struct Range {
    storage: Arc<Storage>,
    offset: usize,
    len: usize,
}

impl Range {
    /// Bytes `offset..offset + len`; `None` if they are not all there.
    pub fn new(storage: &Arc<Storage>, offset: usize, len: usize) -> Option<Self> {
        let end = offset.checked_add(len)?;
        (end <= storage.len).then(|| Self { storage: storage.clone(), offset, len })
    }

    /// A part of it, counted from its own beginning; `None` if it is not all there.
    pub fn part(&self, offset: usize, len: usize) -> Option<Self> {
        let end = offset.checked_add(len)?;
        (end <= self.len).then(|| Self { storage: self.storage.clone(), offset: self.offset + offset, len })
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it begins in memory.
    pub fn pointer(&self) -> *mut u8 {
        self.storage.at.as_ptr().wrapping_add(self.offset)
    }

    /// Whether they have bytes in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        let (a, b) = (self.pointer().addr(), other.pointer().addr());
        a < b + other.len && b < a + self.len
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `new` has held the range against the storage, which this keeps. For writers see the type.
        unsafe { std::slice::from_raw_parts(self.pointer(), self.len) }
    }

    /// The bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(), self.len) }
    }

    /// Copies from another range of the same length, which may overlap.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn copy_from(&mut self, from: &Self) {
        assert_eq!(self.len, from.len, "as long as each other");
        // SAFETY: both ranges are of this many bytes, and alive; `copy` allows them to overlap.
        unsafe { std::ptr::copy(from.pointer(), self.pointer(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_stay_within() {
        let storage = Storage::new(10).unwrap();
        let whole = Range::new(&storage, 0, 10).unwrap();
        assert_eq!(whole.bytes(), [0; 10]);
        assert!(Range::new(&storage, 5, 6).is_none() && Range::new(&storage, usize::MAX, 2).is_none());
        let mut part = whole.part(4, 4).unwrap();
        assert!(part.part(1, 4).is_none());
        part.bytes_mut().copy_from_slice(b"abcd");
        let mut later = whole.part(5, 4).unwrap();
        assert!(later.overlaps(&part) && !later.overlaps(&whole.part(0, 5).unwrap()));
        later.copy_from(&part);
        assert_eq!(whole.bytes(), b"\0\0\0\0aabcd\0");
    }
}

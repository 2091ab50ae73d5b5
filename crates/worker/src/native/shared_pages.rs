//! Pages of a native allocation that are shared ones while it lives.
//!
//! The bytes of an allocation are its owner's, and the native allocator has no business there until it gets them back. So
//! whole pages within one may be others meanwhile: shared ones take their place, and private ones come back before the
//! allocation is freed. The allocator never has a page that the client may write to.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use ropeway_abi as cl;
use ropeway_protocol::types::Status;
use ropeway_transport::{NotMapped, map_again};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use super::shared_storage::Extent;

/// Most of these that there are at once. Each may cost two mappings more, of which Linux allows a process 65,530, and without
/// any left it can neither allocate nor start a thread.
const MOST: usize = 4096;

/// How many there are.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Shared pages in the place of an allocation's own.
#[derive(Debug)]
pub(super) struct SharedPages {
    at: NonNull<u8>,
    len: usize,
    /// What is kept for them.
    extent: Option<Extent>,
}

// SAFETY: an address, which the value itself never reads or writes.
unsafe impl Send for SharedPages {}

impl SharedPages {
    /// Puts the pages from `pages` on, `len` bytes of shared memory, in the place of those at `at`. `extent` is kept as long
    /// as they are there. `None` where they cannot be; then everything is as it was.
    ///
    /// # Errors
    /// CL_MEM_OBJECT_ALLOCATION_FAILURE: nobody may use, or free, what was at `at` any more.
    ///
    /// # Safety
    /// `len` bytes from `at` on are in an allocation of the caller, to which nothing refers. They are not given back before
    /// [`Self::end`] has said that they may. `len` bytes of shared memory are mapped at `pages`, until this returns.
    pub unsafe fn put(
        at: *mut u8,
        len: usize,
        pages: NonNull<u8>,
        extent: Option<Extent>,
    ) -> Result<Option<Self>, Status> {
        let page = rustix::param::page_size();
        let are_whole = [at.addr(), len, pages.addr().get()].iter().all(|number| number.is_multiple_of(page));
        let Some(at) = NonNull::new(at).filter(|_| are_whole && len > 0) else { return Ok(None) };
        if COUNT.fetch_add(1, Ordering::Relaxed) >= MOST {
            COUNT.fetch_sub(1, Ordering::Relaxed);
            return Ok(None);
        }
        // SAFETY: the caller's promise; whole pages, so that nobody else's bytes are among them.
        match unsafe { map_again(pages, len, at) } {
            Ok(()) => Ok(Some(Self { at, len, extent })),
            Err(NotMapped::Refused(_)) => {
                COUNT.fetch_sub(1, Ordering::Relaxed);
                Ok(None)
            }
            Err(NotMapped::Lost(_)) => Err(cl::CL_MEM_OBJECT_ALLOCATION_FAILURE),
        }
    }

    /// Where the same pages are in the memory that they are kept in.
    pub fn origin(&self) -> Option<NonNull<u8>> {
        self.extent.as_ref().map(|extent| extent.address)
    }

    /// Puts private pages, all zero, in their place. Returns whether the allocation may be given back: where that fails, it
    /// is lost.
    pub fn end(self) -> bool {
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        // Mapped as an allocator does it, so that the system can make one mapping of them and their neighbours again.
        // SAFETY: the pages that were put there, which belong to an allocation that nobody uses any more.
        let back =
            unsafe { mmap_anonymous(self.at.as_ptr().cast(), self.len, ProtFlags::READ | ProtFlags::WRITE, flags) };
        if back.is_err() {
            // They may still be there.
            std::mem::forget(self.extent);
            return false;
        }
        COUNT.fetch_sub(1, Ordering::Relaxed);
        true
    }
}

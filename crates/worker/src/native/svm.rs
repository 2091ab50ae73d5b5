//! Coarse-grain shared virtual memory.
//!
//! The client puts its own memory at the same addresses, in whole pages. So no allocation here shares a page with
//! anything else, from the first page that it touches to the last. Where the devices see that, those pages are the client's
//! as well ([`super::shared_pages`]).

use std::collections::VecDeque;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use ropeway_abi as cl;
use ropeway_protocol::types::Status;
use ropeway_transport::Arena;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use super::api::api;
use super::shared_pages::SharedPages;
use super::shared_storage::{Extent, SharedStorage};
use super::svm_allocation::{Allocation, MISSING, NativeQueue};
use super::{Context, Event, check, waiting};

/// An allocation. Freed when dropped, or behind what still uses it.
pub struct Svm {
    /// None once it is freed, or lost.
    allocation: Option<Allocation>,
    /// Its first byte that is used.
    first: *mut u8,
    /// The queue to free it on; none while the client has it.
    frees: OnceLock<Arc<dyn NativeQueue>>,
}

impl std::fmt::Debug for Svm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Svm").field("first", &self.first).finish_non_exhaustive()
    }
}

// SAFETY: an address; commands may use it on any thread.
unsafe impl Send for Svm {}
// SAFETY: as above.
unsafe impl Sync for Svm {}

impl Svm {
    /// clSVMAlloc of `size` bytes at an address that is a multiple of `alignment` (0 for the native default) and of
    /// `page`, a power of two; in `storage` where that is given and has room.
    ///
    /// # Errors
    /// CL_MEM_OBJECT_ALLOCATION_FAILURE when the native call gives no memory, for whatever reason; CL_INVALID_OPERATION
    /// when there is no such call.
    pub fn new(
        context: &Context,
        flags: u64,
        size: u64,
        (alignment, page): (u32, u32),
        storage: Option<&Arc<SharedStorage>>,
    ) -> Result<Self, Status> {
        let (page, boundary) = (page as usize, alignment.max(page) as usize);
        let allocate = api().clSVMAlloc.ok_or(MISSING)?;
        let failure = cl::CL_MEM_OBJECT_ALLOCATION_FAILURE;
        let whole = usize::try_from(size).ok().and_then(|size| size.checked_next_multiple_of(page)).ok_or(failure)?;
        let roomy = whole.checked_add(boundary).ok_or(failure)?;
        // Some implementations accept no alignment above that of their largest type: ask those for more memory instead.
        for (size, alignment) in [(whole, boundary as u32), (roomy, alignment)] {
            // SAFETY: the context is alive.
            let allocated = unsafe { allocate(context.0, flags, size, alignment) };
            if allocated.is_null() {
                continue;
            }
            let skipped = allocated.addr().next_multiple_of(boundary) - allocated.addr();
            let first = allocated.cast::<u8>().wrapping_add(skipped);
            let allocation = Allocation { context: context.retain(), address: allocated, pages: None };
            let mut svm = Self { allocation: Some(allocation), first, frees: OnceLock::new() };
            if skipped.checked_add(whole).is_none_or(|end| end > size) {
                continue;
            }
            let Some(extent) = storage.and_then(|storage| storage.take(whole as u64)) else { return Ok(svm) };
            let pages = extent.address;
            // SAFETY: the allocation has `whole` bytes from its first one on, which nobody else knows yet; the extent has as
            // many.
            return unsafe { svm.share(whole, pages, Some(extent)) }.map(|()| svm);
        }
        Err(failure)
    }

    /// Puts shared pages in the place of its first `len` bytes, if that can be; as [`SharedPages::put`].
    ///
    /// # Errors
    /// As there; the allocation is lost then.
    ///
    /// # Safety
    /// It has so many bytes, and nothing uses them; as many bytes of shared memory are mapped at `pages` until this returns.
    pub(super) unsafe fn share(
        &mut self,
        len: usize,
        pages: NonNull<u8>,
        extent: Option<Extent>,
    ) -> Result<(), Status> {
        let Some(mut allocation) = self.allocation.take() else { return Ok(()) };
        // SAFETY: the caller's promise; the allocation frees its memory only after `SharedPages::end`.
        match unsafe { SharedPages::put(self.first, len, pages, extent) } {
            Ok(shared) => {
                allocation.pages = shared;
                self.allocation = Some(allocation);
                Ok(())
            }
            Err(status) => {
                std::mem::forget(allocation);
                Err(status)
            }
        }
    }

    /// Whether it has shared pages.
    pub(super) fn is_shared(&self) -> bool {
        self.pages().is_some()
    }

    /// Where `size` bytes from its first one on are in `arena`, if they are kept there.
    pub(super) fn place_in(&self, arena: &Arena, size: usize) -> Option<u64> {
        arena.place_of(self.pages()?.origin()?.addr().get(), size)
    }

    fn pages(&self) -> Option<&SharedPages> {
        self.allocation.as_ref()?.pages.as_ref()
    }

    /// The address of its first byte.
    pub fn address(&self) -> u64 {
        self.first.addr() as u64
    }

    /// The address of the byte at `offset`, which the caller has held against the size.
    pub(super) fn at(&self, offset: usize) -> *mut u8 {
        self.first.wrapping_add(offset)
    }

    /// Has the allocation freed, once its last owner is gone, after everything that `queue`, an in-order one, has been
    /// given by then.
    pub(super) fn free_behind(&self, queue: Arc<dyn NativeQueue>) {
        let _ = self.frees.set(queue);
    }
}

impl Drop for Svm {
    fn drop(&mut self) {
        let Some(allocation) = self.allocation.take() else { return };
        // Without a queue to wait in, it is freed at once.
        if let Some(queue) = self.frees.get() {
            allocation.free_behind(&**queue);
        }
    }
}

/// clEnqueueSVMMap, blocking.
pub(super) fn map(queue: &impl NativeQueue, flags: u64, at: *mut u8, len: usize) -> Result<(), Status> {
    let map = api().clEnqueueSVMMap.ok_or(MISSING)?;
    // SAFETY: the caller has made sure that the range is in an allocation that is kept.
    waiting::for_command(queue.raw(), |blocking, event| unsafe {
        map(queue.raw(), blocking, flags, at.cast(), len, 0, std::ptr::null(), event)
    })
}

/// clEnqueueSVMUnmap.
pub(super) fn unmap(queue: &impl NativeQueue, at: *mut u8) -> Result<Event, Status> {
    let unmap = api().clEnqueueSVMUnmap.ok_or(MISSING)?;
    let mut event = std::ptr::null_mut();
    // SAFETY: `at` was mapped, and is not used afterwards.
    check(unsafe { unmap(queue.raw(), at.cast(), 0, std::ptr::null(), &raw mut event) })?;
    Ok(Event::owned(event))
}

/// clEnqueueSVMMemcpy, not blocking.
///
/// # Safety
/// `into` must be writable and `from` readable for `size` bytes until the command has ended.
pub(super) unsafe fn copy(
    queue: &impl NativeQueue,
    into: *mut u8,
    from: *const u8,
    size: usize,
    (count, list): (u32, *const cl::cl_event),
    event: *mut cl::cl_event,
) -> i32 {
    let Some(copy) = api().clEnqueueSVMMemcpy else { return MISSING };
    // SAFETY: the caller's promise.
    unsafe { copy(queue.raw(), cl::CL_FALSE, into.cast(), from.cast(), size, count, list, event) }
}

/// clEnqueueSVMMemFill. The native call copies the pattern before it returns.
///
/// # Safety
/// `into` must be writable for `size` bytes until the command has ended.
pub(super) unsafe fn fill(
    queue: &impl NativeQueue,
    into: *mut u8,
    pattern: &[u8],
    size: usize,
    (count, list): (u32, *const cl::cl_event),
    event: *mut cl::cl_event,
) -> i32 {
    let Some(fill) = api().clEnqueueSVMMemFill else { return MISSING };
    // SAFETY: the caller's promise; the pattern has the announced length.
    unsafe { fill(queue.raw(), into.cast(), pattern.as_ptr().cast(), pattern.len(), size, count, list, event) }
}

/// Reserves addresses of this process for as long as it lives, because the client has something else there. Whatever
/// this process already has there stays. All ranges are tried whole before any is split: the search within a large one
/// of which this process has much may take all calls that there are.
pub fn avoid(ranges: &[(u64, u64)]) {
    /// Smaller stretches of memory are left alone where only part of them is free (bytes).
    const FINEST: usize = 64 << 10;
    const LARGEST: usize = 1 << 40;
    const MOST_CALLS: usize = 4096;
    let sized = |&(address, len): &(u64, u64)| Some((usize::try_from(address).ok()?, usize::try_from(len).ok()?));
    let sound = |(address, len): &(usize, usize)| *len <= LARGEST && address.checked_add(*len).is_some();
    let mut ranges: VecDeque<_> = ranges.iter().filter_map(sized).filter(sound).collect();
    for _ in 0..MOST_CALLS {
        let Some((address, len)) = ranges.pop_front() else { return };
        let half = (len / 2).next_multiple_of(FINEST);
        if !reserve(address, len) && half < len {
            ranges.extend([(address, half), (address + half, len - half)]);
        }
    }
}

fn reserve(address: usize, len: usize) -> bool {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
    let wanted = std::ptr::without_provenance_mut::<c_void>(address);
    // SAFETY: a new mapping that replaces none and that nothing can be read from or written to.
    let mapped = unsafe { mmap_anonymous(wanted, len, ProtFlags::empty(), flags) };
    if let Ok(elsewhere) = mapped
        && elsewhere != wanted
    {
        // SAFETY: the mapping made above, by a kernel that does not know the flag.
        let _ = unsafe { rustix::mm::munmap(elsewhere, len) };
    }
    mapped.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new mapping of this process that nothing can be read from or written to.
    fn mapped(len: usize) -> usize {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address that the system chooses.
        unsafe { mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::empty(), flags) }.expect("there is room").addr()
    }

    fn unmapped(address: usize, len: usize) {
        // SAFETY: mapped by the test, which keeps no reference into it.
        unsafe { rustix::mm::munmap(std::ptr::without_provenance_mut(address), len) }.expect("it is mapped");
    }

    #[test]
    fn a_free_range_is_reserved_whatever_else_this_process_has() {
        const LARGE: usize = 1 << 30;
        const SMALL: usize = 1 << 20;
        let occupied = mapped(LARGE);
        let free = mapped(SMALL);
        unmapped(free, SMALL);
        avoid(&[(free as u64, SMALL as u64), (occupied as u64, LARGE as u64)]);
        assert!(!reserve(free, SMALL), "the range is still free");
        unmapped(free, SMALL);
        unmapped(occupied, LARGE);
    }
}

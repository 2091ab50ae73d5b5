//! Coarse-grain shared virtual memory.
//!
//! The client puts its own memory at the same addresses, in whole pages. So no allocation here shares a page with
//! anything else, from the first page that it touches to the last.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::{Arc, OnceLock};

use ropeway_abi as cl;
use ropeway_protocol::types::Status;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use super::api::api;
use super::{Context, Event, check, waiting};

/// The status where the native implementation lacks a function.
const MISSING: Status = cl::CL_INVALID_OPERATION;

/// A command queue, as far as shared virtual memory needs one.
pub(super) trait NativeQueue: Send + Sync {
    /// The native handle, which lives as long as this.
    fn raw(&self) -> cl::cl_command_queue;

    /// Hands all that was enqueued to the device.
    ///
    /// # Errors
    /// The status of the native call.
    fn flush(&self) -> Result<(), Status>;
}

/// An allocation. Freed when dropped, or behind what still uses it.
pub struct Svm {
    /// The allocation's own reference to the context.
    context: Context,
    /// The address that the native call returned.
    allocated: *mut c_void,
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
    /// `page`, a power of two.
    ///
    /// # Errors
    /// CL_MEM_OBJECT_ALLOCATION_FAILURE when the native call gives no memory, for whatever reason; CL_INVALID_OPERATION
    /// when there is no such call.
    pub fn new(context: &Context, flags: u64, size: u64, alignment: u32, page: u32) -> Result<Self, Status> {
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
            let svm = Self { context: context.retain(), allocated, first, frees: OnceLock::new() };
            if skipped.checked_add(whole).is_some_and(|end| end <= size) {
                return Ok(svm);
            }
        }
        Err(failure)
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
        let (enqueue, mut pointers) = (api().clEnqueueSVMFree, [self.allocated]);
        if let (Some(queue), Some(enqueue)) = (self.frees.get(), enqueue) {
            // SAFETY: one pointer, which clSVMAlloc gave in the queue's context; what still uses the memory comes
            // before this in the queue.
            let status = unsafe {
                enqueue(
                    queue.raw(),
                    1,
                    pointers.as_mut_ptr(),
                    None,
                    std::ptr::null_mut(),
                    0,
                    std::ptr::null(),
                    std::ptr::null_mut(),
                )
            };
            if status == cl::CL_SUCCESS {
                // If a queue cannot be flushed, it is lost with all its memory.
                let _ = queue.flush();
                return;
            }
        }
        if let Some(free) = api().clSVMFree {
            // SAFETY: clSVMAlloc gave it, in this context.
            unsafe { free(self.context.0, self.allocated) };
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

//! What clSVMAlloc gives, and how it is freed.

use std::ffi::c_void;

use ropeway_abi as cl;
use ropeway_protocol::types::Status;

use super::api::api;
use super::shared_pages::SharedPages;
use super::{Context, check};

/// The status where the native implementation lacks a function.
pub(super) const MISSING: Status = cl::CL_INVALID_OPERATION;

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

/// What clSVMAlloc gave. Freed when dropped.
pub(super) struct Allocation {
    /// Its own reference to the context.
    pub context: Context,
    /// The address that the native call returned; null once that is somebody else's to free.
    pub address: *mut c_void,
    /// The shared pages in its place.
    pub pages: Option<SharedPages>,
}

impl Allocation {
    /// Has it freed after everything that `queue` has been given; at once, where the queue does not take that.
    pub fn free_behind(mut self, queue: &dyn NativeQueue) {
        let address = self.address;
        if self.pages.is_none() {
            // SAFETY: clSVMAlloc gave it in the queue's context, and from now on it is the queue's.
            if unsafe { enqueue_free(queue, address, None, std::ptr::null_mut()) }.is_ok() {
                self.address = std::ptr::null_mut();
            }
            return;
        }
        let own = Box::into_raw(Box::new(self)).cast();
        // SAFETY: as above, of the function, which takes the box.
        if unsafe { enqueue_free(queue, address, Some(end_of_commands), own) }.is_err() {
            // SAFETY: made above; the function is called for no command that was refused.
            drop(unsafe { Box::from_raw(own.cast::<Self>()) });
        }
    }
}

/// clEnqueueSVMFree of memory that nothing uses but what is in the queue already.
///
/// # Errors
/// The status of the native call; CL_INVALID_OPERATION when there is none.
///
/// # Safety
/// clSVMAlloc gave the address in the queue's context, and nobody else frees it. `function` takes `data`, and frees it.
unsafe fn enqueue_free(
    queue: &dyn NativeQueue,
    address: *mut c_void,
    function: Option<FreeFunction>,
    data: *mut c_void,
) -> Result<(), Status> {
    let enqueue = api().clEnqueueSVMFree.ok_or(MISSING)?;
    let (mut pointers, no_events, event) = ([address], std::ptr::null(), std::ptr::null_mut());
    // SAFETY: the caller's promise; one pointer.
    check(unsafe { enqueue(queue.raw(), 1, pointers.as_mut_ptr(), function, data, 0, no_events, event) })?;
    // If a queue cannot be flushed, it is lost with all its memory.
    let _ = queue.flush();
    Ok(())
}

/// Frees memory in place of the native implementation.
type FreeFunction = unsafe extern "C" fn(cl::cl_command_queue, u32, *mut *mut c_void, *mut c_void);

/// A [`FreeFunction`] for an [`Allocation`].
extern "C" fn end_of_commands(_: cl::cl_command_queue, _: u32, _: *mut *mut c_void, allocation: *mut c_void) {
    // SAFETY: `Allocation::free_behind` has given a box of this type, and this is called once.
    drop(unsafe { Box::from_raw(allocation.cast::<Allocation>()) });
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // Private pages have to be back before the implementation has its memory again.
        if self.pages.take().is_some_and(|pages| !pages.end()) {
            return;
        }
        if let Some(free) = api().clSVMFree.filter(|_| !self.address.is_null()) {
            // SAFETY: clSVMAlloc gave it, in this context.
            unsafe { free(self.context.0, self.address) };
        }
    }
}

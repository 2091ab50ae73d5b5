//! Semaphores signaled and waited for.

use ropeway_abi::{
    CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, CL_INVALID_COMMAND_QUEUE, CL_INVALID_CONTEXT, CL_INVALID_VALUE,
    cl_command_queue, cl_event, cl_int, cl_semaphore_khr, cl_semaphore_payload_khr, cl_uint,
};
use ropeway_client::semaphore;
use smallvec::SmallVec;

use crate::api::order::Request;
use crate::api::transfer::Events;
use crate::guard;
use crate::handle::Handle;
use crate::objects::{Queue, Semaphore};

/// The semaphores that a command on `queue` is about.
struct Named(SmallVec<[Handle<Semaphore>; 4]>);

impl Named {
    /// # Safety
    /// `list` is null or valid for reads of `count` handles.
    unsafe fn read(queue: &Queue, count: cl_uint, list: *const cl_semaphore_khr) -> Result<Self, cl_int> {
        // CL_INVALID_VALUE if num_sema_objects is 0.
        if count == 0 || list.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        let mut found: SmallVec<[Handle<Semaphore>; 4]> = SmallVec::new();
        for index in 0..count as usize {
            // CL_INVALID_SEMAPHORE_KHR if any of the semaphore objects specified by sema_objects is not valid.
            // SAFETY: below `count`, by the caller's promise.
            found.push(Handle::<Semaphore>::find(unsafe { list.add(index).read() })?);
        }
        // CL_INVALID_CONTEXT if the context associated with command_queue and any of the semaphore objects in
        // sema_objects are not the same.
        if found.iter().any(|semaphore| semaphore.context != queue.context) {
            return Err(CL_INVALID_CONTEXT);
        }
        // CL_INVALID_COMMAND_QUEUE if the device associated with command_queue is not same as one of the devices
        // specified by CL_SEMAPHORE_DEVICE_HANDLE_LIST_KHR at the time of creating one or more of sema_objects.
        if found.iter().any(|semaphore| semaphore.device != queue.device) {
            return Err(CL_INVALID_COMMAND_QUEUE);
        }
        Ok(Self(found))
    }

    fn semaphores(&self) -> SmallVec<[&semaphore::Semaphore; 4]> {
        self.0.iter().map(|semaphore| &semaphore.client).collect()
    }
}

/// Reads the arguments of signals and waits.
///
/// # Errors
/// CL_INVALID_COMMAND_QUEUE; those of [`Named::read`] and of [`Request::read`]; as said below.
///
/// # Safety
/// As the specification says of these arguments.
unsafe fn arguments(
    queue: cl_command_queue,
    (num_semaphores, semaphores): (cl_uint, *const cl_semaphore_khr),
    (num_events, wait_list, event): Events,
) -> Result<(Handle<Queue>, Named, Request), cl_int> {
    let queue = Handle::<Queue>::find(queue)?;
    // SAFETY: the caller's promise, here and below.
    let named = unsafe { Named::read(&queue, num_semaphores, semaphores)? };
    // SAFETY: as above.
    let request = unsafe { Request::read(&queue, num_events, wait_list, event)? };
    // CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST if the execution status of any of the events in event_wait_list is a
    // negative integer value.
    if request.has_failed() {
        return Err(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    }
    Ok((queue, named, request))
}

/// clEnqueueSignalSemaphoresKHR. Binary semaphores have no use for a list of payloads.
pub unsafe extern "C" fn clEnqueueSignalSemaphoresKHR(
    queue: cl_command_queue,
    num_semaphores: cl_uint,
    semaphores: *const cl_semaphore_khr,
    _payloads: *const cl_semaphore_payload_khr,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueSignalSemaphoresKHR", || {
        // SAFETY: the caller's promise.
        let (queue, named, request) =
            unsafe { arguments(queue, (num_semaphores, semaphores), (num_events, wait_list, event))? };
        request.run(&queue, |order| queue.client.enqueue_signal(&named.semaphores(), order))
    })
}

/// clEnqueueWaitSemaphoresKHR.
pub unsafe extern "C" fn clEnqueueWaitSemaphoresKHR(
    queue: cl_command_queue,
    num_semaphores: cl_uint,
    semaphores: *const cl_semaphore_khr,
    _payloads: *const cl_semaphore_payload_khr,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueWaitSemaphoresKHR", || {
        // SAFETY: the caller's promise.
        let (queue, named, request) =
            unsafe { arguments(queue, (num_semaphores, semaphores), (num_events, wait_list, event))? };
        request.run(&queue, |order| queue.client.enqueue_semaphore_wait(&named.semaphores(), order))
    })
}

//! Events.

use std::ffi::c_void;
use std::sync::Arc;

use ropeway_abi as cl;

use super::context::Context;
use super::handle::{Object, get, release, retain};
use super::info::{Into, give, write};
use super::queue::Queue;
use crate::engine::event::Event;

/// A command's event, or a user event.
pub(super) struct EventObject {
    pub(super) event: Arc<Event>,
    context: Arc<Object<Context>>,
    queue: Option<Arc<Object<Queue>>>,
}

/// The events of a wait list.
///
/// # Errors
/// CL_INVALID_EVENT_WAIT_LIST.
///
/// # Safety
/// `list` has `count` handles of this platform's events.
pub(super) unsafe fn wait_list(count: cl::cl_uint, list: *const cl::cl_event) -> Result<Vec<Arc<Event>>, cl::cl_int> {
    if (count == 0) != list.is_null() {
        return Err(cl::CL_INVALID_EVENT_WAIT_LIST);
    }
    // SAFETY: by the promise of the caller.
    let of = |at| unsafe { get::<EventObject, _>(*list.add(at)) }.map(|object| object.event.clone());
    (0..count as usize).map(|at| of(at).ok_or(cl::CL_INVALID_EVENT_WAIT_LIST)).collect()
}

/// Gives the program a command's event, if it wants it.
///
/// # Safety
/// `wanted` is null or valid for a write.
pub(super) unsafe fn hand_out(queue: &Arc<Object<Queue>>, event: &Arc<Event>, wanted: *mut cl::cl_event) {
    if !wanted.is_null() {
        let (event, context, queue) = (event.clone(), queue.context.clone(), Some(queue.clone()));
        // SAFETY: by the promise of the caller.
        unsafe { write(wanted, Object::new(EventObject { event, context, queue }).into_handle()) };
    }
}

/// clCreateUserEvent.
pub(super) unsafe extern "C" fn clCreateUserEvent(context: cl::cl_context, status: *mut cl::cl_int) -> cl::cl_event {
    // SAFETY: the worker's own handle.
    let made = unsafe { get::<Context, _>(context) }.ok_or(cl::CL_INVALID_CONTEXT).map(|context| {
        Object::new(EventObject { event: Event::new(cl::CL_COMMAND_USER), context, queue: None }).into_handle()
    });
    // SAFETY: null or valid for a write.
    unsafe { give(status, made) }
}

/// clSetUserEventStatus.
pub(super) unsafe extern "C" fn clSetUserEventStatus(event: cl::cl_event, status: cl::cl_int) -> cl::cl_int {
    // SAFETY: the worker's own handle.
    let Some(object) = (unsafe { get::<EventObject, _>(event) }) else { return cl::CL_INVALID_EVENT };
    if object.event.command != cl::CL_COMMAND_USER {
        return cl::CL_INVALID_EVENT;
    }
    if status > cl::CL_COMPLETE {
        return cl::CL_INVALID_VALUE;
    }
    if object.event.reach(status) { cl::CL_SUCCESS } else { cl::CL_INVALID_OPERATION }
}

/// clRetainEvent.
pub(super) unsafe extern "C" fn clRetainEvent(event: cl::cl_event) -> cl::cl_int {
    // SAFETY: the worker's own handle.
    if unsafe { retain::<EventObject, _>(event) } { cl::CL_SUCCESS } else { cl::CL_INVALID_EVENT }
}

/// clReleaseEvent.
pub(super) unsafe extern "C" fn clReleaseEvent(event: cl::cl_event) -> cl::cl_int {
    // SAFETY: the worker's own handle, with a reference.
    if unsafe { release::<EventObject, _>(event) }.is_some() { cl::CL_SUCCESS } else { cl::CL_INVALID_EVENT }
}

/// clWaitForEvents.
pub(super) unsafe extern "C" fn clWaitForEvents(count: cl::cl_uint, list: *const cl::cl_event) -> cl::cl_int {
    if count == 0 || list.is_null() {
        return cl::CL_INVALID_VALUE;
    }
    // SAFETY: as the worker calls it.
    let Ok(events) = (unsafe { wait_list(count, list) }) else { return cl::CL_INVALID_EVENT };
    // All of them, also behind one that has failed.
    let failed = events.iter().filter(|event| event.wait() < 0).count();
    if failed == 0 { cl::CL_SUCCESS } else { cl::CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST }
}

/// clGetEventInfo.
pub(super) unsafe extern "C" fn clGetEventInfo(
    event: cl::cl_event,
    name: cl::cl_event_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl::cl_int {
    let into = Into { size, value, size_ret };
    // SAFETY: the worker's own handle.
    let Some(object) = (unsafe { get::<EventObject, _>(event) }) else { return cl::CL_INVALID_EVENT };
    match name {
        cl::CL_EVENT_COMMAND_QUEUE => {
            into.word(object.queue.as_ref().map_or(0, |queue| queue.handle::<c_void>().addr()))
        }
        cl::CL_EVENT_CONTEXT => into.word(object.context.handle::<c_void>().addr()),
        cl::CL_EVENT_COMMAND_TYPE => into.uint(object.event.command),
        cl::CL_EVENT_COMMAND_EXECUTION_STATUS => into.bytes(&object.event.status().to_ne_bytes()),
        cl::CL_EVENT_REFERENCE_COUNT => into.uint(1),
        _ => cl::CL_INVALID_VALUE,
    }
}

/// clSetEventCallback.
pub(super) unsafe extern "C" fn clSetEventCallback(
    event: cl::cl_event,
    at: cl::cl_int,
    notify: Option<unsafe extern "C" fn(cl::cl_event, cl::cl_int, *mut c_void)>,
    user: *mut c_void,
) -> cl::cl_int {
    // SAFETY: the worker's own handle.
    let Some(object) = (unsafe { get::<EventObject, _>(event) }) else { return cl::CL_INVALID_EVENT };
    let Some(notify) = notify.filter(|_| (cl::CL_COMPLETE..=cl::CL_SUBMITTED).contains(&at)) else {
        return cl::CL_INVALID_VALUE;
    };
    let (user, event) = (user.expose_provenance(), object.event.clone());
    event.on(
        at,
        Box::new(move |status| {
            // SAFETY: as clSetEventCallback has it; `object` keeps the event until the callback has returned.
            unsafe { notify(object.handle(), status, std::ptr::with_exposed_provenance_mut(user)) };
        }),
    );
    cl::CL_SUCCESS
}

/// clGetEventProfilingInfo.
pub(super) unsafe extern "C" fn clGetEventProfilingInfo(
    event: cl::cl_event,
    name: cl::cl_profiling_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl::cl_int {
    let into = Into { size, value, size_ret };
    // SAFETY: the worker's own handle.
    let Some(object) = (unsafe { get::<EventObject, _>(event) }) else { return cl::CL_INVALID_EVENT };
    let profiles = |queue: &Arc<Object<Queue>>| queue.properties & cl::CL_QUEUE_PROFILING_ENABLE != 0;
    let times = object.event.times().filter(|_| object.queue.as_ref().is_some_and(profiles));
    let Some([queued, submitted, started, ended]) = times else { return cl::CL_PROFILING_INFO_NOT_AVAILABLE };
    match name {
        cl::CL_PROFILING_COMMAND_QUEUED => into.ulong(queued),
        cl::CL_PROFILING_COMMAND_SUBMIT => into.ulong(submitted),
        cl::CL_PROFILING_COMMAND_START => into.ulong(started),
        cl::CL_PROFILING_COMMAND_END | cl::CL_PROFILING_COMMAND_COMPLETE => into.ulong(ended),
        _ => cl::CL_INVALID_VALUE,
    }
}

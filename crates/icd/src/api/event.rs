//! Events (OpenCL 3.0 API, sections 5.11 and 5.14).

use std::ffi::c_void;
use std::ptr;

use ropeway_abi::{
    CL_COMMAND_USER, CL_COMPLETE, CL_EVENT_COMMAND_EXECUTION_STATUS, CL_EVENT_COMMAND_QUEUE, CL_EVENT_COMMAND_TYPE,
    CL_EVENT_CONTEXT, CL_EVENT_REFERENCE_COUNT, CL_INVALID_CONTEXT, CL_INVALID_EVENT, CL_INVALID_VALUE,
    CL_PROFILING_COMMAND_COMPLETE, CL_PROFILING_COMMAND_END, CL_PROFILING_COMMAND_QUEUED, CL_PROFILING_COMMAND_START,
    CL_PROFILING_COMMAND_SUBMIT, CL_PROFILING_INFO_NOT_AVAILABLE, CL_RUNNING, CL_SUBMITTED, cl_context, cl_event,
    cl_event_info, cl_int, cl_profiling_info, cl_uint,
};
use ropeway_client::event;

use super::{Callback, Raw};
use crate::guard;
use crate::handle::{self, Handle};
use crate::info::{Answered, Info};
use crate::objects::{Context, Event};

/// clWaitForEvents.
pub unsafe extern "C" fn clWaitForEvents(num_events: cl_uint, event_list: *const cl_event) -> cl_int {
    guard::status("clWaitForEvents", || {
        // CL_INVALID_VALUE if num_events is 0 or event_list is NULL.
        if num_events == 0 || event_list.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        // CL_INVALID_EVENT if event objects specified in event_list are not valid.
        // SAFETY: the caller's promise.
        let handles = unsafe { std::slice::from_raw_parts(event_list, num_events as usize) };
        let events = handles.iter().map(|&event| Handle::<Event>::find(event)).collect::<Result<Vec<_>, _>>()?;
        // CL_INVALID_CONTEXT if events are not all of the same context.
        if events.iter().any(|event| event.context != events[0].context) {
            return Err(CL_INVALID_CONTEXT);
        }
        event::wait_for_all(&events.iter().map(|event| &*event.client).collect::<Vec<_>>())
    })
}

/// clCreateUserEvent.
pub unsafe extern "C" fn clCreateUserEvent(context: cl_context, errcode_ret: *mut cl_int) -> cl_event {
    // SAFETY: the caller's promise.
    unsafe {
        guard::create("clCreateUserEvent", errcode_ret, || {
            let context = Handle::<Context>::find(context)?;
            let client = event::Event::user(&context.client)?;
            Ok(Handle::new(&context, Event { client, context: context.clone(), queue: None })?.give())
        })
    }
}

/// clSetUserEventStatus.
pub unsafe extern "C" fn clSetUserEventStatus(event: cl_event, execution_status: cl_int) -> cl_int {
    guard::status("clSetUserEventStatus", || {
        let event = Handle::<Event>::find(event)?;
        // CL_INVALID_EVENT if event is not a valid user event.
        if event.client.command() != CL_COMMAND_USER {
            return Err(CL_INVALID_EVENT);
        }
        // CL_INVALID_VALUE if execution_status is not CL_COMPLETE or a negative value.
        if execution_status > CL_COMPLETE {
            return Err(CL_INVALID_VALUE);
        }
        // CL_INVALID_OPERATION if it was set before: the client knows.
        event.client.set_status(execution_status)
    })
}

/// clRetainEvent.
pub unsafe extern "C" fn clRetainEvent(event: cl_event) -> cl_int {
    guard::status("clRetainEvent", || handle::retain::<Event>(event))
}

/// clReleaseEvent.
pub unsafe extern "C" fn clReleaseEvent(event: cl_event) -> cl_int {
    guard::status("clReleaseEvent", || handle::release::<Event>(event))
}

/// clGetEventInfo.
pub unsafe extern "C" fn clGetEventInfo(
    event: cl_event,
    name: cl_event_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    // SAFETY: the caller's promise.
    let info = unsafe { Info::new(size, value, size_ret) };
    guard::status("clGetEventInfo", || answer(&Handle::find(event)?, name, info))
}

fn answer(event: &Handle<Event>, name: cl_event_info, info: Info) -> Result<Answered, cl_int> {
    match name {
        // NULL for a user event.
        CL_EVENT_COMMAND_QUEUE => info.value(event.queue.as_ref().map_or(ptr::null_mut(), Handle::raw)),
        CL_EVENT_CONTEXT => info.value(event.context.raw()),
        CL_EVENT_COMMAND_TYPE => info.value(event.client.command()),
        CL_EVENT_COMMAND_EXECUTION_STATUS => info.value(event.client.status()),
        CL_EVENT_REFERENCE_COUNT => info.value(event.reference_count()),
        // CL_INVALID_VALUE if param_name is not one of the supported values.
        _ => Err(CL_INVALID_VALUE),
    }
}

/// clSetEventCallback.
pub unsafe extern "C" fn clSetEventCallback(
    event: cl_event,
    callback_type: cl_int,
    pfn_notify: Option<unsafe extern "C" fn(cl_event, cl_int, *mut c_void)>,
    user_data: *mut c_void,
) -> cl_int {
    guard::status("clSetEventCallback", || {
        let found = Handle::<Event>::find(event)?;
        // CL_INVALID_VALUE if pfn_event_notify is NULL or if command_exec_callback_type is not CL_SUBMITTED,
        // CL_RUNNING, or CL_COMPLETE.
        let notify = pfn_notify.ok_or(CL_INVALID_VALUE)?;
        if ![CL_SUBMITTED, CL_RUNNING, CL_COMPLETE].contains(&callback_type) {
            return Err(CL_INVALID_VALUE);
        }
        let callback = Callback::new(notify, user_data);
        let event = Raw::new(event);
        // The application may use the event in the callback, even if it has released it by then.
        let kept = found.clone();
        let call = Box::new(move |status| {
            let (notify, user_data) = callback.parts();
            // SAFETY: the application gave this function and argument for this.
            unsafe { notify(event.get(), status, user_data) };
            drop(kept);
        });
        found.client.on_status(callback_type, call);
        Ok(())
    })
}

/// clGetEventProfilingInfo.
pub unsafe extern "C" fn clGetEventProfilingInfo(
    event: cl_event,
    name: cl_profiling_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    // SAFETY: the caller's promise.
    let info = unsafe { Info::new(size, value, size_ret) };
    guard::status("clGetEventProfilingInfo", || {
        let event = Handle::<Event>::find(event)?;
        // CL_PROFILING_INFO_NOT_AVAILABLE if the queue does not profile, if the command has not ended well, or if event
        // is a user event.
        if event.queue.as_ref().is_none_or(|queue| !queue.client.is_profiling()) {
            return Err(CL_PROFILING_INFO_NOT_AVAILABLE);
        }
        // CL_INVALID_VALUE if param_name is not one of the supported values.
        let index = match name {
            CL_PROFILING_COMMAND_QUEUED => 0,
            CL_PROFILING_COMMAND_SUBMIT => 1,
            CL_PROFILING_COMMAND_START => 2,
            CL_PROFILING_COMMAND_END => 3,
            CL_PROFILING_COMMAND_COMPLETE => 4,
            _ => return Err(CL_INVALID_VALUE),
        };
        info.value(event.client.times()?[index])
    })
}

//! Waits for native commands.
//!
//! In Intel's CPU runtime (seen in its release of 2026), a thread that waits for a command runs meanwhile what other
//! threads have begun, their waits among it. So a thread comes to wait for what stands still below on its own stack, and
//! waits for ever: on two cores, a program with blocking writes in one thread and clWaitForEvents on out-of-order queues
//! in two others stands still within seconds. A session has several threads also where the application has one. So no two of
//! them wait inside that runtime: one may be in clFinish, where it runs kernels itself, and the others are called back when
//! their commands have ended.

use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ropeway_abi as cl;
use ropeway_protocol::types::Status;

use super::api::api;
use super::platform::{Device, Platform};
use super::{Event, check, info};

/// How the platform of Intel's CPU runtime calls itself; that for its GPUs is "Intel(R) OpenCL Graphics".
const INTEL: &str = "Intel(R) OpenCL";

/// How often a thread looks at the status of a command whose end it has not been told of.
const LOOK: Duration = Duration::from_millis(100);

/// Held by the one thread that waits inside such a runtime.
static ALONE: Mutex<()> = Mutex::new(());

/// The platforms in which no two threads wait.
static CLOSED: OnceLock<Vec<Platform>> = OnceLock::new();

/// Takes in which platforms there are, before anybody waits.
pub(super) fn know(platforms: &[Platform]) {
    // They are the same each time.
    CLOSED.get_or_init(|| {
        let closed = platforms.iter().filter(|platform| platform.text(cl::CL_PLATFORM_NAME) == INTEL);
        closed.copied().collect()
    });
}

/// Blocks until all of these events, which are of one context, have ended.
///
/// # Errors
/// The status of clWaitForEvents.
pub(super) fn for_events(events: &[cl::cl_event]) -> Result<(), Status> {
    if events.is_empty() {
        return Ok(());
    }
    if events.iter().any(|event| queue_of(*event).is_some_and(is_closed)) {
        // All of them are handed to the device before any is waited for, as by clWaitForEvents.
        for queue in events.iter().filter_map(|event| queue_of(*event)) {
            // SAFETY: an event keeps its queue alive.
            check(unsafe { (api().clFlush)(queue) })?;
        }
        for event in events {
            outside(&Event::retained(*event))?;
        }
        // From here on there is nothing to wait for. Intel's runtime says only here that an event has failed which was
        // to wait for one that failed.
    }
    // SAFETY: the list has the announced length.
    check(unsafe { (api().clWaitForEvents)(events.len() as u32, events.as_ptr()) })
}

/// Enqueues a command that may block, and returns when it has ended. `call` gets CL_TRUE or CL_FALSE, and the place for the
/// event, which may be null.
///
/// # Errors
/// The status of `call`, or that of waiting for its event.
pub(super) fn for_command(
    queue: cl::cl_command_queue,
    call: impl FnOnce(cl::cl_bool, *mut cl::cl_event) -> Status,
) -> Result<(), Status> {
    if !is_closed(queue) {
        return check(call(cl::CL_TRUE, std::ptr::null_mut()));
    }
    let mut event = std::ptr::null_mut();
    check(call(cl::CL_FALSE, &raw mut event))?;
    for_events(&[Event::owned(event).raw()])
}

/// clFinish.
///
/// # Errors
/// The status of clFinish.
pub(super) fn for_queue(queue: cl::cl_command_queue) -> Result<(), Status> {
    let is_closed = is_closed(queue);
    let alone = if is_closed { ALONE.try_lock().ok() } else { None };
    if !is_closed || alone.is_some() {
        // SAFETY: the queue is the caller's, and alive.
        return check(unsafe { (api().clFinish)(queue) });
    }
    let mut event = std::ptr::null_mut();
    // Without a wait list, it waits for all commands before it, in a queue of either kind.
    // SAFETY: the queue is the caller's, and alive.
    check(unsafe { (api().clEnqueueMarkerWithWaitList)(queue, 0, std::ptr::null(), &raw mut event) })?;
    // As for clFinish, it does not matter how they ended.
    match for_events(&[Event::owned(event).raw()]) {
        Err(cl::CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST) => Ok(()),
        other => other,
    }
}

/// Blocks until this has ended, in no call of the implementation's.
///
/// # Errors
/// The status of clSetEventCallback.
fn outside(event: &Event) -> Result<(), Status> {
    if event.ended() {
        return Ok(());
    }
    let bell = Arc::new((Mutex::new(false), Condvar::new()));
    let rings = bell.clone();
    event.on_end(move || {
        *rings.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        rings.1.notify_all();
    })?;
    let mut rung = bell.0.lock().unwrap_or_else(PoisonError::into_inner);
    // Some implementations call nobody back for a command that has failed.
    while !*rung && !event.ended() {
        rung = bell.1.wait_timeout(rung, LOOK).unwrap_or_else(PoisonError::into_inner).0;
    }
    Ok(())
}

/// The queue of an event; `None` for a user event.
fn queue_of(event: cl::cl_event) -> Option<cl::cl_command_queue> {
    if CLOSED.get().is_none_or(Vec::is_empty) {
        return None;
    }
    // SAFETY: `value` passes memory of the size it announces; the event is the caller's.
    let ask = |size, value, ret| unsafe { (api().clGetEventInfo)(event, cl::CL_EVENT_COMMAND_QUEUE, size, value, ret) };
    let queue: usize = info::value(ask).ok()?;
    (queue != 0).then(|| std::ptr::with_exposed_provenance_mut(queue))
}

/// Whether no two threads wait in calls for queues like this.
fn is_closed(queue: cl::cl_command_queue) -> bool {
    let Some(closed) = CLOSED.get().filter(|closed| !closed.is_empty()) else { return false };
    // SAFETY: as in `queue_of`; a queue keeps its device alive.
    let device = info::value::<usize>(|size, value, ret| unsafe {
        (api().clGetCommandQueueInfo)(queue, cl::CL_QUEUE_DEVICE, size, value, ret)
    });
    let Ok(device) = device else { return false };
    let device = Device(std::ptr::with_exposed_provenance_mut(device));
    device.platform().is_some_and(|platform| closed.contains(&platform))
}

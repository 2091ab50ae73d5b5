//! Events.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use ropeway_abi as cl;
use ropeway_protocol::types::Status;

use super::api::api;
use super::ending::Ending;
use super::{check, info, waiting};

/// How long an event's reported status may lag behind the end of a wait for the event.
const LAG: Duration = Duration::from_secs(10);

/// How often to look at the status meanwhile.
const LOOK: Duration = Duration::from_micros(50);

/// A native event of a command, or a user event's. Clones share one native reference, and what is known of the command's end: asking an
/// implementation costs up to a microsecond each time.
#[derive(Clone, Debug)]
pub struct Event {
    shared: Arc<Shared>,
    /// Tells of its end, where nobody is to wait for it in the driver.
    ending: Option<Ending>,
}

#[derive(Debug)]
struct Shared {
    handle: cl::cl_event,
    /// The status that the command has ended with; more than `CL_COMPLETE` while it is not known to have ended.
    end: AtomicI32,
}

// SAFETY: OpenCL's handles may be used from any thread (OpenCL 3.0 API, appendix A.2).
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

type Callback = Box<dyn FnOnce(Status) + Send>;

impl Event {
    /// Takes over a handle that an enqueue returned.
    pub(super) fn owned(handle: cl::cl_event) -> Self {
        Self { shared: Arc::new(Shared { handle, end: AtomicI32::new(cl::CL_QUEUED) }), ending: None }
    }

    /// A further reference to an event that the caller holds.
    pub(super) fn retained(handle: cl::cl_event) -> Self {
        // SAFETY: the caller's reference keeps it alive meanwhile; the new value owns the reference made here.
        unsafe { (api().clRetainEvent)(handle) };
        Self::owned(handle)
    }

    /// The same, of whose end `ending` tells.
    pub(super) fn told_by(mut self, ending: Ending) -> Self {
        self.ending = Some(ending);
        self
    }

    /// The handle, for a wait list; valid as long as `self`.
    pub(super) fn raw(&self) -> cl::cl_event {
        self.shared.handle
    }

    /// What the worker itself tells its end by, so that no thread waits for it in the driver; `None` where it does not.
    pub fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// CL_EVENT_COMMAND_EXECUTION_STATUS, or the error that asking for it returned.
    pub fn status(&self) -> Status {
        let known = self.shared.end.load(Ordering::Acquire);
        if known <= cl::CL_COMPLETE {
            return known;
        }
        // Where the driver never says how it has ended, this does.
        if let Some(told) = self.ending.as_ref().and_then(Ending::status) {
            return told;
        }
        // SAFETY: `value` passes memory of the size it announces.
        let status = info::value(|size, value, ret| unsafe {
            (api().clGetEventInfo)(self.raw(), cl::CL_EVENT_COMMAND_EXECUTION_STATUS, size, value, ret)
        })
        .unwrap_or_else(|error| error);
        if status <= cl::CL_COMPLETE {
            self.shared.end.store(status, Ordering::Release);
        }
        status
    }

    /// Whether it has ended, well or not.
    pub fn ended(&self) -> bool {
        self.status() <= cl::CL_COMPLETE
    }

    /// Blocks until it has ended.
    ///
    /// # Errors
    /// The status of the native call; [`Event::status`] tells how the command ended.
    pub fn wait(&self) -> Result<(), Status> {
        match &self.ending {
            // As clWaitForEvents says it.
            Some(ending) if ending.wait() < cl::CL_COMPLETE => Err(cl::CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
            Some(_) => Ok(()),
            None => waiting::for_events(&[self.raw()]),
        }
    }

    /// Blocks until it has ended; CL_COMPLETE, or the error that it has ended with.
    ///
    /// The reported status of an event may lag behind its real state: when the last command of an in-order queue is
    /// complete, rusticl 22.3 still reports the commands before it as submitted for a moment. So only the status of an
    /// ended command is believed to be final.
    pub fn end(&self) -> Status {
        let known = self.shared.end.load(Ordering::Acquire);
        if known <= cl::CL_COMPLETE {
            return known;
        }
        if let Some(ending) = &self.ending {
            return ending.wait();
        }
        let waited = self.wait();
        let since = Instant::now();
        loop {
            let status = self.status();
            if status <= cl::CL_COMPLETE {
                return status;
            }
            if since.elapsed() > LAG {
                return waited.err().unwrap_or(cl::CL_OUT_OF_RESOURCES);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// One entry of clGetEventProfilingInfo, in nanoseconds.
    ///
    /// # Errors
    /// The status of the native call.
    pub fn time(&self, which: u32) -> Result<u64, Status> {
        // SAFETY: `value` passes memory of the size it announces.
        info::value(|size, value, ret| unsafe { (api().clGetEventProfilingInfo)(self.raw(), which, size, value, ret) })
    }

    /// Calls `then` once the command has ended, on a thread of the native implementation's: `then` may only pass the
    /// notification on. `then` is not called if the implementation calls back too early, nor, with some
    /// implementations, if the command has failed.
    ///
    /// # Errors
    /// The status of the native call; `then` is not called in that case.
    pub fn on_end(&self, then: impl FnOnce() + Send + 'static) -> Result<(), Status> {
        self.on_end_with(|_| then())
    }

    /// As [`Event::on_end`], with the status at the end as the implementation reports it. When rusticl 22.3 calls back
    /// from within this function, it reports CL_COMPLETE even for a failed command.
    ///
    /// # Errors
    /// As [`Event::on_end`].
    pub fn on_end_with(&self, then: impl FnOnce(Status) + Send + 'static) -> Result<(), Status> {
        let ended = |status| {
            if status <= cl::CL_COMPLETE {
                then(status);
            }
        };
        self.call_back(cl::CL_COMPLETE, Box::new(ended))
    }

    /// As [`Event::on_end`], once it has come as far as `status`: CL_SUBMITTED, CL_RUNNING or CL_COMPLETE.
    ///
    /// # Errors
    /// The status of the native call; `then` is not called in that case.
    pub fn on_status(&self, status: Status, then: impl FnOnce() + Send + 'static) -> Result<(), Status> {
        self.call_back(status, Box::new(move |_| then()))
    }

    fn call_back(&self, status: Status, then: Callback) -> Result<(), Status> {
        let then: *mut Callback = Box::into_raw(Box::new(then));
        // SAFETY: `then` is what `ended` expects, which frees it: it is called at most once.
        let status = unsafe { (api().clSetEventCallback)(self.raw(), status, Some(ended), then.cast()) };
        check(status).inspect_err(|_| {
            // SAFETY: the native implementation did not take the box made above.
            drop(unsafe { Box::from_raw(then) });
        })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: this is the one reference that the value owns.
        unsafe { (api().clReleaseEvent)(self.handle) };
    }
}

unsafe extern "C" fn ended(_: cl::cl_event, status: i32, then: *mut c_void) {
    // SAFETY: it is the box made in `call_back`, and this is the only call with it.
    let then = unsafe { Box::from_raw(then.cast::<Callback>()) };
    // A panic must not unwind into the native implementation. The panic is printed, and the notification is lost.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| then(status)));
}

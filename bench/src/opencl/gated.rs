//! Commands that wait for user events, and callbacks when commands end.

use std::ffi::c_void;

use opencl_sys::*;

use super::{Context, Error, Event, Result, call, check};

// SAFETY: OpenCL's handles may be used from any thread (OpenCL 3.0 API, appendix A.2).
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

type Then = Box<dyn FnOnce() + Send>;

impl Context {
    /// Creates a user event.
    pub fn user_event(&self) -> Result<Event> {
        let mut status = 0;
        // SAFETY: the context is alive.
        let id = unsafe { call!(self.api, clCreateUserEvent(self.id, &mut status)) };
        check(status, "clCreateUserEvent")?;
        Ok(Event { api: self.api, id })
    }
}

impl Event {
    /// Completes this user event, which releases the commands that wait for it.
    pub fn set(&self) -> Result<()> {
        // SAFETY: the event is alive.
        check(unsafe { call!(self.api, clSetUserEventStatus(self.id, CL_COMPLETE)) }, "clSetUserEventStatus")
    }

    /// Calls `then` in a thread of the implementation once the command has ended.
    pub fn on_end(&self, then: impl FnOnce() + Send + 'static) -> Result<()> {
        let then: *mut Then = Box::into_raw(Box::new(Box::new(then)));
        // SAFETY: `ended` is given what it expects, and is called once at the most.
        let status = unsafe { call!(self.api, clSetEventCallback(self.id, CL_COMPLETE, Some(ended), then.cast())) };
        check(status, "clSetEventCallback")
    }
}

unsafe extern "C" fn ended(_: cl_event, _: cl_int, then: *mut c_void) {
    // SAFETY: it is the box that `on_end` made, and this is the only call with it.
    let then = unsafe { Box::from_raw(then.cast::<Then>()) };
    then();
}

//! User events, which end when the worker says so. The device's commands wait for them by themselves; the worker's threads
//! and those who are to be notified wait for what is said here, and not in the driver.

use ropeway_protocol::types::Status;

use super::api::api;
use super::ending::Ending;
use super::{Context, Event, check, failing};

/// A native user event.
#[derive(Clone, Debug)]
pub struct UserEvent {
    event: Event,
    ending: Ending,
}

impl UserEvent {
    /// clCreateUserEvent.
    ///
    /// # Errors
    /// The status of the native call.
    pub fn new(context: &Context) -> Result<Self, Status> {
        let mut status = 0;
        // SAFETY: the context is alive.
        let event = unsafe { (api().clCreateUserEvent)(context.0, &raw mut status) };
        check(status)?;
        let ending = Ending::default();
        Ok(Self { event: Event::owned(event).told_by(ending.clone()), ending })
    }

    /// clSetUserEventStatus: 0 or less. Who is to be notified is so from here.
    ///
    /// # Errors
    /// The status of the native call: the event was set before.
    pub fn set(&self, status: Status) -> Result<(), Status> {
        // SAFETY: the event is alive.
        let set = || check(unsafe { (api().clSetUserEventStatus)(self.event.raw(), status) });
        let outcome = if status < 0 { failing::one_fails(set) } else { set() };
        // Where the driver has not taken it, the commands behind it will not run: whoever waits for it is told of that.
        self.ending.tell(outcome.err().unwrap_or(status));
        outcome
    }

    /// To wait for it.
    pub fn event(&self) -> &Event {
        &self.event
    }
}

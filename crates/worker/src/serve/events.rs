//! Events and clocks.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ropeway_abi as cl;
use ropeway_protocol::CallId;
use ropeway_protocol::messages::{
    CreateUserEvent, DeviceTimer, ReleaseEvent, SetUserEventStatus, Subscribe, WaitForEvents, WatchProgress,
};
use ropeway_protocol::types::Waited;

use crate::base::error::End;
use crate::base::error::unknown;
use crate::native;
use crate::objects::Cell;
use crate::queue_states::claim;
use crate::session::job::Job;
use crate::session::{Deferred, Session};

impl Session {
    /// Makes a user event.
    ///
    /// # Errors
    /// There is no such context, or the name is taken.
    pub fn create_user_event(&mut self, m: CreateUserEvent) -> Result<(), End> {
        let total = self.objects();
        let context = self.context(m.context)?;
        let native = context.native.as_ref().map_err(|status| *status);
        let made = self.allow_object().and(native).and_then(native::UserEvent::new);
        let cell = match made {
            Ok(user) => {
                let event = user.event().clone();
                native::failing::user_event_made();
                claim(total, &mut self.user_events, m.event, user)?;
                Cell::new(Some(m.event), Some(event), None, None)
            }
            Err(status) => Cell::failed(m.event, status, None),
        };
        // The client itself sets a user event, so it need not be told of the end.
        cell.silence();
        claim(total, &mut self.queue_states.events, m.event, Arc::new(cell))
    }

    /// Sets a user event's status.
    ///
    /// # Errors
    /// There is no such event, or the status is none that it can be set to.
    pub fn set_user_event_status(&mut self, m: SetUserEventStatus) -> Result<(), End> {
        if m.status > 0 {
            return Err(End::refused(format_args!("status {} for user event {}", m.status, m.event)));
        }
        if m.status < 0 {
            self.queue_states.failures.store(true, Ordering::Relaxed);
        }
        if self.common.peers.resolve(m.event, m.status) {
            return Ok(());
        }
        match self.user_events.remove(&m.event) {
            Some(user) => {
                // The client has checked that it is set once; commands run from here.
                let _ = user.set(m.status);
                native::failing::user_event_set();
                Ok(())
            }
            None if self.queue_states.events.contains_key(&m.event) => Ok(()),
            None => Err(unknown(m.event)),
        }
    }

    /// Forgets an event.
    ///
    /// # Errors
    /// There is no such event.
    pub fn release_event(&mut self, m: ReleaseEvent) -> Result<(), End> {
        let cell = self.queue_states.events.remove(&m.event).ok_or_else(|| unknown(m.event))?;
        cell.silence();
        Ok(())
    }

    /// Waits until events have ended.
    ///
    /// # Errors
    /// One of them does not exist.
    pub fn wait_for_events(&mut self, m: WaitForEvents, call: CallId<Waited>) -> Result<(), End> {
        let cells = self.queue_states.cells(&m.events)?;
        self.demote(|deferred| match deferred {
            Deferred::Read(cell) => cells.iter().any(|waited| Arc::ptr_eq(waited, cell)),
            Deferred::Rendezvous(_) => false,
        });
        self.job = Some(Job::Wait(cells, call));
        Ok(())
    }

    /// Lets the client know when an event has ended.
    ///
    /// # Errors
    /// There is no such event.
    pub fn subscribe(&mut self, m: Subscribe) -> Result<(), End> {
        let cell = self.queue_states.events.get(&m.event).ok_or_else(|| unknown(m.event))?;
        if !cell.settled() {
            let (event, turn, cell, reporter) =
                (cell.native.clone(), cell.turn, cell.clone(), self.common.reporter.clone());
            self.common.notifier.watch(event, turn, Box::new(move || reporter.tell_of(&[cell])));
        }
        Ok(())
    }

    /// Tells the client when a command is submitted and when it starts to run, as far as the native implementation
    /// reports this.
    ///
    /// # Errors
    /// There is no such event.
    pub fn watch_progress(&mut self, m: WatchProgress) -> Result<(), End> {
        let cell = self.queue_states.events.get(&m.event).ok_or_else(|| unknown(m.event))?;
        let Some(native) = cell.native.as_ref().filter(|_| !cell.settled()) else { return Ok(()) };
        for status in [cl::CL_SUBMITTED, cl::CL_RUNNING] {
            let (cell, reporter, post) =
                (cell.clone(), self.common.reporter.clone(), self.common.notifier.post.clone());
            // If no callback can be registered, the report of the command's end covers all states.
            let _ = native.on_status(status, move || post.notify(Box::new(move || reporter.tell_progress(&cell))));
        }
        Ok(())
    }

    /// Answers with a device's time.
    ///
    /// # Errors
    /// There is no such device.
    pub fn device_timer(&mut self, m: DeviceTimer, call: CallId<u64>) -> Result<(), End> {
        let device = self.warm.device(m.platform, m.device);
        let device = device.ok_or_else(|| unknown(format_args!("device {} of platform {}", m.device, m.platform)))?;
        self.start(Job::Timer(device, call));
        Ok(())
    }
}

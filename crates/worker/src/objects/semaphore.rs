//! Semaphores: made of native events, on whatever implementation.
//!
//! A signal is a native command; the next wait takes over its event and waits for it like any command for another. A
//! wait that is enqueued before its signal waits for a native user event instead, which is set when the signal has
//! ended.

use std::collections::VecDeque;
use std::sync::Arc;

use ropeway_abi as cl;
use ropeway_protocol::types::Status;

use super::context::Context;
use crate::native::{self, Event, UserEvent};

/// A binary semaphore.
pub struct Semaphore {
    /// Its context.
    pub context: Arc<Context>,
    /// Whether it could be made.
    pub usable: Result<(), Status>,
    /// Signals that no wait has taken.
    signals: VecDeque<Event>,
    /// Waits that have no signal yet: the user events that they wait for, and their own events.
    waiting: VecDeque<(UserEvent, Event)>,
    /// Signals taken by waits that have not ended, with the events of those waits.
    taken: VecDeque<(Event, Event)>,
}

impl Semaphore {
    /// One that is not signaled, if it can be made.
    pub fn new(context: Arc<Context>, usable: Result<(), Status>) -> Self {
        Self { context, usable, signals: VecDeque::new(), waiting: VecDeque::new(), taken: VecDeque::new() }
    }

    /// The signal that the next wait would take.
    pub fn next_signal(&mut self) -> Option<Event> {
        self.settle();
        self.signals.front().cloned()
    }

    /// Records `end` as the event of a wait that has taken the next signal.
    pub fn take_signal(&mut self, end: Event) {
        if let Some(signal) = self.signals.pop_front() {
            self.taken.push_back((signal, end));
        }
    }

    /// Records `end` as the event of a wait that waits for `user` until there is a signal.
    pub fn await_signal(&mut self, user: UserEvent, end: Event) {
        self.waiting.push_back((user, end));
    }

    /// Adds a signal. If a wait is there already to take it, returns the user event that this wait waits for.
    pub fn signal(&mut self, signal: Event) -> Option<UserEvent> {
        self.settle();
        match self.waiting.pop_front() {
            Some((user, end)) => {
                self.taken.push_back((signal, end));
                Some(user)
            }
            None => {
                self.signals.push_back(signal);
                None
            }
        }
    }

    /// Returns the payload: 1 if signaled, else 0.
    pub fn payload(&mut self) -> u64 {
        self.settle();
        let signaled = |signal: &Event| signal.status() == cl::CL_COMPLETE;
        let still = |(signal, wait): &(Event, Event)| !wait.ended() && signaled(signal);
        u64::from(self.signals.iter().any(signaled) || self.taken.iter().any(still))
    }

    /// The user events of waits whose signal can never come.
    pub fn into_waiting(self) -> impl Iterator<Item = UserEvent> {
        self.waiting.into_iter().map(|(user, _)| user)
    }

    /// Drops waits that have ended, signals that have failed, and signals of a semaphore that was signaled already.
    fn settle(&mut self) {
        while self.taken.front().is_some_and(|(_, wait)| wait.ended()) {
            self.taken.pop_front();
        }
        let mut signaled = false;
        self.signals.retain(|signal| match signal.status() {
            cl::CL_COMPLETE => !std::mem::replace(&mut signaled, true),
            status => status > cl::CL_COMPLETE,
        });
    }
}

/// Releases the waits for a signal that has ended, with the status of the signal.
pub fn pass_signal_on(signal: &Event, waits: &[UserEvent]) {
    for wait in waits {
        set(wait, signal.status().min(cl::CL_COMPLETE));
    }
}

/// Makes a user event for a wait that has no signal yet.
///
/// # Errors
/// The status of the native call.
pub fn hold(context: &native::Context) -> Result<UserEvent, Status> {
    let user = UserEvent::new(context)?;
    // Should the signal fail, so does the wait.
    native::failing::user_event_made();
    Ok(user)
}

/// Sets a user event made by [`hold`].
pub fn set(user: &UserEvent, status: Status) {
    // Each of these events is set only once, so this cannot fail.
    let _ = user.set(status);
    native::failing::user_event_set();
}

//! Semaphores: made of native events, on whatever implementation.
//!
//! A signal is a native command whose event the next wait takes over: that waits for it like any command for another. A wait
//! that is enqueued before its signal holds on to a native user event, which is set when the signal has come to its end.

use std::collections::VecDeque;
use std::sync::Arc;

use ropeway_abi as cl;

use super::context::Context;
use crate::native::{self, Event, UserEvent};

/// A binary semaphore.
pub struct Semaphore {
    /// Its context.
    pub context: Arc<Context>,
    /// Signals that no wait has taken.
    signals: VecDeque<Event>,
    /// Waits for which there is no signal yet: what they hold on to, and their ends.
    waiting: VecDeque<(UserEvent, Event)>,
    /// Signals with the waits that have taken them and have not ended.
    taken: VecDeque<(Event, Event)>,
}

impl Semaphore {
    /// One that is not signaled.
    pub fn new(context: Arc<Context>) -> Self {
        Self { context, signals: VecDeque::new(), waiting: VecDeque::new(), taken: VecDeque::new() }
    }

    /// The signal that the next wait would take.
    pub fn next_signal(&mut self) -> Option<Event> {
        self.settle();
        self.signals.front().cloned()
    }

    /// `end` is a wait that has taken the next signal.
    pub fn take_signal(&mut self, end: Event) {
        if let Some(signal) = self.signals.pop_front() {
            self.taken.push_back((signal, end));
        }
    }

    /// `end` is a wait that holds on to `user` until there is a signal.
    pub fn await_signal(&mut self, user: UserEvent, end: Event) {
        self.waiting.push_back((user, end));
    }

    /// Adds a signal. Gives what the wait that takes it holds on to, if there is such a wait already.
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

    /// Whether it is signaled: 1, or 0.
    pub fn payload(&mut self) -> u64 {
        self.settle();
        let signaled = |signal: &Event| signal.status() == cl::CL_COMPLETE;
        let still = |(signal, wait): &(Event, Event)| !wait.ended() && signaled(signal);
        u64::from(self.signals.iter().any(signaled) || self.taken.iter().any(still))
    }

    /// What waits hold on to that no signal can ever come for.
    pub fn into_waiting(self) -> impl Iterator<Item = UserEvent> {
        self.waiting.into_iter().map(|(user, _)| user)
    }

    /// Forgets what is over: waits that have ended, signals that have failed, and signals of what was signaled already.
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

/// Lets go what waits for a signal that has come to its end, with the status that this has.
pub fn pass_signal_on(signal: &Event, waits: &[UserEvent]) {
    for wait in waits {
        set(wait, signal.status().min(cl::CL_COMPLETE));
    }
}

/// A user event for a wait to hold on to.
///
/// # Errors
/// What the native call returned.
pub fn hold(context: &native::Context) -> Result<UserEvent, ropeway_protocol::types::Status> {
    let user = UserEvent::new(context)?;
    // Should the signal fail, so does the wait.
    native::kept::user_event_made();
    Ok(user)
}

/// Sets what [`hold`] has made.
pub fn set(user: &UserEvent, status: ropeway_protocol::types::Status) {
    // It is set once, so there is nothing that can be wrong with it.
    let _ = user.set(status);
    native::kept::user_event_set();
}

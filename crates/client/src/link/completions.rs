//! Which events of this connection the program still holds, and news of them.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};

use ropeway_protocol::ids::EventId;
use ropeway_protocol::types::Completions;
use rustc_hash::FxBuildHasher;

use super::connection::Connection;
use crate::base::status::{SERVER_LOST, Status};
use crate::base::sync::lock;
use crate::objects::event::Event;

#[derive(Default, Debug)]
pub(super) struct Events {
    live: Mutex<HashMap<EventId, Weak<Event>, FxBuildHasher>>,
}

impl Events {
    /// Ends everything with [`SERVER_LOST`].
    pub(super) fn lose(&self) {
        let live: Vec<_> = lock(&self.live).values().filter_map(Weak::upgrade).collect();
        for event in live {
            event.end(SERVER_LOST);
        }
    }
}

impl Connection {
    /// Wants to hear of this event.
    pub(crate) fn add_event(&self, event: &Arc<Event>) {
        lock(&self.events.live).insert(event.id(), Arc::downgrade(event));
        if self.is_lost() {
            event.end(SERVER_LOST);
        }
    }

    /// The event of this name, while the program holds it.
    pub(crate) fn event(&self, event: EventId) -> Option<Arc<Event>> {
        lock(&self.events.live).get(&event).and_then(Weak::upgrade)
    }

    /// No longer wants to hear of it.
    pub(crate) fn remove_event(&self, event: EventId) {
        lock(&self.events.live).remove(&event);
    }

    /// A command was submitted, or runs.
    pub(crate) fn progress(&self, event: EventId, status: Status) {
        if let Some(event) = self.event(event) {
            event.progressed(status);
        }
    }

    /// Takes in the ends of commands.
    pub(crate) fn complete(&self, completions: &Completions) {
        for done in &completions.done {
            match self.event(done.event) {
                Some(event) => event.server_says(done.status, done.times),
                None => self.early_ended(done.event),
            }
        }
    }
}

/// What the objects tell their connection.
impl Connection {
    /// News will come that nobody may wait for.
    pub(crate) fn expect_news(&self) {
        self.helper.expect();
    }

    /// They came.
    pub(crate) fn news_came(&self) {
        self.helper.settled();
    }

    /// A user event was made (or, with false, set).
    pub(crate) fn count_user_event(&self, made: bool) {
        if made {
            self.unset_user_events.fetch_add(1, Ordering::AcqRel);
        } else {
            self.unset_user_events.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Whether some command may be held up by the application itself.
    pub(crate) fn has_unset_user_events(&self) -> bool {
        self.unset_user_events.load(Ordering::Acquire) > 0
    }

    /// Something that a waiting thread may be waiting for happened here.
    pub(crate) fn wake_waiters(&self) {
        self.inbox.wake();
    }
}

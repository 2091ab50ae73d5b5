//! Which events of this connection the program still holds.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use ropeway_protocol::ids::EventId;
use rustc_hash::FxBuildHasher;

use super::completion::Completion;
use crate::base::modelled::{Mutex, lock};

/// The events that the program holds, by their names.
#[derive(Default)]
pub(super) struct Live(Mutex<HashMap<EventId, Weak<dyn Completion>, FxBuildHasher>>);

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(lock(&self.0).keys()).finish()
    }
}

impl Live {
    pub(super) fn add(&self, id: EventId, event: Weak<dyn Completion>) {
        lock(&self.0).insert(id, event);
    }

    pub(super) fn get(&self, id: EventId) -> Option<Arc<dyn Completion>> {
        lock(&self.0).get(&id).and_then(Weak::upgrade)
    }

    pub(super) fn remove(&self, id: EventId) {
        lock(&self.0).remove(&id);
    }

    /// The server is lost, and all of them with it.
    pub(super) fn lose(&self) {
        let live: Vec<_> = lock(&self.0).values().filter_map(Weak::upgrade).collect();
        for event in live {
            event.lost();
        }
    }
}

//! Event references: events as the planner keeps them.

use std::sync::Arc;

use crate::objects::event::Event;

/// An event reference.
#[derive(Clone, Debug)]
pub(crate) struct EventRef(pub(crate) Arc<Event>);

impl EventRef {
    /// The event.
    pub(crate) fn event(&self) -> &Arc<Event> {
        &self.0
    }
}

impl PartialEq for EventRef {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

//! Keeps commands behind blocking writes that are still in flight.

use ropeway_protocol::ids::{ContextId, EventId, QueueId};
use ropeway_protocol::messages::{Marker, WaitForEvents};
use ropeway_protocol::types::{Command, EventList};

use super::connection::Connection;
use super::in_flight::{LiveQueue, Noted};
use crate::base::ids::new_id;
use crate::base::status::Result;

/// A guard: while it lives, no event is released that a command about to be sent may name.
pub(crate) struct OrderingGuard<'a>(Option<&'a Connection>);

impl Drop for OrderingGuard<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.0 {
            connection.release_all(connection.in_flight.composed());
        }
    }
}

impl Connection {
    /// Registers a new queue. If its context had only one other queue, the writes on that one were not recorded, as
    /// nothing could overtake them until now.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub(crate) fn add_queue(&self, context: ContextId, queue: QueueId, in_order: bool) -> Result<()> {
        let only = self.in_flight.add_queue(LiveQueue { context, queue, in_order });
        let Some(only) = only.filter(|only| only.in_order) else { return Ok(()) };
        // A marker stands for all writes before it.
        let event = EventId(new_id());
        let command = Command { queue: only.queue, event: Some(event), waits: EventList::default() };
        self.post(&Marker { command })?;
        self.note_early(only, event)
    }

    /// Removes a queue that no longer exists.
    pub(crate) fn remove_queue(&self, queue: QueueId) {
        self.in_flight.remove_queue(queue);
    }

    /// Returns the event to give to a blocking write so that commands on other queues can wait for it; `None` where no
    /// command can overtake the write.
    pub(crate) fn early_event(&self, on: LiveQueue) -> Option<EventId> {
        self.in_flight.event_for(on)
    }

    /// The call of the write with this event is about to return.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub(crate) fn note_early(&self, on: LiveQueue, event: EventId) -> Result<()> {
        match self.in_flight.note(on, event) {
            Noted::Release(events) => self.release_all(events),
            Noted::Await(events) => {
                let _heeded = OrderingGuard(Some(self));
                self.call(&WaitForEvents { events })?;
            }
        }
        Ok(())
    }

    /// Adds to `waits` the events that a command on this queue must not overtake. The caller must keep the returned
    /// guard until the command is sent: otherwise another thread may see such a write end and release its event.
    #[must_use]
    pub(crate) fn heed_early(&self, on: LiveQueue, waits: &mut EventList) -> OrderingGuard<'_> {
        OrderingGuard(self.in_flight.heed(on, waits).then_some(self))
    }
}

//! Keeps commands behind blocking writes that are still in flight.

use ropeway_protocol::ids::{ContextId, EventId, QueueId};
use ropeway_protocol::messages::{Marker, WaitForEvents};
use ropeway_protocol::types::{Command, EventList};

use super::connection::Connection;
use super::in_flight::{LiveQueue, Noted};
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

/// The event of a blocking write whose call has not returned.
pub(crate) struct EarlyEvent<'a> {
    connection: &'a Connection,
    on: LiveQueue,
    event: EventId,
}

impl EarlyEvent<'_> {
    /// Its name, for the write's command.
    pub(crate) fn id(&self) -> EventId {
        self.event
    }

    /// The call of the write is about to return: from here on, commands that could overtake it wait for it.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub(crate) fn note(self) -> Result<()> {
        let Self { connection, on, event } = self;
        std::mem::forget(self);
        match connection.in_flight.note(on, event) {
            Noted::Release(events) => connection.release_all(events),
            Noted::Await(events) => {
                let _heeded = OrderingGuard(Some(connection));
                connection.call(&WaitForEvents { events })?;
            }
        }
        Ok(())
    }
}

impl Drop for EarlyEvent<'_> {
    /// The write has failed.
    fn drop(&mut self) {
        self.connection.release_all(self.connection.in_flight.abandon(self.event));
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
        let early = EarlyEvent { connection: self, on: only, event: self.in_flight.new_event() };
        let command = Command { queue: only.queue, event: Some(early.id()), waits: EventList::default() };
        self.post(&Marker { command })?;
        early.note()
    }

    /// Removes a queue that no longer exists.
    pub(crate) fn remove_queue(&self, queue: QueueId) {
        self.in_flight.remove_queue(queue);
    }

    /// Returns the event to give to a blocking write so that commands on other queues can wait for it; `None` where no
    /// command can overtake the write.
    pub(crate) fn early_event(&self, on: LiveQueue) -> Option<EarlyEvent<'_>> {
        self.in_flight.event_for(on).map(|event| EarlyEvent { connection: self, on, event })
    }

    /// Adds to `waits` the events that a command on this queue must not overtake. The caller must keep the returned
    /// guard until the command is sent: otherwise another thread may see such a write end and release its event.
    #[must_use]
    pub(crate) fn heed_early(&self, on: LiveQueue, waits: &mut EventList) -> OrderingGuard<'_> {
        OrderingGuard(self.in_flight.heed(on, waits).then_some(self))
    }

    /// Waits for all that a command on this queue must not overtake, for one that is done here and now.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub(crate) fn await_early(&self, on: LiveQueue) -> Result<()> {
        let mut events = EventList::default();
        let _heeded = self.heed_early(on, &mut events);
        if !events.0.is_empty() {
            // They report failures of their own.
            self.call(&WaitForEvents { events })?;
        }
        Ok(())
    }
}

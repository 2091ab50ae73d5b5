//! Blocking writes whose call has returned before their command has ended.
//!
//! A blocking write gives the application its memory back as soon as the bytes are on their way, long before the device has
//! them. On its own in-order queue nobody can tell. A command on another queue, or on an out-of-order one, could overtake it,
//! though, which no program expects that has seen a *blocking* call return: such a command is made to wait for the write.

use std::sync::atomic::Ordering;

use ropeway_protocol::ids::{ContextId, EventId, QueueId};
use ropeway_protocol::messages::{Marker, ReleaseEvent, WaitForEvents};
use ropeway_protocol::types::{Command, EventList};

use super::connection::Connection;
use crate::base::ids::new_id;
use crate::base::status::Result;
use crate::base::sync::lock;

/// More such writes than this on out-of-order queues are waited for.
const MOST: usize = 64;

/// A write that may not have ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Early {
    /// Commands of other contexts share no memory with it, and cannot wait for its event.
    context: ContextId,
    queue: QueueId,
    /// Its event, which the application knows nothing of.
    event: EventId,
}

/// Such writes, and the events of those that are over.
#[derive(Default, Debug)]
pub(super) struct EarlyWrites {
    writes: Vec<Early>,
    /// How many commands are being put together that may name an event of one.
    composing: usize,
    /// Events to be released once no such command is left: it may name them yet.
    retired: Vec<EventId>,
}

impl EarlyWrites {
    /// The event is of no use any more; gives what can be released now.
    fn retire(&mut self, event: EventId) -> Vec<EventId> {
        self.retired.push(event);
        if self.composing == 0 { std::mem::take(&mut self.retired) } else { Vec::new() }
    }
}

/// While this lives, no event is released that a command about to be sent may name.
pub(crate) struct Heeded<'a>(Option<&'a Connection>);

impl Drop for Heeded<'_> {
    fn drop(&mut self) {
        let Some(connection) = self.0 else { return };
        let released = {
            let mut early = lock(&connection.early);
            early.composing -= 1;
            if early.composing == 0 { std::mem::take(&mut early.retired) } else { Vec::new() }
        };
        connection.release_all(released);
    }
}

/// A queue that the program has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LiveQueue {
    pub(crate) context: ContextId,
    pub(crate) queue: QueueId,
    pub(crate) in_order: bool,
}

impl Connection {
    /// A queue was made. Writes on the only other one of its context were not noted, as nothing could overtake them until now.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub(crate) fn add_queue(&self, context: ContextId, queue: QueueId, in_order: bool) -> Result<()> {
        let only = {
            let mut queues = lock(&self.queues);
            let mut others = queues.iter().filter(|other| other.context == context);
            let only = others.next().copied().filter(|_| others.next().is_none());
            queues.push(LiveQueue { context, queue, in_order });
            only
        };
        let Some(only) = only.filter(|only| only.in_order) else { return Ok(()) };
        // A marker stands for all writes before it.
        let event = EventId(new_id());
        let command = Command { queue: only.queue, event: Some(event), waits: EventList::default() };
        self.post(&Marker { command })?;
        self.note_early(only, event)
    }

    /// A queue is no more.
    pub(crate) fn remove_queue(&self, queue: QueueId) {
        lock(&self.queues).retain(|live| live.queue != queue);
    }

    /// The event to give to a blocking write so that commands elsewhere can wait for it; `None` where none can overtake it.
    pub(crate) fn early_event(&self, on: LiveQueue) -> Option<EventId> {
        let others = || lock(&self.queues).iter().any(|other| other.context == on.context && other.queue != on.queue);
        (!on.in_order || others()).then(|| EventId(new_id()))
    }

    /// The call of the write with this event is about to return.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub(crate) fn note_early(&self, on: LiveQueue, event: EventId) -> Result<()> {
        let LiveQueue { context, queue, in_order } = on;
        let mut early = lock(&self.early);
        if in_order && let Some(before) = early.writes.iter_mut().find(|e| e.queue == queue) {
            // The later one ends later.
            let replaced = std::mem::replace(&mut before.event, event);
            let released = early.retire(replaced);
            drop(early);
            self.release_all(released);
            return Ok(());
        }
        early.writes.push(Early { context, queue, event });
        let of_context = || early.writes.iter().filter(|e| e.context == context).map(|e| e.event);
        let too_many: Option<EventList> = (of_context().count() > MOST).then(|| of_context().collect());
        self.early_count.store(early.writes.len(), Ordering::Release);
        early.composing += usize::from(too_many.is_some());
        drop(early);
        if let Some(events) = too_many {
            let _heeded = Heeded(Some(self));
            self.call(&WaitForEvents { events })?;
        }
        Ok(())
    }

    /// Adds to `waits` what a command on this queue must not overtake. What is returned must outlive the command's sending: another
    /// thread may see such a write end, and release its event.
    #[must_use]
    pub(crate) fn heed_early(&self, on: LiveQueue, waits: &mut EventList) -> Heeded<'_> {
        if self.early_count.load(Ordering::Acquire) == 0 {
            return Heeded(None);
        }
        let mut early = lock(&self.early);
        let overtaken = |e: &&Early| e.context == on.context && (e.queue != on.queue || !on.in_order);
        waits.0.extend(early.writes.iter().filter(overtaken).map(|e| e.event));
        early.composing += 1;
        Heeded(Some(self))
    }

    fn release_all(&self, events: Vec<EventId>) {
        for event in events {
            // A lost server has dropped it already.
            let _ = self.post(&ReleaseEvent { event });
        }
    }

    /// A command has ended of which the application has no event.
    pub(super) fn early_ended(&self, event: EventId) {
        if self.early_count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut early = lock(&self.early);
        let Some(at) = early.writes.iter().position(|e| e.event == event) else { return };
        early.writes.swap_remove(at);
        self.early_count.store(early.writes.len(), Ordering::Release);
        let released = early.retire(event);
        drop(early);
        self.release_all(released);
    }
}

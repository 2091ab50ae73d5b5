//! Blocking writes whose call has returned before their command has ended.
//!
//! A blocking write gives the application its memory back as soon as the bytes are on their way, long before the device has
//! them. On its own in-order queue nobody can tell. A command on another queue, or on an out-of-order one, could overtake it,
//! though, which no program expects that has seen a *blocking* call return: such a command is made to wait for the write.

use std::sync::atomic::Ordering;

use ropeway_protocol::ids::{ContextId, EventId, QueueId};
use ropeway_protocol::messages::{Marker, ReleaseEvent, WaitForEvents};
use ropeway_protocol::types::{Command, EventList};

use super::{Connection, lock};
use crate::Result;

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
        let event = EventId(self.new_id());
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
        (!on.in_order || others()).then(|| EventId(self.new_id()))
    }

    /// The call of the write with this event is about to return.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub(crate) fn note_early(&self, on: LiveQueue, event: EventId) -> Result<()> {
        let LiveQueue { context, queue, in_order } = on;
        let mut early = lock(&self.early);
        if in_order && let Some(before) = early.iter_mut().find(|e| e.queue == queue) {
            // The later one ends later.
            let replaced = std::mem::replace(&mut before.event, event);
            drop(early);
            return self.post(&ReleaseEvent { event: replaced });
        }
        early.push(Early { context, queue, event });
        let of_context = || early.iter().filter(|e| e.context == context).map(|e| e.event);
        let too_many = (of_context().count() > MOST).then(|| of_context().collect());
        self.early_count.store(early.len(), Ordering::Release);
        drop(early);
        if let Some(events) = too_many {
            let waited = self.call(&WaitForEvents { events })?;
            self.complete(&waited.completions);
        }
        Ok(())
    }

    /// Adds to `waits` what a command on this queue must not overtake.
    pub(crate) fn heed_early(&self, on: LiveQueue, waits: &mut EventList) {
        if self.early_count.load(Ordering::Acquire) > 0 {
            let early = lock(&self.early);
            let overtaken = |e: &&Early| e.context == on.context && (e.queue != on.queue || !on.in_order);
            waits.0.extend(early.iter().filter(overtaken).map(|e| e.event));
        }
    }

    /// A command has ended of which the application has no event.
    pub(super) fn early_ended(&self, event: EventId) {
        if self.early_count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut early = lock(&self.early);
        let Some(at) = early.iter().position(|e| e.event == event) else { return };
        early.swap_remove(at);
        self.early_count.store(early.len(), Ordering::Release);
        drop(early);
        // A lost server has dropped it already.
        let _ = self.post(&ReleaseEvent { event });
    }
}

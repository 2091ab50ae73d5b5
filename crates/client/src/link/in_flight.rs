//! Blocking writes whose call has returned before their command has ended.
//!
//! A blocking write gives the application its memory back as soon as the bytes are on their way, long before the device
//! has them. On the write's own in-order queue nobody can tell. A command on another queue, or on an out-of-order one,
//! could overtake the write, though, which no program expects after a *blocking* call has returned: such a command is
//! made to wait for the write.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ropeway_protocol::ids::{ContextId, EventId, QueueId};
use ropeway_protocol::types::EventList;

use crate::base::ids::new_id;
use crate::base::sync::lock;

/// The most in-flight writes of a context, of which each in-order queue has one at most; with more, the client waits
/// for them.
const MOST: usize = 64;

/// A write that may not have ended.
#[derive(Clone, Copy, Debug)]
struct Early {
    /// Commands of other contexts share no memory with it, and cannot wait for its event.
    context: ContextId,
    queue: QueueId,
    /// Its event, which the application knows nothing of.
    event: EventId,
}

/// In-flight writes, and the events of those that are over.
#[derive(Default, Debug)]
struct Writes {
    writes: Vec<Early>,
    /// How many commands are being composed that may name the event of an in-flight write.
    composing: usize,
    /// Events to be released once no such command is being composed: until then one may still name them.
    retired: Vec<EventId>,
}

impl Writes {
    /// The event is of no use any more; gives what can be released now.
    fn retire(&mut self, event: EventId) -> Vec<EventId> {
        self.retired.push(event);
        if self.composing == 0 { std::mem::take(&mut self.retired) } else { Vec::new() }
    }
}

/// A queue that the program has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LiveQueue {
    pub(crate) context: ContextId,
    pub(crate) queue: QueueId,
    pub(crate) in_order: bool,
}

/// The queues of a connection, and the blocking writes on them that may not have ended.
#[derive(Default, Debug)]
pub(super) struct InFlight {
    queues: Mutex<Vec<LiveQueue>>,
    writes: Mutex<Writes>,
    /// How many writes there are.
    count: AtomicUsize,
}

/// The next step once a write is noted.
pub(super) enum Noted {
    /// These events are to be released.
    Release(Vec<EventId>),
    /// There are too many: these are to be waited for, under a guard that is counted already.
    Await(EventList),
}

impl InFlight {
    /// A queue was made. Gives the only other one of its context, if there is exactly one.
    pub(super) fn add_queue(&self, added: LiveQueue) -> Option<LiveQueue> {
        let mut queues = lock(&self.queues);
        let mut others = queues.iter().filter(|other| other.context == added.context);
        let only = others.next().copied().filter(|_| others.next().is_none());
        queues.push(added);
        only
    }

    pub(super) fn remove_queue(&self, queue: QueueId) {
        lock(&self.queues).retain(|live| live.queue != queue);
    }

    /// Returns the event to give to a blocking write so that commands on other queues can wait for it; `None` where no
    /// command can overtake the write.
    pub(super) fn event_for(&self, on: LiveQueue) -> Option<EventId> {
        let others = || lock(&self.queues).iter().any(|other| other.context == on.context && other.queue != on.queue);
        (!on.in_order || others()).then(|| EventId(new_id()))
    }

    /// The call of the write with this event is about to return.
    pub(super) fn note(&self, on: LiveQueue, event: EventId) -> Noted {
        let LiveQueue { context, queue, in_order } = on;
        let mut writes = lock(&self.writes);
        if in_order && let Some(before) = writes.writes.iter_mut().find(|e| e.queue == queue) {
            // The later write ends later, so its event replaces the earlier one's.
            let replaced = std::mem::replace(&mut before.event, event);
            return Noted::Release(writes.retire(replaced));
        }
        writes.writes.push(Early { context, queue, event });
        let of_context = || writes.writes.iter().filter(|e| e.context == context).map(|e| e.event);
        let too_many: Option<EventList> = (of_context().count() > MOST).then(|| of_context().collect());
        self.count.store(writes.writes.len(), Ordering::Release);
        writes.composing += usize::from(too_many.is_some());
        too_many.map_or(Noted::Release(Vec::new()), Noted::Await)
    }

    /// Adds to `waits` the in-flight writes that a command on this queue must not overtake. Returns whether there may
    /// be any; if so, [`Self::composed`] must be called once the command is sent.
    pub(super) fn heed(&self, on: LiveQueue, waits: &mut EventList) -> bool {
        if self.count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let mut writes = lock(&self.writes);
        let overtaken = |e: &&Early| e.context == on.context && (e.queue != on.queue || !on.in_order);
        waits.0.extend(writes.writes.iter().filter(overtaken).map(|e| e.event));
        writes.composing += 1;
        true
    }

    /// A command that may name events of such writes is sent. Gives the events that can be released now.
    pub(super) fn composed(&self) -> Vec<EventId> {
        let mut writes = lock(&self.writes);
        writes.composing -= 1;
        if writes.composing == 0 { std::mem::take(&mut writes.retired) } else { Vec::new() }
    }

    /// A command has ended of which the application has no event. Gives the events that can be released now.
    pub(super) fn ended(&self, event: EventId) -> Vec<EventId> {
        if self.count.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let mut writes = lock(&self.writes);
        let Some(at) = writes.writes.iter().position(|e| e.event == event) else { return Vec::new() };
        writes.writes.swap_remove(at);
        self.count.store(writes.writes.len(), Ordering::Release);
        writes.retire(event)
    }
}

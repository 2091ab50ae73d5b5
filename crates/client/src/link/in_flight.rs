//! Blocking writes whose call has returned before their command has ended.
//!
//! A blocking write gives the application its memory back as soon as the bytes are on their way, long before the device
//! has them. On the write's own in-order queue nobody can tell. A command on another queue, or on an out-of-order one,
//! could overtake the write, though, which no program expects after a *blocking* call has returned: such a command is
//! made to wait for the write.

use ropeway_protocol::ids::{ContextId, EventId, QueueId};
use ropeway_protocol::types::EventList;

use crate::base::ids::new_id;
use crate::base::modelled::atomic::{AtomicUsize, Ordering};
use crate::base::modelled::{Mutex, lock};

/// The most in-flight writes of a context, of which each in-order queue has one at most; with more, the client waits
/// for them. Fewer in a model, where so many commands would take long.
const MOST: usize = if cfg!(all(test, feature = "model")) { 2 } else { 64 };

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
    /// Events whose ends came while some writes' calls had not returned: theirs may be among them.
    over: Vec<EventId>,
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
    /// How many writes there are, and how many more have an event and will be noted, or abandoned.
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

    /// Returns the event to give to a blocking write so that commands on other queues can wait for it, as
    /// [`Self::new_event`]; `None` where no command can overtake the write.
    pub(super) fn event_for(&self, on: LiveQueue) -> Option<EventId> {
        let others = || lock(&self.queues).iter().any(|other| other.context == on.context && other.queue != on.queue);
        (!on.in_order || others()).then(|| self.new_event())
    }

    /// Returns an event for a write, which must be passed to [`Self::note`] or [`Self::abandon`].
    pub(super) fn new_event(&self) -> EventId {
        self.count.fetch_add(1, Ordering::AcqRel);
        EventId(new_id())
    }

    /// A write is over, or will not be noted.
    fn count_down(&self, writes: &mut Writes) {
        if self.count.fetch_sub(1, Ordering::AcqRel) - 1 == writes.writes.len() {
            // Nobody will ask for them.
            writes.over.clear();
        }
    }

    /// The write with this event has failed. Gives the events that can be released now.
    pub(super) fn abandon(&self, event: EventId) -> Vec<EventId> {
        let mut writes = lock(&self.writes);
        writes.over.retain(|over| *over != event);
        self.count_down(&mut writes);
        writes.retire(event)
    }

    /// The call of the write with this event is about to return.
    pub(super) fn note(&self, on: LiveQueue, event: EventId) -> Noted {
        let LiveQueue { context, queue, in_order } = on;
        let mut writes = lock(&self.writes);
        if let Some(at) = writes.over.iter().position(|over| *over == event) {
            // Another thread has read of its end already.
            writes.over.swap_remove(at);
            self.count_down(&mut writes);
            return Noted::Release(writes.retire(event));
        }
        if in_order && let Some(before) = writes.writes.iter_mut().find(|e| e.queue == queue) {
            // The later write ends later, so its event replaces the earlier one's.
            let replaced = std::mem::replace(&mut before.event, event);
            self.count_down(&mut writes);
            return Noted::Release(writes.retire(replaced));
        }
        writes.writes.push(Early { context, queue, event });
        let of_context = || writes.writes.iter().filter(|e| e.context == context).map(|e| e.event);
        let too_many: Option<EventList> = (of_context().count() > MOST).then(|| of_context().collect());
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
        if let Some(at) = writes.writes.iter().position(|e| e.event == event) {
            writes.writes.swap_remove(at);
            self.count_down(&mut writes);
            return writes.retire(event);
        }
        if self.count.load(Ordering::Acquire) > writes.writes.len() {
            writes.over.push(event);
        }
        Vec::new()
    }
}

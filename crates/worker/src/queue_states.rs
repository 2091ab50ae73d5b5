//! Queues and events as the one thread that carries out commands uses them.

use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ropeway_abi as cl;
use ropeway_protocol::ids::{EventId, QueueId};
use ropeway_protocol::limits;
use ropeway_protocol::types::{Command, EventList, Status};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::base::budget::Budget;
use crate::base::error::{End, unknown};
use crate::limits::Limits;
use crate::native::{self, Waits};
use crate::objects::{Cell, Cells, Queue};

/// A queue, with the state that only the reader of commands needs.
pub struct QueueState {
    /// The part that other threads see.
    pub queue: Arc<Queue>,
    /// Memory of small writes.
    pub staging: native::Staging,
    /// The last barrier of an out-of-order queue.
    pub barrier: Option<native::Event>,
}

/// Queues and events: what every command needs.
pub struct QueueStates {
    /// The queues.
    pub queues: FxHashMap<QueueId, QueueState>,
    /// The events whose names the client still uses.
    pub events: FxHashMap<EventId, Arc<Cell>>,
    /// Whether a user event was ever set to an error.
    pub failures: Arc<AtomicBool>,
    /// The most that the session may have.
    limits: Arc<Limits>,
    /// Queues on which something was enqueued since they were flushed.
    dirty: SmallVec<[Arc<Queue>; 4]>,
    /// How many staged bytes must be held before the worker checks which of them the device is done with.
    reclaim_from: usize,
}

/// Adds an object under a name that must be new.
///
/// # Errors
/// The name is taken, or the session has too many objects.
pub fn claim<K: Eq + std::hash::Hash + Copy + std::fmt::Display, V>(
    total: usize,
    map: &mut FxHashMap<K, V>,
    id: K,
    value: V,
) -> Result<(), End> {
    if total >= limits::MAX_OBJECTS {
        return Err(End::refused(format_args!("more than {} objects", limits::MAX_OBJECTS)));
    }
    match map.entry(id) {
        Entry::Occupied(_) => Err(End::refused(format_args!("{id} exists already"))),
        Entry::Vacant(place) => {
            place.insert(value);
            Ok(())
        }
    }
}

impl QueueStates {
    /// Makes an empty set of queues and events; `failures` is whether a user event was ever set to an error.
    pub fn new(failures: Arc<AtomicBool>, limits: Arc<Limits>) -> Self {
        let (queues, events, dirty) = Default::default();
        Self { queues, events, failures, limits, dirty, reclaim_from: 0 }
    }

    /// Enqueues a command: gathers its wait list, lets `enqueue` do the rest, and records its event or its failure.
    ///
    /// # Errors
    /// The client named a queue or event that does not exist, or `enqueue` ends the session.
    pub fn enqueue(
        &mut self,
        total: usize,
        command: &Command,
        enqueue: impl FnOnce(&mut QueueState, &Waits<'_>, bool) -> Result<Result<Option<native::Event>, Status>, End>,
    ) -> Result<(), End> {
        let queue_state = self.queues.get_mut(&command.queue).ok_or_else(|| unknown(command.queue))?;
        let waits = gather(&self.events, &command.waits, &self.failures)?;
        let outcome = match waits.and_then(|waits| self.limits.allow_event(total, command.event).map(|()| waits)) {
            Ok(waits) => enqueue(queue_state, &waits, command.event.is_some())?,
            Err(status) => Err(status),
        };
        let queue = &queue_state.queue;
        if !queue.dirty.swap(true, Ordering::Relaxed) {
            self.dirty.push(queue.clone());
        }
        match (command.event, outcome) {
            (Some(id), Ok(event)) => {
                let cell = Arc::new(Cell::new(Some(id), event, Some(queue.clone()), None));
                queue.push(cell.clone());
                claim(total, &mut self.events, id, cell)
            }
            (None, Ok(_)) => {
                queue.line.turn();
                Ok(())
            }
            (event, Err(status)) => {
                let queue = queue.clone();
                self.fail(total, event, status, &queue)
            }
        }
    }

    /// Records a command that failed.
    ///
    /// # Errors
    /// As [`Session::claim`].
    pub fn fail(
        &mut self,
        total: usize,
        event: Option<EventId>,
        status: Status,
        queue: &Arc<Queue>,
    ) -> Result<(), End> {
        let Some(id) = event else {
            // The error of an event that the command waited for is reported with that event.
            if status != cl::CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST {
                queue.note_error(status);
            }
            return Ok(());
        };
        let cell = Arc::new(Cell::failed(id, status, Some(queue.clone())));
        queue.push(cell.clone());
        claim(total, &mut self.events, id, cell)
    }

    /// Releases the memory of small writes that have ended, on all queues, once half of the limit is taken; otherwise,
    /// a queue that is no longer used would keep its share.
    pub fn reclaim(&mut self, staged: &Budget) {
        let (taken, half) = (staged.taken(), staged.most() / 2);
        if taken < half.max(self.reclaim_from) {
            self.reclaim_from = self.reclaim_from.min(taken + half / 8);
            return;
        }
        for QueueState { queue, staging, .. } in self.queues.values_mut() {
            staging.let_go();
            if let Ok(native) = &queue.native
                && staging.retire(native).is_ok_and(|retired| retired)
                && let Err(status) = native.flush()
            {
                queue.note_error(status);
            }
        }
        // The writes held now are likely to have ended by then.
        self.reclaim_from = staged.taken() + half / 8;
    }

    /// A command's lane.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn queue_state(&mut self, id: QueueId) -> Result<&mut QueueState, End> {
        self.queues.get_mut(&id).ok_or_else(|| unknown(id))
    }

    /// Takes note that something was enqueued on `queue`.
    pub fn touch(&mut self, queue: &Arc<Queue>) {
        if !queue.dirty.swap(true, Ordering::Relaxed) {
            self.dirty.push(queue.clone());
        }
    }

    /// Whether something is to be flushed.
    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Flushes all queues that need it, except `except`, which is about to be finished.
    pub fn flush(&mut self, except: Option<&Arc<Queue>>) {
        for queue in self.dirty.drain(..) {
            queue.dirty.store(false, Ordering::Relaxed);
            queue.usage.handed_over(queue.line.len());
            if except.is_none_or(|except| !Arc::ptr_eq(except, &queue))
                && let Ok(native) = &queue.native
                && let Err(status) = native.flush()
            {
                queue.note_error(status);
            }
        }
    }

    /// The cells of these events.
    ///
    /// # Errors
    /// One of them does not exist.
    pub fn cells(&self, list: &EventList) -> Result<Cells, End> {
        list.0.iter().map(|id| self.events.get(id).cloned().ok_or_else(|| unknown(id))).collect()
    }
}

/// Returns the native events of a wait list. The inner error is for a list with an event that has no native one, as its
/// command failed; and, if user events may have failed (`failures`), for a list with an event that has failed: PoCL 3.1
/// never ends a command that starts to wait for such an event.
///
/// # Errors
/// One of them does not exist.
pub fn gather<'a>(
    events: &'a FxHashMap<EventId, Arc<Cell>>,
    list: &EventList,
    failures: &AtomicBool,
) -> Result<Result<Waits<'a>, Status>, End> {
    let mut waits = Waits::while_none_fails();
    let failures = failures.load(Ordering::Relaxed);
    let mut failed = false;
    for id in &list.0 {
        let cell = events.get(id).ok_or_else(|| unknown(id))?;
        match &cell.native {
            Some(event) if failures && event.status() < 0 => failed = true,
            Some(event) => waits.push(event),
            None => failed = true,
        }
    }
    Ok(if failed { Err(cl::CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST) } else { Ok(waits) })
}

//! Events: the state of a command that the client waits for.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex};

use ropeway_abi as cl;
use ropeway_protocol::ids::{EventId, TransferId};
use ropeway_protocol::types::{EventDone, Status};
use smallvec::SmallVec;

use super::queue::Queue;
use crate::base::lock::lock;
use crate::base::order::Turn;
use crate::native;

/// A small read whose data the client has not received yet.
pub struct OwedRead {
    /// Its transfer.
    pub transfer: TransferId,
    /// Memory and event.
    pub read: native::StagedRead,
}

/// A command that the client waits for: its event, the data that it reads, or both.
pub struct Cell {
    /// The client's name for the event, if it has one.
    pub id: Option<EventId>,
    /// The native event; `None` when the command could not be enqueued.
    pub native: Option<native::Event>,
    /// The native event that says when a rendezvous transfer could begin; the command takes its first times from it.
    pub began: Option<native::Event>,
    /// When the command was enqueued, in nanoseconds of the device's timer, used if `began` does not say; 0 for
    /// unknown.
    pub enqueued_at: u64,
    /// The native event of the first of several native commands; the command takes all its times but the end from it.
    pub first: Option<native::Event>,
    /// The queue; `None` for user events.
    pub queue: Option<Arc<Queue>>,
    /// The command's place in the queue.
    place: Option<Turn>,
    /// The command's place among those of one native queue, if that runs its commands in order: the queue's, or one beside it.
    pub turn: Option<Turn>,
    /// An error found by the worker, which outweighs what the native event says; 0 for none.
    failure: AtomicI32,
    /// Whether the client was told of the end, or no longer wants to hear of it.
    told: AtomicBool,
    /// Data that the client has not received yet.
    owed: Mutex<Option<OwedRead>>,
    owes: AtomicBool,
}

impl Cell {
    /// A command with an event, data to come, or both.
    pub fn new(
        id: Option<EventId>,
        native: Option<native::Event>,
        queue: Option<Arc<Queue>>,
        owed: Option<OwedRead>,
    ) -> Self {
        let place = queue.as_ref().map(|queue| queue.line.turn());
        Self {
            id,
            native,
            began: None,
            enqueued_at: 0,
            first: None,
            place,
            turn: place.filter(|_| queue.as_ref().is_some_and(|queue| queue.in_order)),
            queue,
            failure: AtomicI32::new(0),
            told: AtomicBool::new(id.is_none()),
            owes: AtomicBool::new(owed.is_some()),
            owed: Mutex::new(owed),
        }
    }

    /// Makes a command that failed.
    pub fn failed(id: EventId, status: Status, queue: Option<Arc<Queue>>) -> Self {
        let cell = Self::new(Some(id), None, queue, None);
        cell.fail(status);
        cell
    }

    /// Lets the command end with an error of the worker's.
    pub fn fail(&self, status: Status) {
        self.failure.store(status, Ordering::Release);
    }

    /// The error found by the worker; 0 for none.
    pub fn failure(&self) -> Status {
        self.failure.load(Ordering::Acquire)
    }

    /// The execution status: more than 0 while it has not ended.
    pub fn status(&self) -> Status {
        match (self.failure(), &self.native) {
            (0, Some(event)) => event.status(),
            // A failed rendezvous transfer ends only when its native event has; otherwise, later commands would
            // overtake it.
            (failure, Some(event)) if event.ended() => failure,
            (_, Some(event)) => event.status(),
            (failure, None) => failure,
        }
    }

    /// Blocks until it has ended; gives how.
    pub fn end(&self) -> Status {
        let native = self.native.as_ref().map_or(cl::CL_COMPLETE, native::Event::end);
        match self.failure() {
            0 => native,
            failure => failure,
        }
    }

    /// Whether it is one of the first `count` commands of its queue.
    pub fn is_of_first(&self, count: u64) -> bool {
        self.place.is_some_and(|place| place.number < count)
    }

    /// Whether this command has ended if `later` has: both are in one queue that runs its commands in order.
    pub fn comes_before(&self, later: &Self) -> bool {
        let places = self.turn.zip(later.turn);
        places.is_some_and(|(one, other)| one.line == other.line && one.number < other.number)
    }

    /// Whether the client has received everything about this command.
    pub fn settled(&self) -> bool {
        self.told.load(Ordering::Acquire) && !self.owes.load(Ordering::Acquire)
    }

    /// Records that the client no longer wants to hear of the event.
    pub fn silence(&self) {
        self.told.store(true, Ordering::Release);
    }

    /// Whether data are still owed.
    pub fn owes(&self) -> bool {
        self.owes.load(Ordering::Acquire)
    }

    /// Takes the data that the client has yet to receive.
    pub fn take_owed(&self) -> Option<OwedRead> {
        let owed = lock(&self.owed).take();
        self.owes.store(false, Ordering::Release);
        owed
    }

    /// Returns the message about the event's end, once.
    pub fn tell(&self, status: Status) -> Option<EventDone> {
        let event = self.id?;
        if self.told.swap(true, Ordering::AcqRel) {
            return None;
        }
        let profiling = self.queue.as_ref().is_some_and(|queue| queue.profiling);
        let times = if profiling && status == cl::CL_COMPLETE { self.times() } else { None };
        Some(EventDone { event, status, times })
    }

    fn times(&self) -> Option<[u64; 5]> {
        let native = self.native.as_ref()?;
        let first = self.began.as_ref().or(self.first.as_ref()).unwrap_or(native);
        let end = native.time(cl::CL_PROFILING_COMMAND_END).ok()?;
        let start = match &self.began {
            Some(began) => began.time(cl::CL_PROFILING_COMMAND_END),
            None => first.time(cl::CL_PROFILING_COMMAND_START),
        };
        let mut times = [
            first.time(cl::CL_PROFILING_COMMAND_QUEUED).ok()?,
            first.time(cl::CL_PROFILING_COMMAND_SUBMIT).ok()?,
            start.ok()?,
            end,
            native.time(cl::CL_PROFILING_COMMAND_COMPLETE).unwrap_or(end),
        ];
        if let (Some(_), Some(queue)) = (&self.began, &self.queue) {
            match times[0] {
                0 => times[0] = self.enqueued_at,
                _ => queue.markers_timed.store(true, Ordering::Relaxed),
            }
        }
        fill_gaps(&mut times);
        Some(times)
    }
}

/// Fills in a time that the implementation does not report (0), and an enqueue time that turns out to be from another
/// clock than the event's, with the next known time: the command had come that far by then.
fn fill_gaps(times: &mut [u64; 5]) {
    for at in (0..times.len() - 1).rev() {
        if times[at] == 0 || at == 0 && times[at] > times[at + 1] {
            times[at] = times[at + 1];
        }
    }
}

/// The cells of a wait list.
pub type Cells = SmallVec<[Arc<Cell>; 4]>;

#[cfg(test)]
mod tests {
    use super::fill_gaps;

    #[test]
    fn times_that_are_not_told_are_those_of_the_next_step() {
        let filled = |mut times: [u64; 5]| {
            fill_gaps(&mut times);
            times
        };
        assert_eq!(filled([1, 2, 3, 4, 5]), [1, 2, 3, 4, 5]);
        assert_eq!(filled([0, 0, 3, 4, 5]), [3, 3, 3, 4, 5], "markers of an out-of-order queue");
        assert_eq!(filled([0, 2, 0, 4, 4]), [2, 2, 4, 4, 4]);
        assert_eq!(filled([9, 2, 3, 4, 5]), [2, 2, 3, 4, 5], "taken on another clock");
        assert_eq!(filled([0; 5]), [0; 5], "an implementation that tells nothing");
    }
}

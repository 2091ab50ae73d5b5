//! Host memory that small writes and reads go through while they wait for the device.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use ropeway_abi as cl;
use ropeway_protocol::Tail;
use ropeway_protocol::limits;
use ropeway_protocol::types::Status;

use super::{Event, Memory, Part, Place, Queue, Waits};
use crate::base::budget::Budget;
use crate::base::lock::lock;

/// Bytes of one arena. Pages that are never written take no memory.
const ARENA: usize = 2 * limits::MAX_EAGER;

/// Alignment of small writes: each starts at a fresh cache line, so that no two share one.
const ALIGN: usize = 64;

/// Arenas kept for reuse.
const SPARE: usize = 4;

/// So many bytes at a time are taken of the session's limit.
const STEP: usize = 32 << 10;

/// Number of arenas of released queues to look at each time: more than are added at once, so that those whose writes
/// have ended do not pile up.
const LOOK: usize = 4;

/// State that the staging of all queues of a session shares.
#[derive(Debug)]
pub struct Arenas {
    state: Mutex<Shared>,
    /// The bytes that writes hold until the device is known to be done with them.
    limit: Arc<Budget>,
}

#[derive(Debug, Default)]
struct Shared {
    spare: Vec<Vec<u8>>,
    /// Those of queues that were released.
    left: VecDeque<Retired>,
}

/// An arena that is not written to any more.
#[derive(Debug)]
struct Retired {
    arena: Vec<u8>,
    /// How much of the limit the arena's writes have taken.
    charged: usize,
    /// Says when the device is done with it.
    done: Event,
}

impl Arenas {
    /// Makes an empty set of arenas; writes may hold as many bytes as `limit` has.
    pub fn new(limit: Arc<Budget>) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), limit })
    }

    /// As [`Self::new`], with one arena for the first write, the beginning of which is memory already.
    pub fn with_one(limit: Arc<Budget>) -> Arc<Self> {
        let arenas = Self::new(limit);
        let mut first = vec![0; ARENA];
        // Otherwise the compiler need not write what is 0 already.
        first[0] = std::hint::black_box(1);
        lock(&arenas.state).spare.push(first);
        arenas
    }

    /// Takes an unused arena of at least `len` bytes.
    fn take(&self, len: usize) -> Vec<u8> {
        let spare = lock(&self.state).spare.pop();
        spare.filter(|arena| arena.len() >= len).unwrap_or_else(|| vec![0; ARENA.max(len)])
    }

    /// Gives back an arena that the device is done with.
    fn give_back(&self, state: &mut Shared, retired: Retired) {
        self.limit.give_back(retired.charged);
        if state.spare.len() < SPARE {
            state.spare.push(retired.arena);
        }
    }

    /// Keeps arenas of a released queue until the device is done with them, and gives back some that it is done with.
    fn leave(&self, retired: impl Iterator<Item = Retired>) {
        let mut state = lock(&self.state);
        state.left.extend(retired);
        self.look(&mut state, LOOK);
    }

    /// Looks at the first `most` arenas of released queues, and gives back those that the device is done with.
    fn look(&self, state: &mut Shared, most: usize) {
        for _ in 0..most.min(state.left.len()) {
            match state.left.pop_front() {
                Some(retired) if retired.done.ended() => self.give_back(state, retired),
                // Others may end before it.
                Some(retired) => state.left.push_back(retired),
                None => return,
            }
        }
    }

    /// Gives back all arenas of released queues that the device is done with.
    fn look_at_all(&self) {
        self.look(&mut lock(&self.state), usize::MAX);
    }
}

/// Memory of one queue's small writes: arenas filled from the bottom up, each reused once the device has read all of
/// it.
#[derive(Debug)]
pub struct Staging {
    arenas: Arc<Arenas>,
    current: Vec<u8>,
    used: usize,
    /// How much of the limit the current arena's writes have taken.
    charged: usize,
    /// Full arenas.
    retired: VecDeque<Retired>,
}

impl Staging {
    /// Makes the staging of a queue without writes.
    pub fn new(arenas: Arc<Arenas>) -> Self {
        Self { arenas, current: Vec::new(), used: 0, charged: 0, retired: VecDeque::new() }
    }

    /// Receives the whole of `tail` and enqueues a write of it.
    ///
    /// # Errors
    /// The outer error when the link broke; the inner one is what the native call returned, CL_INVALID_VALUE for a part
    /// of another size, CL_OUT_OF_HOST_MEMORY when
    /// writes that do not end hold all that the session may have held.
    pub fn write(
        &mut self,
        queue: &Queue,
        (memory, part): (&Memory, &Part),
        tail: &mut dyn Tail,
        waits: &Waits<'_>,
        event: bool,
    ) -> Result<Result<Option<Event>, Status>, ropeway_protocol::TailError> {
        let len = tail.remaining();
        if part.size() != len as u64 {
            return Ok(Err(cl::CL_INVALID_VALUE));
        }
        if let Err(status) = self.make_room(queue, len) {
            return Ok(Err(status));
        }
        let place = &mut self.current[self.used..self.used + len];
        tail.read_exact(place)?;
        let from = place.as_ptr();
        self.used = (self.used + len).next_multiple_of(ALIGN).min(self.current.len());
        // SAFETY: an arena is neither moved nor reused before the event of `retire`, enqueued after this write, has
        // ended; one that was never retired is leaked by `drop`.
        Ok(unsafe { queue.write(memory, part, from, waits, event) })
    }

    /// Makes `len` bytes free in the current arena.
    fn make_room(&mut self, queue: &Queue, len: usize) -> Result<(), Status> {
        if self.current.len() - self.used < len {
            self.retire(queue)?;
            self.let_go();
            self.current = self.arenas.take(len);
        }
        if self.charge(self.used + len) {
            return Ok(());
        }
        self.let_go();
        self.arenas.look_at_all();
        if self.charge(self.used + len) { Ok(()) } else { Err(cl::CL_OUT_OF_HOST_MEMORY) }
    }

    /// Takes as much of the limit as the first `end` bytes of the current arena need.
    fn charge(&mut self, end: usize) -> bool {
        while self.charged < end {
            if !self.arenas.limit.take(STEP) {
                return false;
            }
            self.charged += STEP;
        }
        true
    }

    /// Stops writing to the current arena; returns whether the arena was written to, and so waits for the device.
    ///
    /// # Errors
    /// The status of the native call.
    pub fn retire(&mut self, queue: &Queue) -> Result<bool, Status> {
        let written = self.used > 0;
        if written {
            // All writes from this arena were enqueued before the marker, which waits for all before it.
            let Some(done) = queue.marker(&Waits::none(), true)? else { return Err(cl::CL_OUT_OF_RESOURCES) };
            let (arena, charged) = (std::mem::take(&mut self.current), std::mem::take(&mut self.charged));
            self.retired.push_back(Retired { arena, charged, done });
            self.used = 0;
        }
        Ok(written)
    }

    /// Gives back the arenas that the device is done with.
    pub fn let_go(&mut self) {
        while self.retired.front().is_some_and(|retired| retired.done.ended()) {
            if let Some(retired) = self.retired.pop_front() {
                self.arenas.give_back(&mut lock(&self.arenas.state), retired);
            }
        }
    }

    /// Prepares for the release of the queue: its arenas are kept until the device is done with them.
    ///
    /// # Errors
    /// The status of the native call; the current arena is lost then.
    pub fn leave(mut self, queue: &Queue) -> Result<(), Status> {
        let outcome = self.retire(queue).map(drop);
        self.arenas.clone().leave(self.retired.drain(..));
        outcome
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // The device may still be reading: leak the arena rather than free it.
        if self.used > 0 {
            std::mem::forget(std::mem::take(&mut self.current));
        }
        for retired in self.retired.drain(..) {
            if !retired.done.ended() {
                std::mem::forget(retired.arena);
            }
        }
    }
}

/// A small read under way: the memory that it goes to, and its event.
#[derive(Debug)]
pub struct StagedRead {
    /// `None` for one into a slot, and while it is dropped.
    memory: Option<Place>,
    /// Whether it goes into a slot, where the client finds the bytes.
    is_in_slot: bool,
    event: Event,
}

impl StagedRead {
    /// Enqueues a read into `place`.
    ///
    /// # Errors
    /// The status of the native call; CL_INVALID_VALUE when the part leaves the object, or has not as many bytes as the
    /// place.
    pub fn enqueue(
        queue: &Queue,
        (memory, part): (&Memory, &Part),
        waits: &Waits<'_>,
        mut place: Place,
    ) -> Result<Self, Status> {
        let into = place.pointer_for(part)?;
        // SAFETY: `place` is not touched before the event has ended, and leaked by `drop` if it has not.
        let event = unsafe { queue.read(memory, part, into, waits) }?;
        Ok(Self { memory: Some(place), is_in_slot: false, event })
    }

    /// A read into a slot, which has this event.
    pub(super) fn in_slot(event: Event) -> Self {
        Self { memory: None, is_in_slot: true, event }
    }

    /// Whether the client finds the bytes in a slot.
    pub fn is_in_slot(&self) -> bool {
        self.is_in_slot
    }

    /// How many bytes of memory it holds.
    pub fn size(&self) -> usize {
        self.memory.as_ref().map_or(0, Place::size)
    }

    /// The event of the read.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// The bytes, none of a read into a slot; blocks until the read has ended.
    ///
    /// # Errors
    /// The status that it has ended with.
    pub fn bytes(&self) -> Result<&[u8], Status> {
        match (self.event.end(), &self.memory) {
            (cl::CL_COMPLETE, memory) => Ok(memory.as_ref().map_or(&[], Place::bytes)),
            (status, _) => Err(status),
        }
    }
}

impl Drop for StagedRead {
    fn drop(&mut self) {
        if !self.event.ended() {
            std::mem::forget(self.memory.take());
        }
    }
}

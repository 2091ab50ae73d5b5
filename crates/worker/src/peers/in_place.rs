//! Memory that a connection shares with a peer, through which bulk bytes go where a device has memory of its own: the one
//! side's device copies them there, the other's from there, and nothing of them is sent.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};

use ropeway_protocol::limits::CHUNK;
use ropeway_protocol::types::Status;
use ropeway_protocol::{Tail, TailError};
use ropeway_transport::Arena;

use super::slots::{SLOTS, Slots};
use crate::base::lock::lock;
use crate::native::{self, Event, Part, PinnedCopy, PinnedRange};
use crate::objects::Context;

/// The memory of one connection. Each side sends through the slots of its half, and writes nowhere else.
#[derive(Debug)]
pub struct InPlace {
    arena: Arc<Arena>,
    /// Where this side's slots are, and where the peer's.
    own: Range<u64>,
    others: Range<u64>,
    /// Which of this side's are in use.
    pub slots: Slots,
    announced: Mutex<Announced>,
    changed: Condvar,
    /// Which contexts have ranges of the memory; `None` once it is shared no more.
    contexts: Mutex<Option<Vec<Weak<Context>>>>,
}

/// What the peer has announced.
#[derive(Default)]
struct Announced {
    /// Which of its slots it has not got back.
    slots: [bool; SLOTS],
    /// Those that are to be given back, with what still copies from them.
    taken: VecDeque<(usize, Option<FromSlot>)>,
    over: bool,
}

impl std::fmt::Debug for Announced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Announced").field("slots", &self.slots).finish_non_exhaustive()
    }
}

/// A copy from a slot. The context must outlast it.
struct FromSlot {
    _copy: PinnedCopy,
    _context: Arc<Context>,
}

impl InPlace {
    /// The memory of a connection that shares some. `ours`: this side has made it.
    pub fn new(arena: &Arc<Arena>, ours: bool) -> Option<Self> {
        if arena.size_in_bytes() as u64 != Arena::OF_PEERS {
            return None;
        }
        let (middle, size) = (Arena::OF_PEERS / 2, (SLOTS * CHUNK) as u64);
        let (first, second) = (middle - size..middle, middle..middle + size);
        let (own, others) = if ours { (first, second) } else { (second, first) };
        Some(Self {
            arena: arena.clone(),
            own,
            others,
            slots: Slots::default(),
            announced: Mutex::default(),
            changed: Condvar::new(),
            contexts: Mutex::new(Some(Vec::new())),
        })
    }

    /// Where a slot of this side's begins in the arena.
    pub fn place(&self, slot: usize) -> u64 {
        self.own.start + (slot * CHUNK) as u64
    }

    /// The peer says that it has filled one of its slots. `None` where that is none, or it has filled it before.
    pub fn announced(&self, at: u64, size: u64) -> Option<Lent<'_>> {
        let number = slot_at(&self.others, at)?;
        let remaining = usize::try_from(size).ok().filter(|size| *size <= CHUNK)?;
        let mut announced = lock(&self.announced);
        let is_new = !std::mem::replace(&mut announced.slots[number], true);
        // Not made where it is not new: it gives the slot back when dropped.
        is_new.then(|| Lent { in_place: self, number, at, remaining, copy: None })
    }

    /// The peer says that it has taken what was at `at`; returns whether it was to.
    pub fn taken(&self, at: u64) -> bool {
        slot_at(&self.own, at).is_some_and(|number| self.slots.taken(number))
    }

    /// Waits until another slot is to be given back, and says where it is; `None` once the connection is over.
    pub fn next_taken(&self) -> Option<u64> {
        let mut announced = lock(&self.announced);
        let (number, copy) = loop {
            if announced.over {
                return None;
            }
            match announced.taken.pop_front() {
                Some(taken) => break taken,
                None => announced = self.changed.wait(announced).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(announced);
        // Waits for it. What it ended with, the push finds out when it lands.
        drop(copy);
        lock(&self.announced).slots[number] = false;
        Some(self.others.start + (number * CHUNK) as u64)
    }

    /// The connection is over.
    pub fn end(&self) {
        self.slots.end();
        lock(&self.announced).over = true;
        self.changed.notify_all();
    }

    /// Gives up what contexts have of the memory.
    pub fn unpin(&self) {
        let copies = std::mem::take(&mut lock(&self.announced).taken);
        drop(copies);
        let contexts = lock(&self.contexts).take().unwrap_or_default();
        contexts.iter().filter_map(Weak::upgrade).for_each(|context| context.unpin(&self.arena));
    }

    /// The slots of both sides, for copies to and from a context's devices; `None` where these go another way. They lie side by
    /// side, so that they are pinned by one call: each takes long where several processes use the device.
    pub fn pinned(&self, context: &Arc<Context>) -> Option<Arc<PinnedRange>> {
        let mut contexts = lock(&self.contexts);
        let contexts = contexts.as_mut()?;
        let slots = self.own.start.min(self.others.start)..self.own.end.max(self.others.end);
        let range = context.pinned_range(&self.arena, &slots)?;
        if !contexts.iter().any(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(context))) {
            contexts.retain(|known| known.strong_count() > 0);
            contexts.push(Arc::downgrade(context));
        }
        Some(range)
    }
}

/// Which slot begins at `at` in the arena.
fn slot_at(half: &Range<u64>, at: u64) -> Option<usize> {
    let offset = at.checked_sub(half.start).filter(|_| at < half.end)?;
    offset.is_multiple_of(CHUNK as u64).then_some((offset / CHUNK as u64) as usize)
}

/// Bytes of a peer's slot, which it gets back when this is dropped and its copy has ended.
pub struct Lent<'a> {
    in_place: &'a InPlace,
    number: usize,
    at: u64,
    remaining: usize,
    copy: Option<FromSlot>,
}

impl Lent<'_> {
    /// Starts copying them to these parts, which have as many bytes together; returns the event of its end. `None` where the
    /// device takes none from there.
    pub fn write(
        &mut self,
        context: &Arc<Context>,
        memory: &native::Memory,
        parts: &[Part],
    ) -> Option<Result<Option<Event>, Status>> {
        let range = self.in_place.pinned(context)?;
        let copy = range.write(self.at, memory, parts);
        Some(copy.map(|copy| {
            let event = copy.event().cloned();
            self.copy = Some(FromSlot { _copy: copy, _context: context.clone() });
            event
        }))
    }
}

impl Tail for Lent<'_> {
    fn remaining(&self) -> usize {
        self.remaining
    }

    fn read_exact(&mut self, into: &mut [u8]) -> Result<(), TailError> {
        if into.len() > self.remaining || !self.in_place.arena.copy_out(self.at, into) {
            return Err(TailError);
        }
        self.at += into.len() as u64;
        self.remaining -= into.len();
        Ok(())
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let copy = self.copy.take();
        let mut announced = lock(&self.in_place.announced);
        if announced.over {
            drop(announced);
            // Waits for it, as nobody else does any more.
            return drop(copy);
        }
        announced.taken.push_back((self.number, copy));
        self.in_place.changed.notify_one();
    }
}

/// Bytes of a push that have come.
pub enum Incoming<'a> {
    /// They were sent.
    Sent(&'a mut dyn Tail),
    /// They are where the peer has left them.
    Lent(Lent<'a>),
}

impl Tail for Incoming<'_> {
    fn remaining(&self) -> usize {
        match self {
            Self::Sent(tail) => tail.remaining(),
            Self::Lent(lent) => lent.remaining(),
        }
    }

    fn read_exact(&mut self, into: &mut [u8]) -> Result<(), TailError> {
        match self {
            Self::Sent(tail) => tail.read_exact(into),
            Self::Lent(lent) => lent.read_exact(into),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use ropeway_transport::{Link, Room};

    use super::*;

    /// Both sides' view of one memory.
    fn sides() -> [InPlace; 2] {
        let (near, far) = UnixStream::pair().unwrap();
        let (mut client, mut server) = (Link::from_fd(near.into()).unwrap(), Link::from_fd(far.into()).unwrap());
        client.offer_memory(b"h", Room::ForPeers).unwrap();
        assert_eq!(server.try_recv_hello(&mut [0; 1]).unwrap(), 1);
        let server = server.answer_hello(b"w", Room::ForPeers).unwrap();
        client.recv_exact(&mut [0; 1]).unwrap();
        let client = client.take_up_memory().unwrap();
        [(client, true), (server, false)].map(|(link, ours)| InPlace::new(link.arena().unwrap(), ours).unwrap())
    }

    #[test]
    fn what_one_side_leaves_the_other_takes_once() {
        let sides = sides();
        for (from, to) in [(&sides[0], &sides[1]), (&sides[1], &sides[0])] {
            let slot = from.slots.take(1).pop().unwrap();
            let at = from.place(slot.number);
            assert!(from.arena.copy_in(at, b"what is sent"));
            slot.lend();
            let mut lent = to.announced(at, 12).unwrap();
            assert!(to.announced(at, 12).is_none(), "it has that already");
            assert!(from.announced(at, 12).is_none() && !to.taken(at), "it is the other's slot");
            assert_eq!(lent.read_to_vec().unwrap(), b"what is sent");
            assert!(lent.read_exact(&mut [0]).is_err(), "no more than was announced");
            drop(lent);
            assert_eq!(to.next_taken(), Some(at));
            assert!(from.taken(at) && !from.taken(at), "once");
            assert!(to.announced(at, CHUNK as u64).is_some(), "again");
        }
    }

    #[test]
    fn places_are_slots_of_the_others() {
        let [one, other] = sides();
        let slots = (SLOTS * CHUNK) as u64;
        let (first, begin) = (one.place(0), other.place(0));
        assert_eq!(begin, first + slots, "side by side");
        let wrong = [
            (0, 1),
            (first - 1, 1),
            (first + 1, 1),
            (begin, 1),
            (begin + slots, 1),
            (u64::MAX, 1),
            (first, CHUNK as u64 + 1),
        ];
        for (at, size) in wrong {
            assert!(other.announced(at, size).is_none(), "{size} bytes at {at}");
        }
        assert!(other.announced(one.place(SLOTS - 1), CHUNK as u64).is_some());
    }

    struct Unheard;

    impl native::ErrorSink for Unheard {
        fn report(&self, _text: &str) {}
    }

    #[test]
    fn a_connection_s_slots_are_pinned_once_for_both_ways() {
        let Some(platform) = native::platforms().ok().and_then(|all| all.into_iter().next()) else { return };
        let Some(&device) = platform.devices().first() else { return };
        let made = native::Context::new(platform, &[device], Arc::new(Unheard));
        let context = Arc::new(Context::new(made, vec![(0, device)], true));
        let memory =
            context.native.as_ref().map(|of| native::Memory::buffer(of, 1, 5, Some(b"12345")).unwrap()).unwrap();
        let part = [Part::Bytes { offset: 0, size: 5 }];
        let [one, other] = sides();
        for (from, to) in [(&one, &other), (&other, &one)] {
            let range = from.pinned(&context).unwrap();
            range.read(from.place(3), &memory, &part).unwrap().wait().unwrap();
            to.announced(from.place(3), 5).unwrap().write(&context, &memory, &part).unwrap().unwrap();
            assert!(to.next_taken().is_some());
        }
        // One for each side, as each has mapped the memory where it likes.
        assert_eq!(context.pinned_ranges(), 2);
        one.unpin();
        assert_eq!((context.pinned_ranges(), one.pinned(&context).is_none()), (1, true));
    }

    #[test]
    fn nobody_waits_for_slots_of_a_connection_that_is_over() {
        let [one, other] = sides();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| other.next_taken());
            other.end();
            assert_eq!(waits.join().unwrap(), None);
        });
        drop(other.announced(one.place(2), 5));
        other.unpin();
        assert_eq!(other.next_taken(), None);
    }
}

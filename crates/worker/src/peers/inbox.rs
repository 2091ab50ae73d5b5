//! What a peer has sent and the client has not yet announced, and the other way round.
//!
//! Both come by connections of their own, so either may be first. What is early is kept within bounds; what is beyond them is not read.

use std::collections::VecDeque;
use std::hash::Hash;
use std::time::{Duration, Instant};

use ropeway_protocol::ids::{EventId, TransferId};
use ropeway_protocol::types::Status;
use rustc_hash::{FxHashMap, FxHashSet};

/// Most bytes of pushes that are kept before they are expected.
pub const MAX_EARLY: usize = 256 << 10;

/// Most signals that are kept before they are expected.
pub const MAX_EARLY_SIGNALS: usize = 4096;

/// How long something may be early.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// How many failed pushes are remembered, whose last bytes may still be on their way.
const MAX_FAILED: usize = 4096;

/// What was expected of a peer, and what has come early. `A` takes a push, `S` a signal.
pub struct Inbox<A, S> {
    expected: FxHashMap<TransferId, A>,
    signals: FxHashMap<EventId, S>,
    early: FxHashMap<TransferId, Early>,
    early_bytes: usize,
    early_signals: FxHashMap<EventId, (Status, Instant)>,
    failed: FxHashSet<TransferId>,
    failed_in_order: VecDeque<TransferId>,
}

/// What has come of a push that is not expected yet.
#[derive(Debug, PartialEq, Eq)]
pub struct Early {
    /// Offset and bytes of each piece.
    pub pieces: Vec<(u64, Vec<u8>)>,
    /// With what it failed.
    pub failed: Option<Status>,
    /// Where it ends.
    pub ends: Option<u64>,
    since: Instant,
}

/// What to do with bytes of a push.
#[derive(Debug, PartialEq, Eq)]
pub enum Place<A> {
    /// This takes them.
    Expected(A),
    /// They may be kept, and have their room: read them and call [`Inbox::keep`].
    Keep,
    /// They are to stay where they are until something is expected.
    Wait,
    /// They are of a push that has failed.
    Nowhere,
}

impl<A, S> Default for Inbox<A, S> {
    fn default() -> Self {
        Self {
            expected: FxHashMap::default(),
            signals: FxHashMap::default(),
            early: FxHashMap::default(),
            early_bytes: 0,
            early_signals: FxHashMap::default(),
            failed: FxHashSet::default(),
            failed_in_order: VecDeque::new(),
        }
    }
}

impl<A: Clone, S> Inbox<A, S> {
    /// Whether a push of this name is expected already.
    pub fn expects(&self, transfer: TransferId) -> bool {
        self.expected.contains_key(&transfer)
    }

    /// Lets `taker` have a push. What has come of it already is given back instead, and to be dealt with before this is called again.
    pub fn expect(&mut self, transfer: TransferId, taker: A) -> Option<Early> {
        match self.early.remove(&transfer) {
            Some(early) => {
                self.early_bytes -= early.pieces.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
                Some(early)
            }
            None => {
                self.expected.insert(transfer, taker);
                None
            }
        }
    }

    /// What to do with `len` bytes of a push.
    pub fn place(&mut self, transfer: TransferId, len: usize) -> Place<A> {
        if let Some(taker) = self.expected.get(&transfer) {
            Place::Expected(taker.clone())
        } else if self.failed.contains(&transfer) {
            Place::Nowhere
        } else if self.early_bytes + len <= MAX_EARLY {
            self.early_bytes += len;
            Place::Keep
        } else {
            Place::Wait
        }
    }

    /// Keeps bytes that [`Inbox::place`] had room for. Gives them back with what takes them, if they have come to be expected.
    pub fn keep(&mut self, transfer: TransferId, offset: u64, bytes: Vec<u8>, now: Instant) -> Option<(A, Vec<u8>)> {
        if let Some(taker) = self.expected.get(&transfer) {
            self.early_bytes -= bytes.len();
            return Some((taker.clone(), bytes));
        }
        self.early_entry(transfer, now).pieces.push((offset, bytes));
        None
    }

    /// Gives up the room of bytes that did not come.
    pub fn forgo(&mut self, len: usize) {
        self.early_bytes -= len;
    }

    /// All of a push has come, or will not come.
    pub fn done(&mut self, transfer: TransferId) -> Option<A> {
        self.expected.remove(&transfer)
    }

    /// A push ends after so many bytes; gives what takes it, if it is expected.
    pub fn end(&mut self, transfer: TransferId, size: u64, now: Instant) -> Option<A> {
        let taker = self.expected.get(&transfer).cloned();
        if taker.is_none() && !self.failed.contains(&transfer) {
            self.early_entry(transfer, now).ends = Some(size);
        }
        taker
    }

    /// A push has failed; gives what would have taken it, if it is expected.
    pub fn fail(&mut self, transfer: TransferId, status: Status, now: Instant) -> Option<A> {
        let taker = self.expected.remove(&transfer);
        if taker.is_none() {
            self.early_entry(transfer, now).failed = Some(status);
        }
        if self.failed.insert(transfer) {
            self.failed_in_order.push_back(transfer);
        }
        if self.failed_in_order.len() > MAX_FAILED
            && let Some(oldest) = self.failed_in_order.pop_front()
        {
            self.failed.remove(&oldest);
        }
        taker
    }

    fn early_entry(&mut self, transfer: TransferId, now: Instant) -> &mut Early {
        self.early.entry(transfer).or_insert(Early { pieces: Vec::new(), failed: None, ends: None, since: now })
    }

    /// Lets `taker` have a signal, or gives it back with the status of one that has come already.
    pub fn expect_signal(&mut self, event: EventId, taker: S) -> Option<(S, Status)> {
        match take(&mut self.early_signals, event) {
            Some((status, _)) => Some((taker, status)),
            None => {
                self.signals.insert(event, taker);
                None
            }
        }
    }

    /// A signal has come: gives what takes it, if it is expected.
    ///
    /// # Errors
    /// The same has come before. `Ok(Err(()))` when there is no room to keep it, so that it should be tried again.
    pub fn signal(&mut self, event: EventId, status: Status, now: Instant) -> Result<Result<Option<S>, ()>, ()> {
        if let Some(taker) = self.signals.remove(&event) {
            return Ok(Ok(Some(taker)));
        }
        if self.early_signals.contains_key(&event) {
            return Err(());
        }
        if self.early_signals.len() >= MAX_EARLY_SIGNALS {
            return Ok(Err(()));
        }
        self.early_signals.insert(event, (status, now));
        Ok(Ok(None))
    }

    /// Takes back what was to have a signal.
    pub fn take_signal(&mut self, event: EventId) -> Option<S> {
        self.signals.remove(&event)
    }

    /// The peer is gone: gives all that waits for it, and forgets what was early.
    pub fn clear(&mut self) -> (Vec<A>, Vec<S>) {
        let Self { expected, signals, .. } = std::mem::take(self);
        (expected.into_values().collect(), signals.into_values().collect())
    }

    /// Whether something waits for the peer.
    pub fn is_waiting(&self) -> bool {
        !self.expected.is_empty() || !self.signals.is_empty()
    }

    /// When what is early has been so for too long.
    pub fn deadline(&self) -> Option<Instant> {
        let pushes = self.early.values().map(|early| early.since);
        let signals = self.early_signals.values().map(|(_, since)| *since);
        pushes.chain(signals).min().map(|since| since + PATIENCE)
    }
}

fn take<K: Eq + Hash, V>(map: &mut FxHashMap<K, V>, key: K) -> Option<V> {
    // Most of the time there is nothing, which is found without hashing.
    if map.is_empty() { None } else { map.remove(&key) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: TransferId = TransferId(1);
    const E: EventId = EventId(2);

    #[test]
    fn what_is_early_is_found_when_it_is_expected() {
        let (mut inbox, now) = (Inbox::<&str, &str>::default(), Instant::now());
        assert_eq!(inbox.place(T, 5), Place::Keep);
        assert_eq!(inbox.keep(T, 0, vec![1; 5], now), None);
        assert_eq!(inbox.deadline(), Some(now + PATIENCE));
        let early = inbox.expect(T, "taker").unwrap();
        assert_eq!((early.pieces, early.failed), (vec![(0, vec![1; 5])], None));
        assert_eq!((inbox.expect(T, "taker"), inbox.deadline()), (None, None));
        assert_eq!(inbox.place(T, 1 << 20), Place::Expected("taker"));
        assert_eq!(inbox.done(T), Some("taker"));
        assert_eq!(inbox.early_bytes, 0);
    }

    #[test]
    fn what_comes_to_be_expected_while_it_is_read_is_not_kept() {
        let mut inbox = Inbox::<&str, &str>::default();
        assert_eq!(inbox.place(T, 5), Place::Keep);
        assert_eq!(inbox.expect(T, "taker"), None);
        assert_eq!(inbox.keep(T, 7, vec![1; 5], Instant::now()), Some(("taker", vec![1; 5])));
        assert_eq!(inbox.early_bytes, 0);
    }

    #[test]
    fn what_is_early_has_bounds() {
        let (mut inbox, now) = (Inbox::<&str, &str>::default(), Instant::now());
        assert_eq!(inbox.place(T, MAX_EARLY + 1), Place::Wait);
        assert_eq!(inbox.place(T, MAX_EARLY), Place::Keep);
        assert_eq!(inbox.place(TransferId(2), 1), Place::Wait);
        inbox.forgo(MAX_EARLY);
        assert_eq!(inbox.place(TransferId(2), 1), Place::Keep);
        for event in 0..MAX_EARLY_SIGNALS as u64 {
            assert_eq!(inbox.signal(EventId(event), 0, now), Ok(Ok(None)));
        }
        assert_eq!(inbox.signal(EventId(1), 0, now), Err(()), "twice");
        assert_eq!(inbox.signal(EventId(1 << 40), 0, now), Ok(Err(())), "too many");
        assert_eq!(inbox.expect_signal(E, "taker"), Some(("taker", 0)));
        assert_eq!(inbox.signal(EventId(1 << 40), 0, now), Ok(Ok(None)));
    }

    #[test]
    fn signals_go_to_who_expects_them() {
        let (mut inbox, now) = (Inbox::<&str, &str>::default(), Instant::now());
        assert_eq!(inbox.expect_signal(E, "taker"), None);
        assert!(inbox.is_waiting());
        assert_eq!(inbox.signal(E, -5, now), Ok(Ok(Some("taker"))));
        assert!(!inbox.is_waiting());
        inbox.expect_signal(E, "again");
        assert_eq!(inbox.take_signal(E), Some("again"));
    }

    #[test]
    fn the_rest_of_a_failed_push_goes_nowhere() {
        let (mut inbox, now) = (Inbox::<&str, &str>::default(), Instant::now());
        inbox.expect(T, "taker");
        assert_eq!(inbox.fail(T, -5, now), Some("taker"));
        assert_eq!(inbox.place(T, 1), Place::Nowhere);
        assert_eq!(inbox.fail(TransferId(2), -5, now), None);
        assert_eq!(inbox.expect(TransferId(2), "late").unwrap().failed, Some(-5));
        for transfer in 10..10 + MAX_FAILED as u64 {
            inbox.expect(TransferId(transfer), "taker");
            inbox.fail(TransferId(transfer), -5, now);
        }
        assert_eq!(inbox.failed.len(), MAX_FAILED);
        assert_eq!(inbox.place(T, 1), Place::Keep, "forgotten");
    }

    #[test]
    fn a_lost_peer_leaves_what_waits_for_it() {
        let mut inbox = Inbox::<&str, &str>::default();
        inbox.expect(T, "push");
        inbox.expect_signal(E, "signal");
        assert_eq!(inbox.clear(), (vec!["push"], vec!["signal"]));
        assert!(!inbox.is_waiting());
    }
}

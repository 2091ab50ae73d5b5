//! Messages from a peer that the client has not yet announced, and announcements whose messages have not come yet.
//!
//! Messages and announcements come by separate connections, so either may be first, by any length of time: an
//! announcement may be queued behind much else that the client sends over a slow link. Unexpected messages are kept
//! within limits for as long as it takes; beyond the limits, nothing more is read from the peer.

use std::collections::VecDeque;
use std::hash::Hash;

use ropeway_protocol::ids::{EventId, TransferId};
use ropeway_protocol::types::Status;
use rustc_hash::{FxHashMap, FxHashSet};

/// Most bytes of pushes that are kept before they are expected.
pub const MAX_EARLY: usize = 256 << 10;

/// The least that a piece of a push counts for, in bytes: it takes memory of its own.
const MIN_EARLY: usize = 64;

/// Most pushes of which something is kept before they are expected.
const MAX_EARLY_PUSHES: usize = 4096;

/// Most signals that are kept before they are expected.
pub const MAX_EARLY_SIGNALS: usize = 4096;

/// How many failed pushes are remembered, whose last bytes may still be on their way.
const MAX_FAILED: usize = 4096;

/// Expected and unexpected messages of a peer. `A` takes a push, `S` a signal.
pub struct Inbox<A, S> {
    expected: FxHashMap<TransferId, A>,
    signals: FxHashMap<EventId, S>,
    early: FxHashMap<TransferId, Early>,
    early_bytes: usize,
    early_signals: FxHashMap<EventId, Status>,
    failed: FxHashSet<TransferId>,
    failed_in_order: VecDeque<TransferId>,
}

/// The bytes of a push that is not expected yet.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Early {
    /// Offset and bytes of each piece.
    pub pieces: Vec<(u64, Vec<u8>)>,
    /// With what it failed.
    pub failed: Option<Status>,
    /// The size at which the push ends.
    pub ends: Option<u64>,
}

/// There is no room to keep an unexpected message: it must be tried again when something is expected.
#[derive(Debug, PartialEq, Eq)]
pub struct Full;

/// Where bytes of a push go.
#[derive(Debug, PartialEq, Eq)]
pub enum Place<A> {
    /// The push is expected: its taker.
    Expected(A),
    /// The bytes may be kept, and room is reserved for them: read them and call [`Inbox::keep`].
    Keep,
    /// The bytes are to stay unread until something is expected.
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

    /// Registers `taker` for a push. If some of the push has come already, that is returned instead, and must be dealt
    /// with before this is called again.
    pub fn expect(&mut self, transfer: TransferId, taker: A) -> Option<Early> {
        match self.early.remove(&transfer) {
            Some(early) => {
                self.early_bytes -= early.pieces.iter().map(|(_, bytes)| charge(bytes.len())).sum::<usize>();
                Some(early)
            }
            None => {
                self.expected.insert(transfer, taker);
                None
            }
        }
    }

    /// Decides where `len` bytes of a push go.
    pub fn place(&mut self, transfer: TransferId, len: usize) -> Place<A> {
        if let Some(taker) = self.expected.get(&transfer) {
            Place::Expected(taker.clone())
        } else if self.failed.contains(&transfer) {
            Place::Nowhere
        } else if self.has_room(transfer) && self.early_bytes + charge(len) <= MAX_EARLY {
            self.early_bytes += charge(len);
            Place::Keep
        } else {
            Place::Wait
        }
    }

    /// Keeps bytes that [`Inbox::place`] had room for. If the push is expected by now, returns them with its taker
    /// instead.
    pub fn keep(&mut self, transfer: TransferId, offset: u64, bytes: Vec<u8>) -> Option<(A, Vec<u8>)> {
        if let Some(taker) = self.expected.get(&transfer) {
            self.early_bytes -= charge(bytes.len());
            return Some((taker.clone(), bytes));
        }
        self.early.entry(transfer).or_default().pieces.push((offset, bytes));
        None
    }

    /// Gives up the room of bytes that did not come.
    pub fn forgo(&mut self, len: usize) {
        self.early_bytes -= charge(len);
    }

    /// Notes that all of a push has come or will not come; returns its taker.
    pub fn done(&mut self, transfer: TransferId) -> Option<A> {
        self.expected.remove(&transfer)
    }

    /// Notes that a push ends after `size` bytes; returns its taker, if it is expected.
    ///
    /// # Errors
    /// There is no room to keep that.
    pub fn end(&mut self, transfer: TransferId, size: u64) -> Result<Option<A>, Full> {
        let taker = self.expected.get(&transfer).cloned();
        if taker.is_none() && !self.failed.contains(&transfer) {
            if !self.has_room(transfer) {
                return Err(Full);
            }
            self.early.entry(transfer).or_default().ends = Some(size);
        }
        Ok(taker)
    }

    /// Notes that a push has failed; returns its taker, if it is expected. That may be said twice.
    ///
    /// # Errors
    /// There is no room to keep that.
    pub fn fail(&mut self, transfer: TransferId, status: Status) -> Result<Option<A>, Full> {
        if self.failed.contains(&transfer) {
            return Ok(None);
        }
        let taker = self.expected.remove(&transfer);
        if taker.is_none() {
            if !self.has_room(transfer) {
                return Err(Full);
            }
            self.early.entry(transfer).or_default().failed = Some(status);
        }
        self.failed.insert(transfer);
        self.failed_in_order.push_back(transfer);
        if self.failed_in_order.len() > MAX_FAILED
            && let Some(oldest) = self.failed_in_order.pop_front()
        {
            self.failed.remove(&oldest);
        }
        Ok(taker)
    }

    /// Whether the limit on the number of kept pushes allows more of this push to be kept.
    fn has_room(&self, transfer: TransferId) -> bool {
        self.early.len() < MAX_EARLY_PUSHES || self.early.contains_key(&transfer)
    }

    /// Registers `taker` for a signal, or gives `taker` back with the status of the signal if the signal has come
    /// already.
    pub fn expect_signal(&mut self, event: EventId, taker: S) -> Option<(S, Status)> {
        match take(&mut self.early_signals, event) {
            Some(status) => Some((taker, status)),
            None => {
                self.signals.insert(event, taker);
                None
            }
        }
    }

    /// Takes a signal that has come; returns its taker, if the signal is expected.
    ///
    /// # Errors
    /// There is no room to keep it. `Ok(Err(()))` when the same has come before.
    pub fn signal(&mut self, event: EventId, status: Status) -> Result<Result<Option<S>, ()>, Full> {
        if let Some(taker) = self.signals.remove(&event) {
            return Ok(Ok(Some(taker)));
        }
        if self.early_signals.contains_key(&event) {
            return Ok(Err(()));
        }
        if self.early_signals.len() >= MAX_EARLY_SIGNALS {
            return Err(Full);
        }
        self.early_signals.insert(event, status);
        Ok(Ok(None))
    }

    /// Takes back the taker that was registered for a signal.
    pub fn take_signal(&mut self, event: EventId) -> Option<S> {
        self.signals.remove(&event)
    }

    /// Returns all takers that wait for the peer, which is gone, and forgets the unexpected messages.
    pub fn clear(&mut self) -> (Vec<A>, Vec<S>) {
        let Self { expected, signals, .. } = std::mem::take(self);
        (expected.into_values().collect(), signals.into_values().collect())
    }

    /// Whether something waits for the peer.
    pub fn is_waiting(&self) -> bool {
        !self.expected.is_empty() || !self.signals.is_empty()
    }
}

/// How many bytes a piece of `len` bytes counts for against the limit.
fn charge(len: usize) -> usize {
    len.max(MIN_EARLY)
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
        let mut inbox = Inbox::<&str, &str>::default();
        assert_eq!(inbox.place(T, 5), Place::Keep);
        assert_eq!(inbox.keep(T, 0, vec![1; 5]), None);
        let early = inbox.expect(T, "taker").unwrap();
        assert_eq!((early.pieces, early.failed), (vec![(0, vec![1; 5])], None));
        assert_eq!(inbox.expect(T, "taker"), None);
        assert_eq!(inbox.place(T, 1 << 20), Place::Expected("taker"));
        assert_eq!(inbox.done(T), Some("taker"));
        assert_eq!(inbox.early_bytes, 0);
    }

    #[test]
    fn what_comes_to_be_expected_while_it_is_read_is_not_kept() {
        let mut inbox = Inbox::<&str, &str>::default();
        assert_eq!(inbox.place(T, 5), Place::Keep);
        assert_eq!(inbox.expect(T, "taker"), None);
        assert_eq!(inbox.keep(T, 7, vec![1; 5]), Some(("taker", vec![1; 5])));
        assert_eq!(inbox.early_bytes, 0);
    }

    #[test]
    fn what_is_early_has_bounds() {
        let mut inbox = Inbox::<&str, &str>::default();
        assert_eq!(inbox.place(T, MAX_EARLY + 1), Place::Wait);
        assert_eq!(inbox.place(T, MAX_EARLY), Place::Keep);
        assert_eq!(inbox.place(TransferId(2), 1), Place::Wait);
        inbox.forgo(MAX_EARLY);
        assert_eq!(inbox.place(TransferId(2), 1), Place::Keep);
        for event in 0..MAX_EARLY_SIGNALS as u64 {
            assert_eq!(inbox.signal(EventId(event), 0), Ok(Ok(None)));
        }
        assert_eq!(inbox.signal(EventId(1), 0), Ok(Err(())), "twice");
        assert_eq!(inbox.signal(EventId(1 << 40), 0), Err(Full), "too many");
        assert_eq!(inbox.expect_signal(E, "taker"), Some(("taker", 0)));
        assert_eq!(inbox.signal(EventId(1 << 40), 0), Ok(Ok(None)));
    }

    #[test]
    fn small_pieces_and_ends_have_bounds_too() {
        let mut inbox = Inbox::<&str, &str>::default();
        let kept = (0..MAX_EARLY).take_while(|at| {
            let fits = inbox.place(T, 1) == Place::Keep;
            fits && inbox.keep(T, *at as u64, vec![1]).is_none()
        });
        assert_eq!(kept.count(), MAX_EARLY / MIN_EARLY);
        for transfer in 1..MAX_EARLY_PUSHES as u64 {
            assert_eq!(inbox.end(TransferId(10 + transfer), 5), Ok(None));
        }
        assert_eq!(inbox.end(TransferId(5), 5), Err(Full));
        assert_eq!(inbox.fail(TransferId(5), -5), Err(Full));
        assert_eq!(inbox.place(TransferId(5), 1), Place::Wait);
        assert_eq!(inbox.end(TransferId(11), 6), Ok(None), "of one of which something is kept");
        inbox.expect(T, "taker");
        assert_eq!(inbox.fail(TransferId(5), -5), Ok(None));
    }

    #[test]
    fn signals_go_to_who_expects_them() {
        let mut inbox = Inbox::<&str, &str>::default();
        assert_eq!(inbox.expect_signal(E, "taker"), None);
        assert!(inbox.is_waiting());
        assert_eq!(inbox.signal(E, -5), Ok(Ok(Some("taker"))));
        assert!(!inbox.is_waiting());
        inbox.expect_signal(E, "again");
        assert_eq!(inbox.take_signal(E), Some("again"));
    }

    #[test]
    fn the_rest_of_a_failed_push_goes_nowhere() {
        let mut inbox = Inbox::<&str, &str>::default();
        inbox.expect(T, "taker");
        assert_eq!(inbox.fail(T, -5), Ok(Some("taker")));
        assert_eq!(inbox.place(T, 1), Place::Nowhere);
        assert_eq!(inbox.fail(TransferId(2), -5), Ok(None));
        assert_eq!(inbox.fail(TransferId(2), -6), Ok(None), "twice");
        assert_eq!(inbox.expect(TransferId(2), "late").unwrap().failed, Some(-5));
        for transfer in 10..10 + MAX_FAILED as u64 {
            inbox.expect(TransferId(transfer), "taker");
            assert_eq!(inbox.fail(TransferId(transfer), -5), Ok(Some("taker")));
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

//! The connections whose opening is not over: those that have not said their hello, and those that are being refused.
//!
//! Strangers can make as many of them as they like, so their number is bounded, in all and for each place that they
//! come from.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Instant;

use ropeway_transport::nearby::Inbox;
use ropeway_transport::tls::{self, Door};
use ropeway_transport::{Link, Origin};
use tracing::{debug, warn};

use crate::audit::{Audit, Event, Who};
use crate::handshake::{Pending, Refused, Step};
use crate::tally::Tally;

/// The most connections whose hello is incomplete, or that are being refused. A further connection replaces the oldest,
/// so that silent peers cannot keep others out. A burst of clients on a busy machine connects first and sends its
/// hellos later.
const MAX: usize = 512;

/// The most of them that come from one place, so that one place cannot keep out the others.
const MAX_OF_ORIGIN: usize = 256;

/// The connections, by arrival.
#[derive(Default)]
pub(crate) struct Openings {
    pending: BTreeMap<u64, (Origin, Pending)>,
    refused: BTreeMap<u64, (Origin, Refused)>,
    next_key: u64,
    /// Those that are dropped for what they do, or do not do.
    dropped: Tally,
    /// Those that are dropped for others, which would fill the other count.
    replaced: Tally,
    audit: Audit,
    /// Where clients of this machine hand in memory, if they can.
    inbox: Option<Inbox>,
}

/// A connection whose opening is over.
pub(crate) struct Opened {
    /// The connection.
    pub(crate) link: Link,
    /// The peer's address.
    pub(crate) peer: String,
    /// Who it has proved to be.
    pub(crate) client: Option<tls::Client>,
    /// What came of the opening; not [`Step::Wait`], and not [`Step::Drop`].
    pub(crate) step: Step,
}

impl Openings {
    /// None yet; those that are dropped are written down in `audit`, and those of this machine hand in memory at `inbox`.
    pub(crate) fn new(audit: Audit, inbox: Option<Inbox>) -> Self {
        Self { audit, inbox, ..Self::default() }
    }

    /// Readable when memory was handed in.
    pub(crate) fn inbox(&self) -> Option<BorrowedFd<'_>> {
        self.inbox.as_ref().map(Inbox::as_fd)
    }

    /// Takes what was handed in next; returns the key of the client that did so, if there is one.
    pub(crate) fn take_memory(&mut self) -> Option<u64> {
        let handed_in = self.inbox.as_ref().and_then(Inbox::take)?;
        let (key, (_, pending)) = self.pending.iter_mut().find(|(_, (_, pending))| pending.shows(&handed_in.token))?;
        pending.take_memory(handed_in);
        Some(*key)
    }

    /// Adds a connection from which nothing has been read, and returns its key.
    pub(crate) fn begin(&mut self, link: Link, may_be_plain: bool, now: Instant) -> u64 {
        let origin = Origin::of(&link);
        self.make_room(origin, now);
        let pending = Pending::new(link, may_be_plain, now);
        debug!(peer = %pending.peer(), "connection");
        let key = self.key();
        self.pending.insert(key, (origin, pending));
        key
    }

    /// Goes on with what a connection has sent; returns it when its opening is over and it is not dropped.
    pub(crate) fn advance(&mut self, key: u64, door: Option<&Door>) -> Option<Opened> {
        let (_, pending) = self.pending.get_mut(&key)?;
        let step = pending.advance(door, self.inbox.as_ref());
        if matches!(step, Step::Wait) {
            return None;
        }
        let (link, peer, proved) = self.pending.remove(&key)?.1.into_parts();
        if let Step::Drop(reason) = step {
            self.dropped(&peer, &reason, Instant::now());
            return None;
        }
        Some(Opened { link, peer, client: proved, step })
    }

    /// Tells a client why it is refused, and keeps its connection until it has read that.
    pub(crate) fn refuse(&mut self, link: Link, text: &str) {
        let (now, origin) = (Instant::now(), Origin::of(&link));
        self.make_room(origin, now);
        if let Some(refused) = Refused::tell(link, text, now) {
            let key = self.key();
            self.refused.insert(key, (origin, refused));
        }
    }

    /// Discards what a refused client has sent.
    pub(crate) fn drain(&mut self, key: u64) {
        if self.refused.get_mut(&key).is_some_and(|(_, refused)| refused.drain()) {
            self.refused.remove(&key);
        }
    }

    /// Ends those whose time is up.
    pub(crate) fn expire(&mut self, now: Instant) {
        let late = |(_, pending): &(Origin, Pending)| now >= pending.deadline();
        let all = self.pending.iter().filter(|(_, pending)| late(pending)).map(|(key, _)| *key).collect::<Vec<_>>();
        for (_, pending) in all.into_iter().filter_map(|key| self.pending.remove(&key)).collect::<Vec<_>>() {
            self.dropped(pending.peer(), "its handshake was not done in time", now);
        }
        self.refused.retain(|_, (_, refused)| now < refused.deadline());
        self.dropped.tell(now);
        self.replaced.tell(now);
    }

    /// When the next of them is to be ended, or told of.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let pending = self.pending.values().map(|(_, pending)| pending.deadline());
        let refused = self.refused.values().map(|(_, refused)| refused.deadline());
        pending.chain(refused).chain(self.dropped.deadline()).chain(self.replaced.deadline()).min()
    }

    /// The connections that have not said their hello, by their keys.
    pub(crate) fn pending(&self) -> impl Iterator<Item = (u64, BorrowedFd<'_>)> {
        self.pending.iter().map(|(&key, (_, pending))| (key, pending.as_fd()))
    }

    /// The connections that are being refused, by their keys.
    pub(crate) fn refused(&self) -> impl Iterator<Item = (u64, BorrowedFd<'_>)> {
        self.refused.iter().map(|(&key, (_, refused))| (key, refused.as_fd()))
    }

    /// Closes those that have not said their hello.
    pub(crate) fn close(&mut self) {
        self.pending.clear();
    }

    /// Keeps them within their limits when one more is to come from `origin`.
    fn make_room(&mut self, origin: Origin, now: Instant) {
        let is_of = |of: Origin| of == origin;
        let refused = self.refused.values().filter(|(of, _)| is_of(*of)).count();
        if refused + self.pending.values().filter(|(of, _)| is_of(*of)).count() >= MAX_OF_ORIGIN {
            if let Some(key) = oldest(&self.refused, is_of) {
                self.refused.remove(&key);
            } else if let Some(key) = oldest(&self.pending, is_of) {
                self.replace(key, now);
            }
        } else if self.pending.len() + self.refused.len() >= MAX
            && self.refused.pop_first().is_none()
            && let Some(key) = oldest(&self.pending, |_| true)
        {
            self.replace(key, now);
        }
    }

    fn replace(&mut self, key: u64, now: Instant) {
        let reason = "too many others begin a handshake and do not finish it";
        let Some((_, pending)) = self.pending.remove(&key) else { return };
        if self.replaced.counts(now) {
            self.log(pending.peer(), reason);
        }
    }

    fn dropped(&mut self, peer: &str, reason: &str, now: Instant) {
        if self.dropped.counts(now) {
            self.log(peer, reason);
        }
    }

    fn log(&self, peer: &str, reason: &str) {
        warn!(%peer, "connection dropped: {reason}");
        let who = Who { address: peer.to_owned(), ..Who::default() };
        self.audit.write(&Event::Refused { who: &who, reason });
    }

    fn key(&mut self) -> u64 {
        self.next_key += 1;
        self.next_key
    }
}

/// The oldest of the connections of some origin.
fn oldest<T>(connections: &BTreeMap<u64, (Origin, T)>, is_of: impl Fn(Origin) -> bool) -> Option<u64> {
    connections.iter().find(|(_, (of, _))| is_of(*of)).map(|(key, _)| *key)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

    use super::*;

    /// A connection that comes from this address, and its other end.
    fn from(address: Ipv4Addr) -> (Link, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((address, 0)).into()).unwrap();
        socket.connect(&listener.local_addr().unwrap().into()).unwrap();
        (Link::from_fd(listener.accept().unwrap().0.into()).unwrap(), socket.into())
    }

    #[test]
    fn one_place_keeps_out_nobody_else() {
        let (mut openings, now) = (Openings::default(), Instant::now());
        let mut others = Vec::new();
        let mut add = |openings: &mut Openings, last| {
            let (link, other) = from(Ipv4Addr::new(127, 0, 0, last));
            others.push(other);
            openings.begin(link, true, now)
        };
        let first = add(&mut openings, 1);
        for _ in 0..2 * MAX {
            add(&mut openings, 2);
        }
        assert_eq!(openings.pending.len(), 1 + MAX_OF_ORIGIN);
        assert!(openings.pending.contains_key(&first));
        // Many places together have a limit, too.
        for last in 3..6 {
            for _ in 0..MAX_OF_ORIGIN {
                add(&mut openings, last);
            }
        }
        assert_eq!(openings.pending.len(), MAX);
        assert!(!openings.pending.contains_key(&first));
        openings.expire(openings.deadline().unwrap());
        assert_eq!(openings.pending.len(), 0);
    }
}

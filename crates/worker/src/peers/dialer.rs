//! The exchange between this worker and its daemon about connections to peers.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use ropeway_protocol::handshake::Hello;
use ropeway_protocol::ids::SessionId;
use ropeway_transport::Link;
use rustc_hash::FxHashMap;

/// How long a peer may wait for the client to tell this session its secret.
const KNOCKING: Duration = Duration::from_secs(10);

/// How long an attempt to connect may take in total, with several addresses that do not answer or a slow name lookup.
const DIALLING: Duration = Duration::from_secs(30);

/// The number of failed attempts to make a connection again after which no more are made.
const MOST_FAILURES: u8 = 3;

/// A connection from a process that claims to be a peer.
pub struct PendingPeer {
    pub link: Link,
    pub hello: Hello,
    pub since: Instant,
}

/// The exchange between this worker and its daemon.
#[derive(Default)]
pub struct Dialer {
    /// Peers that connected before the secret was known.
    pub pending_peers: VecDeque<PendingPeer>,
    /// Connections that the daemon has been asked for, by ticket: the peer's session and the connection's number.
    pub asked: FxHashMap<u64, (SessionId, u8)>,
    /// Connections that the daemon will be asked for.
    pub waiting: VecDeque<(SessionId, u8)>,
    pub last_ticket: u64,
}

impl Dialer {
    /// Takes the peers that connected before the secret was known, leaving out those that came too long ago.
    pub fn early(&mut self) -> impl Iterator<Item = PendingPeer> + use<> {
        std::mem::take(&mut self.pending_peers).into_iter().filter(|pending| pending.since.elapsed() < KNOCKING)
    }
}

/// An attempt to connect to a peer.
pub struct Attempt {
    pub addresses: Vec<String>,
    /// Connections that are there already: number, name and link.
    pub made: Vec<(u8, u64, Link)>,
    /// How many are on their way.
    pub missing: usize,
    pub since: Instant,
}

/// Connections that are to be made again.
#[derive(Default)]
pub struct Again {
    /// The peer's addresses; empty if the peer was the one that connected.
    pub addresses: Vec<String>,
    /// The numbers of the connections that are to be made.
    pub wanted: Vec<u8>,
    /// The numbers of the connections that the daemon has been asked for.
    pub asked: Vec<u8>,
    /// The number of failed attempts in a row.
    pub failures: u8,
    /// The number of connections for bulk data in a row that have ended without having been of any use.
    useless: u8,
}

impl Again {
    /// Wants a connection for bulk data that has ended, unless several in a row were of no use.
    pub fn want_bulk(&mut self, number: u8, was_of_use: bool) {
        self.useless = if was_of_use { 0 } else { self.useless.saturating_add(1) };
        if self.useless < MOST_FAILURES {
            self.wanted.push(number);
        }
    }

    /// Returns the connections to be asked for now. Until one is made, the others carry its data; what is for
    /// connection 0 waits.
    pub fn ask(&mut self) -> Vec<u8> {
        let wanted = std::mem::take(&mut self.wanted);
        if self.addresses.is_empty() || self.has_failed() {
            return Vec::new();
        }
        self.asked.extend(&wanted);
        wanted
    }

    /// Whether no more attempts are made.
    pub fn has_failed(&self) -> bool {
        self.failures >= MOST_FAILURES
    }

    /// Removes a connection from those asked for; returns whether it was among them.
    pub fn was_asked(&mut self, number: u8) -> bool {
        let at = self.asked.iter().position(|asked| *asked == number);
        at.map(|at| self.asked.swap_remove(at)).is_some()
    }
}

impl Attempt {
    /// The time at which the attempt has failed, whatever the daemon does.
    pub fn deadline(&self) -> Instant {
        self.since + DIALLING
    }
}

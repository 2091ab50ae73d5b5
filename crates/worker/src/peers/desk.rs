//! What goes on between this worker and its daemon about connections to peers.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use ropeway_protocol::handshake::Hello;
use ropeway_protocol::ids::SessionId;
use ropeway_transport::Link;
use rustc_hash::FxHashMap;

/// How long a peer may wait for the client to tell this session its secret.
const KNOCKING: Duration = Duration::from_secs(10);

/// How long an attempt to connect may take in all: several addresses that do not answer, or a name that is looked up for long.
const DIALLING: Duration = Duration::from_secs(30);

/// How often a connection is made again in vain.
const MOST_FAILURES: u8 = 3;

/// A connection of what says to be a peer.
pub struct Knock {
    pub link: Link,
    pub hello: Hello,
    pub since: Instant,
}

/// What goes on between this worker and its daemon.
#[derive(Default)]
pub struct Desk {
    /// Those that came before the secret.
    pub knocking: VecDeque<Knock>,
    /// Connections that the daemon is asked for: whose, and which.
    pub asked: FxHashMap<u64, (SessionId, u8)>,
    /// Those that it will be asked for.
    pub waiting: VecDeque<(SessionId, u8)>,
    pub last_ticket: u64,
}

impl Desk {
    /// Those that came before the secret, and not too long ago.
    pub fn early(&mut self) -> impl Iterator<Item = Knock> + use<> {
        std::mem::take(&mut self.knocking).into_iter().filter(|knock| knock.since.elapsed() < KNOCKING)
    }
}

/// An attempt to connect to a peer.
pub struct Attempt {
    pub addresses: Vec<String>,
    /// Connections that are there already.
    pub made: Vec<(u8, Link)>,
    /// How many are on their way.
    pub missing: usize,
    pub since: Instant,
}

/// Connections for bulk data that are to be made again.
#[derive(Default)]
pub struct Again {
    /// Where the peer is; nothing where it was the peer that connected.
    pub addresses: Vec<String>,
    /// Which are to be made.
    pub wanted: Vec<u8>,
    /// Which the daemon is asked for.
    pub asked: Vec<u8>,
    /// How often in a row that came to nothing.
    pub failures: u8,
}

impl Again {
    /// Those that are to be asked for now. Without them, what they would carry goes by the others.
    pub fn ask(&mut self) -> Vec<u8> {
        let wanted = std::mem::take(&mut self.wanted);
        if self.addresses.is_empty() || self.failures >= MOST_FAILURES {
            return Vec::new();
        }
        self.asked.extend(&wanted);
        wanted
    }

    /// Whether one was asked for, and is not any more.
    pub fn was_asked(&mut self, number: u8) -> bool {
        let at = self.asked.iter().position(|asked| *asked == number);
        at.map(|at| self.asked.swap_remove(at)).is_some()
    }
}

impl Attempt {
    /// When it has come to nothing, whatever the daemon does.
    pub fn deadline(&self) -> Instant {
        self.since + DIALLING
    }
}

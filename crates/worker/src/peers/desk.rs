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

impl Attempt {
    /// When it has come to nothing, whatever the daemon does.
    pub fn deadline(&self) -> Instant {
        self.since + DIALLING
    }
}

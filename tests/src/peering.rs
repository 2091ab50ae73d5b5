//! Sessions of one client that send each other memory and events, with a client that speaks the protocol itself.

use ropeway_protocol::handshake::features;
use ropeway_protocol::ids::{EventId, MemoryId, TransferId};
use ropeway_protocol::messages::{ConnectPeer, Expect, OpenPeers, Push, PushData};
use ropeway_protocol::types::{EventList, Moved};

use crate::raw::{Client, frame};
use crate::server::Server;

/// The secret by which the sessions recognise each other.
pub const SECRET: [u8; 32] = [7; 32];

/// Two servers with a session of the same client on each.
pub struct Pair {
    /// On the first server.
    pub a: Client,
    /// On the second one.
    pub b: Client,
    /// Both.
    pub servers: [Server; 2],
}

impl Pair {
    /// Sessions that have the secret, on servers with these further arguments.
    pub fn new(args: &[&str]) -> Self {
        Self::with_env(args, &[])
    }

    /// The same, of servers with these variables.
    pub fn with_env(args: &[&str], env: &[(&str, &str)]) -> Self {
        Self::of(0, args, env)
    }

    /// The same, of a client who lets them share memory with each other.
    pub fn sharing(args: &[&str]) -> Self {
        Self::of(features::SHARES_WITH_PEERS, args, &[])
    }

    fn of(features: u64, args: &[&str], env: &[(&str, &str)]) -> Self {
        let servers = [(); 2].map(|()| Server::start_with(&[&["--listen", "tcp://127.0.0.1:0"], args].concat(), env));
        let [mut a, mut b] = [&servers[0], &servers[1]].map(|server| Client::connect_with(server.address(), features));
        for client in [&mut a, &mut b] {
            client.begin().post(&OpenPeers { secret: SECRET }).send();
        }
        Self { a, b, servers }
    }

    /// Sessions of which the first is connected to the second.
    pub fn connected(args: &[&str]) -> Self {
        Self::new(args).connect()
    }

    /// Lets the first connect to the second.
    #[must_use]
    pub fn connect(mut self) -> Self {
        connect(&mut self.a, &self.b);
        self
    }
}

/// Has one session connect to another; both have the secret.
///
/// # Panics
/// When it does not work.
pub fn connect(from: &mut Client, to: &Client) {
    let peer = to.id();
    from.post(&ConnectPeer { peer, addresses: vec![format!("tcp://{}", to.address())] });
    from.until("a peer", |notes| !notes.peers.is_empty());
    let state = from.notes.peers.pop().unwrap();
    assert!(state.connected && state.peer == peer, "{state:?}");
}

/// Sends both sides the messages for a push from `a` to `b`; the bytes are there with event `event`.
pub fn push(a: &mut Client, b: &mut Client, memory: u64, what: &Moved, after: &[u64], transfer: u64, event: u64) {
    let (memory, transfer, after) = (MemoryId(memory), TransferId(transfer), events(after));
    b.post(&Expect { memory, what: what.clone(), event: EventId(event), peer: a.id(), transfer, queue: None }).send();
    a.post(&Push { memory, what: what.clone(), after, event: None, peer: b.id(), transfer }).send();
}

/// A list of events.
pub fn events(ids: &[u64]) -> EventList {
    ids.iter().map(|id| EventId(*id)).collect()
}

/// All of a buffer of this size.
pub fn whole(size: usize) -> Moved {
    Moved::Ranges(vec![(0, size as u64)])
}

/// Bytes of a push as a peer sends them: all of them 1.
pub fn data(transfer: u64, offset: u64, len: usize) -> Vec<u8> {
    frame(&PushData { transfer: TransferId(transfer), offset }, &vec![1; len])
}

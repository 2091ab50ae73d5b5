//! Sessions of one client that send each other memory and events, with a client that speaks the protocol itself.

use std::fs::File;
use std::time::Duration;

use ropeway_protocol::handshake::{Opening, PREAMBLE_LEN, Preamble, features, peer_proof};
use ropeway_protocol::ids::{EventId, MemoryId, SessionId, TransferId};
use ropeway_protocol::messages::{ConnectPeer, Expect, OpenPeers, Push, PushData};
use ropeway_protocol::types::{EventList, Moved};
use ropeway_transport::{Endpoint, Link, Room};

use crate::raw::{Client, frame, hello, peer_purpose};
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
        Self::of(0, [args; 2], env)
    }

    /// The same, of a client who lets them share memory with each other.
    pub fn sharing(args: &[&str]) -> Self {
        Self::sharing_of([args; 2])
    }

    /// The same, on servers with arguments of their own.
    pub fn sharing_of(args: [&[&str]; 2]) -> Self {
        Self::of(features::SHARES_WITH_PEERS, args, &[])
    }

    fn of(features: u64, args: [&[&str]; 2], env: &[(&str, &str)]) -> Self {
        let servers = args.map(|args| Server::start_with(&[&["--listen", "tcp://127.0.0.1:0"], args].concat(), env));
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

/// A peer's connection of this number to a session, over the Unix socket at `url`, and the memory that they share.
///
/// # Panics
/// When it does not work.
pub fn join_sharing(url: &str, (from, to): (SessionId, SessionId), number: u8) -> (Link, File) {
    let endpoint: Endpoint = url.parse().unwrap();
    let mut link = Link::connect(&endpoint, Duration::from_secs(3)).unwrap();
    let hello = hello(peer_purpose((from, to), number, peer_proof(&SECRET, from, to, number)));
    link.offer_memory(&hello, Room::ForPeers).unwrap();
    let memory = File::from(link.memory().unwrap().0[0].try_clone_to_owned().unwrap());
    let mut head = [0; PREAMBLE_LEN];
    link.recv_exact(&mut head).unwrap();
    let preamble = Preamble::from_bytes(&head).unwrap();
    assert_eq!(preamble.opening, Opening::Joined);
    link.recv_exact(&mut vec![0; preamble.len as usize]).unwrap();
    let link = link.take_up_memory().unwrap();
    assert!(link.shares_memory());
    (link, memory)
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

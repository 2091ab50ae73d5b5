//! The connections between this session and one peer.

use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ropeway_protocol::{Post, encode_post};
use ropeway_transport::{Link, Sender};
use smallvec::SmallVec;

use crate::base::lock::lock;

/// The number of the connection for signals and small pushes; bulk data, which could hold these up, goes by the others.
pub const CONTROL: u8 = 0;

/// Number of processor cores from which on a single bulk connection may not fill the network, as receiving takes a
/// whole core.
const CORES_FOR_TWO: usize = 8;

/// How many connections for bulk data to make.
pub fn bulk_links() -> u8 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores >= CORES_FOR_TWO { 2 } else { 1 }
}

/// One connection.
#[derive(Debug)]
pub struct PeerLink {
    /// The socket.
    pub link: Arc<Link>,
    /// Held by the thread that sends.
    heads: Mutex<Vec<u8>>,
}

impl PeerLink {
    /// A connection over `link`.
    pub fn new(link: Link) -> Self {
        Self { link: Arc::new(link), heads: Mutex::default() }
    }

    /// Sends a message with its tail.
    ///
    /// # Errors
    /// The socket's error.
    pub fn post<P: Post>(&self, message: &P, tail: &[&[u8]]) -> io::Result<()> {
        let mut head = lock(&self.heads);
        head.clear();
        encode_post(&mut head, message, tail.iter().map(|piece| piece.len()).sum());
        let mut parts: SmallVec<[IoSlice<'_>; 4]> = SmallVec::new();
        parts.push(IoSlice::new(&head));
        parts.extend(tail.iter().map(|piece| IoSlice::new(piece)));
        self.link.send_all(&mut parts)
    }
}

/// Whether sending failed for a reason of this machine's own, and not because the other end or the network between is
/// gone.
pub fn is_local(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    let gone = [
        Kind::BrokenPipe,
        Kind::ConnectionReset,
        Kind::ConnectionAborted,
        Kind::NotConnected,
        Kind::TimedOut,
        Kind::HostUnreachable,
        Kind::NetworkUnreachable,
        Kind::NetworkDown,
    ];
    !gone.contains(&error.kind())
}

/// All connections to a peer, as it is connected now.
#[derive(Clone, Debug, Default)]
pub struct Links {
    /// The control connection, for signals and small pushes, and the bulk connections.
    all: Vec<(u8, Arc<PeerLink>)>,
    next: Arc<AtomicUsize>,
}

impl Links {
    /// Adds one.
    pub fn add(&mut self, number: u8, link: Arc<PeerLink>) {
        self.all.push((number, link));
    }

    /// Removes a connection; returns false if it is not in the set.
    pub fn remove(&mut self, link: &Arc<PeerLink>) -> bool {
        let before = self.all.len();
        self.all.retain(|(_, other)| !Arc::ptr_eq(other, link));
        self.all.len() < before
    }

    /// The number of one of them.
    pub fn number(&self, link: &Arc<PeerLink>) -> Option<u8> {
        self.all.iter().find(|(_, other)| Arc::ptr_eq(other, link)).map(|(number, _)| *number)
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Arc<PeerLink>> {
        self.all.iter().map(|(_, link)| link)
    }

    /// The one for signals and small pushes.
    pub fn control(&self) -> Option<&Arc<PeerLink>> {
        self.all.iter().find(|(number, _)| *number == CONTROL).map(|(_, link)| link)
    }

    /// Returns up to `most` of the bulk connections, a different one first each time.
    pub fn bulk(&self, most: usize) -> Vec<Arc<PeerLink>> {
        let mut bulk: Vec<_> = self.all.iter().filter(|(number, _)| *number != CONTROL).collect();
        if bulk.is_empty() {
            bulk.extend(self.all.first());
        }
        let first = self.next.fetch_add(1, Ordering::Relaxed) % bulk.len().max(1);
        bulk.rotate_left(first);
        bulk.into_iter().take(most).map(|(_, link)| link.clone()).collect()
    }
}

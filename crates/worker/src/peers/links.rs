//! The connections between this session and one peer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::peer_link::{CONTROL, PeerLink};

/// Number of processor cores from which on a single bulk connection may not fill the network, as receiving takes a
/// whole core.
const CORES_FOR_TWO: usize = 8;

/// How many connections for bulk data to make.
pub fn bulk_links() -> u8 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores >= CORES_FOR_TWO { 2 } else { 1 }
}

/// All connections to a peer, as it is connected now.
#[derive(Clone, Debug, Default)]
pub struct Links {
    /// The control connection, for signals and small pushes, and the bulk connections.
    all: Vec<Arc<PeerLink>>,
    next: Arc<AtomicUsize>,
}

impl Links {
    /// Adds one.
    pub fn add(&mut self, link: Arc<PeerLink>) {
        self.all.push(link);
    }

    /// Removes a connection.
    pub fn remove(&mut self, link: &Arc<PeerLink>) {
        self.all.retain(|other| !Arc::ptr_eq(other, link));
    }

    /// Whether a connection is one of them.
    pub fn contains(&self, link: &Arc<PeerLink>) -> bool {
        self.all.iter().any(|other| Arc::ptr_eq(other, link))
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Arc<PeerLink>> {
        self.all.iter()
    }

    /// The one for signals and small pushes.
    pub fn control(&self) -> Option<&Arc<PeerLink>> {
        self.all.iter().find(|link| link.number == CONTROL)
    }

    /// Returns up to `most` of the bulk connections, a different one first each time.
    pub fn bulk(&self, most: usize) -> Vec<Arc<PeerLink>> {
        let mut bulk: Vec<_> = self.all.iter().filter(|link| link.number != CONTROL).collect();
        if bulk.is_empty() {
            bulk.extend(self.all.first());
        }
        let first = self.next.fetch_add(1, Ordering::Relaxed) % bulk.len().max(1);
        bulk.rotate_left(first);
        bulk.into_iter().take(most).cloned().collect()
    }
}

//! Exact counts of what went over the links (`ROPEWAY_STATS`).

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of one process, over all its connections.
#[derive(Debug)]
pub struct Stats {
    /// Messages sent.
    pub messages_sent: AtomicU64,
    /// Messages received.
    pub messages_received: AtomicU64,
    /// Writes to a socket; each carries one or more messages.
    pub batches: AtomicU64,
    /// Times that the application had to wait for an answer; connecting (1 for TCP's own) and the handshake (1)
    /// included.
    pub round_trips: AtomicU64,
    /// Bytes sent.
    pub bytes_sent: AtomicU64,
    /// Bytes received.
    pub bytes_received: AtomicU64,
    /// Moves of a memory object's contents, or of parts of them, from one server or native platform to another.
    pub moves: AtomicU64,
    /// Bytes of these.
    pub bytes_moved: AtomicU64,
    /// Those of them that went through this process, as the servers do not reach each other.
    pub bytes_relayed: AtomicU64,
}

/// The process's counts.
pub static STATS: Stats = Stats {
    messages_sent: AtomicU64::new(0),
    messages_received: AtomicU64::new(0),
    batches: AtomicU64::new(0),
    round_trips: AtomicU64::new(0),
    bytes_sent: AtomicU64::new(0),
    bytes_received: AtomicU64::new(0),
    moves: AtomicU64::new(0),
    bytes_moved: AtomicU64::new(0),
    bytes_relayed: AtomicU64::new(0),
};

/// Adds to a count.
pub(crate) fn count(counter: &AtomicU64, n: usize) {
    counter.fetch_add(n as u64, Ordering::Relaxed);
}

impl fmt::Display for Stats {
    /// One line, `key=value` pairs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let get = |c: &AtomicU64| c.load(Ordering::Relaxed);
        write!(
            f,
            "messages_sent={} messages_received={} batches={} round_trips={} bytes_sent={} bytes_received={} \
             moves={} bytes_moved={} bytes_relayed={}",
            get(&self.messages_sent),
            get(&self.messages_received),
            get(&self.batches),
            get(&self.round_trips),
            get(&self.bytes_sent),
            get(&self.bytes_received),
            get(&self.moves),
            get(&self.bytes_moved),
            get(&self.bytes_relayed),
        )
    }
}

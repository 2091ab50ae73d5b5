//! State that the threads of a session share, beside the reader of commands.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use crate::base::budget::Budget;
use crate::limits::Limits;
use crate::limits::clock::Clock;
use crate::link::client::Client;
use crate::link::heartbeat::Leading;
use crate::native::{Arenas, SharedStorage};
use crate::notify::idle::Idle;
use crate::notify::notifier::Notifier;
use crate::notify::report::Reporter;
use crate::peers::Peers;
use crate::programs::cache::Cache;
use crate::turns::Turns;
use crate::usage::Usage;

/// Shared by all threads of the session.
pub struct Common {
    /// The client.
    pub client: Arc<Client>,
    /// Tells the client of commands that have ended.
    pub reporter: Arc<Reporter>,
    /// Waits for native events.
    pub notifier: Arc<Notifier>,
    /// Other sessions of the same client.
    pub peers: Arc<Peers>,
    /// Memory that small writes go through.
    pub arenas: Arc<Arenas>,
    /// Memory that the client sees as well, for buffers of processors.
    pub shared: Option<Arc<SharedStorage>>,
    /// Sources and binaries that clients sent.
    pub cache: Cache,
    /// Whether commands are being taken in.
    pub leading: Leading,
    /// Number of threads that wait for something that no call of the client's waits for.
    pub unasked: AtomicUsize,
    /// The most bytes of device memory that the session has had at one time.
    pub peak_memory: AtomicU64,
    /// The most that the session may have.
    pub limits: Arc<Limits>,
    /// Holds kernels and builds against their limits on time.
    pub clock: Arc<Clock>,
    /// What the session takes of the devices.
    pub usage: Arc<Usage>,
    /// Turns on devices, if sessions share those by weight.
    pub turns: Option<Arc<Turns>>,
    /// Finds out which queues are idle.
    pub idle: Idle,
    /// Calls that wait without a thread.
    pub left: Budget,
    /// Whether a thread has found that the session is over, and ends the process.
    pub is_over: AtomicBool,
}

impl Common {
    /// Whether the session is over from now on, and the calling thread is the first to find that.
    pub fn ends(&self) -> bool {
        !self.is_over.swap(true, Ordering::AcqRel)
    }

    /// Keeps the calling thread for ever if the session is over: another one ends the process.
    pub fn stay_if_over(&self) {
        while self.is_over.load(Ordering::Acquire) {
            thread::park();
        }
    }
}

//! The threads that carry out relays, one for each server that receives bytes, and how many bytes they hold.
//!
//! A slow server thus holds up only those who wait for that same server. The number of relays waiting for a thread is
//! bounded by the commands that the application has enqueued and that need them: no server can add to them, and their
//! bytes stay at the source meanwhile.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use ropeway_abi::CL_COMPLETE;

use super::Relay;
use super::passing::{PIECE, Passing};
use crate::base::status::{Result, SERVER_LOST};
use crate::base::sync::lock;
use crate::base::threads;
use crate::link::connection::Connection;

/// Most bytes that are held for all servers together, as long as each can have a piece.
const MOST_HELD: usize = 32 << 20;

/// Most bytes that are held for one of them: enough that reading goes on while what was read is written.
const MOST_HELD_EACH: usize = 4 * PIECE;

/// Threads that there are.
static CARRIERS: AtomicUsize = AtomicUsize::new(0);

/// The channels from which the threads take their relays, by the addresses of the connections that the relays go over:
/// a connection is not freed before it is lost, and a lost connection has no entry.
static THREADS: Mutex<BTreeMap<usize, Sender<Relay>>> = Mutex::new(BTreeMap::new());

/// Sees that there is a thread for what goes to a connection's server.
///
/// # Errors
/// [`SERVER_LOST`], also where no thread can be had.
pub(super) fn start(connection: &Arc<Connection>) -> Result<()> {
    let key = Arc::as_ptr(connection).addr();
    let mut threads = lock(&THREADS);
    if threads.contains_key(&key) {
        return Ok(());
    }
    if connection.is_lost() {
        return Err(SERVER_LOST);
    }
    let (sender, relays) = channel();
    let thread = std::thread::Builder::new().name("ropeway-relay".into()).stack_size(256 << 10);
    let started = threads::start(|| thread.spawn(move || run(&relays)));
    started
        .inspect_err(|error| crate::error!("no thread for what goes between servers: {error}"))
        .map_err(|_| SERVER_LOST)?;
    threads.insert(key, sender);
    drop(threads);
    // Dropping the channel discards the relays not yet carried out and ends the thread.
    connection.when_lost(Box::new(move || drop(take(key))));
    Ok(())
}

fn take(key: usize) -> Option<Sender<Relay>> {
    lock(&THREADS).remove(&key)
}

/// Queues a relay to be carried out. If the server is lost, it has ended everything that waits for the relay.
pub(super) fn carry(connection: &Arc<Connection>, relay: Relay) {
    let threads = lock(&THREADS);
    // Dropping a relay may free objects that it names, which must not happen under the lock.
    let refused = match threads.get(&Arc::as_ptr(connection).addr()) {
        Some(sender) => sender.send(relay).err().map(|refused| refused.0),
        None => Some(relay),
    };
    drop(threads);
    drop(refused);
}

fn run(relays: &Receiver<Relay>) {
    CARRIERS.fetch_add(1, Ordering::Relaxed);
    let mut writing = VecDeque::new();
    for relay in relays {
        let most = (MOST_HELD / CARRIERS.load(Ordering::Relaxed).max(1)).clamp(PIECE, MOST_HELD_EACH);
        let passed = match relay.fails_with() {
            CL_COMPLETE => Passing::new(&relay, most, &mut writing).and_then(Passing::run),
            status => Err(status),
        };
        relay.conclude(passed);
    }
    CARRIERS.fetch_sub(1, Ordering::Relaxed);
}

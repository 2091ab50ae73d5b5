//! The threads that carry relays out, one for each server that something is brought to, and how much they hold.
//!
//! Whoever has to wait for a slow server so holds up nobody but those who wait for the same one. The relays that wait for a thread are as many as the
//! application has enqueued commands that need them: no server adds to them, and their bytes are still where they come from.

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

/// Where the threads take their relays from, by the addresses of the connections that these go over: a connection is not freed before it is
/// lost, and one that is lost has none.
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
    // What was not carried out yet comes to nothing, and the thread ends.
    connection.when_lost(Box::new(move || drop(take(key))));
    Ok(())
}

fn take(key: usize) -> Option<Sender<Relay>> {
    lock(&THREADS).remove(&key)
}

/// Has a relay carried out. A lost server has ended what waits for it.
pub(super) fn carry(connection: &Arc<Connection>, relay: Relay) {
    let threads = lock(&THREADS);
    // What it names may be freed with it, and is not to be under the lock.
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

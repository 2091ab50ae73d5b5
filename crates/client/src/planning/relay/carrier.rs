//! The threads that carry relays out, one for each server that something is brought to, and how much they hold.
//!
//! Whoever has to wait for a slow server so holds up nobody but those who wait for the same one.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use ropeway_abi::CL_COMPLETE;

use super::Relay;
use super::passing::{PIECE, Passing};
use crate::base::status::{Result, SERVER_LOST};
use crate::base::sync::lock;

/// Most bytes that are held for all servers together, as long as each can have a piece.
const MOST_HELD: usize = 32 << 20;

/// Most bytes that are held for one of them: enough that reading goes on while what was read is written.
const MOST_HELD_EACH: usize = 4 * PIECE;

/// Threads that there are.
static CARRIERS: AtomicUsize = AtomicUsize::new(0);

/// Brings a connection's server what others have.
#[derive(Default, Debug)]
pub(crate) struct Carrier(Mutex<State>);

#[derive(Default, Debug)]
enum State {
    #[default]
    Idle,
    /// There is a thread, which has these one after the other.
    Started(Sender<Relay>),
    /// The server is.
    Lost,
}

impl Carrier {
    /// Sees that there is a thread.
    ///
    /// # Errors
    /// [`SERVER_LOST`], also where no thread can be had.
    pub(super) fn start(&self) -> Result<()> {
        let mut state = lock(&self.0);
        match *state {
            State::Started(_) => Ok(()),
            State::Lost => Err(SERVER_LOST),
            State::Idle => {
                let (sender, relays) = channel();
                let thread = std::thread::Builder::new().name("ropeway-relay".into()).stack_size(256 << 10);
                let started = thread.spawn(move || run(&relays));
                started
                    .inspect_err(|error| crate::error!("no thread for what goes between servers: {error}"))
                    .map_err(|_| SERVER_LOST)?;
                *state = State::Started(sender);
                Ok(())
            }
        }
    }

    /// Has a relay carried out. A lost server has ended what waits for it.
    pub(super) fn carry(&self, relay: Relay) {
        let state = lock(&self.0);
        // What it names may be freed with it, and is not to be under the lock.
        let refused = match &*state {
            State::Started(sender) => sender.send(relay).err().map(|refused| refused.0),
            _ => Some(relay),
        };
        drop(state);
        drop(refused);
    }

    /// The server is lost. What was not carried out yet comes to nothing, and the thread ends.
    pub(crate) fn lose(&self) {
        let state = std::mem::replace(&mut *lock(&self.0), State::Lost);
        drop(state);
    }
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

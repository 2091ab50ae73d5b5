//! Streams that the daemon opens for this worker, which may open none.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::group::Peers;
use crate::base::lock::lock;
use crate::handoff::{self, ToDaemon};

/// How long the daemon may take to open one: it does not wait for a stream, but a file may lie on another machine.
const OPENING: Duration = Duration::from_secs(20);

/// What the daemon has been asked for.
#[derive(Default)]
pub(super) struct Feeds {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last_ticket: u64,
    asked: FxHashMap<u64, SyncSender<Result<OwnedFd, String>>>,
}

impl Feeds {
    /// Takes the daemon's answer.
    pub(super) fn fed(&self, ticket: u64, outcome: Result<OwnedFd, String>) {
        if let Some(asked) = lock(&self.state).asked.remove(&ticket) {
            // Who has asked may have given up.
            let _ = asked.try_send(outcome);
        }
    }
}

impl Peers {
    /// Has the daemon open a stream, and waits until it has.
    ///
    /// # Errors
    /// One sentence: why it has not.
    pub fn feed(&self, stream: &str) -> Result<OwnedFd, String> {
        let (sender, answer) = sync_channel(1);
        let mut state = lock(&self.feeds.state);
        state.last_ticket += 1;
        let ticket = state.last_ticket;
        state.asked.insert(ticket, sender);
        drop(state);
        let message = ToDaemon::Feed { ticket, stream: stream.to_owned() };
        let told = handoff::say(self.daemon.as_fd(), &message, None, true);
        let answer =
            told.map_err(|error| format!("the server does not open the stream '{stream}': {error}")).and_then(|()| {
                let late = |_| format!("the server does not open the stream '{stream}' in {} s", OPENING.as_secs());
                answer.recv_timeout(OPENING).map_err(late)?
            });
        lock(&self.feeds.state).asked.remove(&ticket);
        answer
    }
}

//! The peers of a session.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use ropeway_protocol::ids::{EventId, SessionId};
use ropeway_protocol::types::Status;
use rustc_hash::FxHashMap;

use super::dialer::{Again, Dialer};
use super::feeds::Feeds;
use super::peer::Peer;
use super::services::Services;
use crate::base::error::End;
use crate::base::lock::lock;
use crate::handoff::{self, ToDaemon};

/// Most peers of a session.
const MAX_PEERS: usize = 4096;

/// The peers of a session.
pub struct Peers {
    /// The services that the peers use.
    pub services: Arc<Services>,
    /// The control socket.
    pub(super) daemon: OwnedFd,
    pub(super) state: Mutex<State>,
    /// Streams that the daemon has been asked for.
    pub(super) feeds: Feeds,
    /// Whether the session shares memory with peers of its machine.
    pub(super) shares_memory: bool,
}

#[derive(Default)]
pub(super) struct State {
    pub secret: Option<[u8; 32]>,
    pub peers: FxHashMap<SessionId, Arc<Peer>>,
    pub dialer: Dialer,
}

impl Peers {
    /// Tells the daemon something about the session, if it still listens.
    pub fn tell_daemon(&self, message: &ToDaemon) {
        let _ = handoff::say(self.daemon.as_fd(), message, None, false);
    }

    /// A session without peers, which may share memory with those to come; `daemon` is its control socket.
    pub fn new(services: Arc<Services>, daemon: OwnedFd, shares_memory: bool) -> Arc<Self> {
        Arc::new(Self { services, daemon, state: Mutex::default(), feeds: Feeds::default(), shares_memory })
    }

    /// The peer of this name, which may not be connected.
    ///
    /// # Errors
    /// The session has no peers, or too many.
    pub fn peer(&self, id: SessionId) -> Result<Arc<Peer>, End> {
        let mut state = lock(&self.state);
        if state.secret.is_none() {
            return Err(End::refused("something about peers before their secret"));
        }
        if let Some(peer) = state.peers.get(&id) {
            return Ok(peer.clone());
        }
        if state.peers.len() >= MAX_PEERS {
            return Err(End::refused(format_args!("more than {MAX_PEERS} peers")));
        }
        let peer = Arc::new(Peer::new(id, id == self.services.own));
        state.peers.insert(id, peer.clone());
        Ok(peer)
    }

    /// Ends an event that a peer was to signal with the status that the client itself gives; false if there is no event
    /// of this name.
    pub fn resolve(&self, event: EventId, status: Status) -> bool {
        let peers: Vec<_> = lock(&self.state).peers.values().cloned().collect();
        match peers.iter().find_map(|peer| peer.take_signal(event)) {
            Some(user) => {
                self.services.settle(&user, status);
                true
            }
            None => false,
        }
    }

    /// Runs the checks that keep anything from waiting for ever.
    pub(super) fn look_after(&self) -> ! {
        loop {
            let peers: Vec<_> = lock(&self.state).peers.values().cloned().collect();
            let mut next: Option<Instant> = None;
            for peer in peers {
                next = next.into_iter().chain(peer.look(&self.services, Instant::now())).min();
                let again = peer.with_again(Again::ask);
                if !again.is_empty() {
                    self.ask_for(again.into_iter().map(|number| (peer.id, number)));
                }
            }
            self.services.await_stir(next);
        }
    }

    /// Bytes sent to all peers and received from them.
    pub fn traffic(&self) -> (u64, u64) {
        let closed = self.services.closed_traffic();
        let peers: Vec<_> = lock(&self.state).peers.values().cloned().collect();
        peers.iter().map(|peer| peer.traffic()).fold(closed, |(a, b), (c, d)| (a + c, b + d))
    }
}

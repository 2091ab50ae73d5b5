//! Other sessions of the same client, on this server or others, with which this one shares memory and events.
//!
//! The client makes them know each other: each gets the same secret, and is told whom to connect. The daemon passes on the sockets of those that
//! connect here, and connects this worker to others, as it has no network of its own ([`dial`]). What a [`peer::Peer`] sends goes to what the client
//! has said that it expects ([`inbox`]), or straight into memory ([`arrival`]); what goes out is [`push`]'s.

pub mod ahead;
mod arrival;
mod dial;
mod inbox;
mod links;
mod movers;
mod peer;
mod push;

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use ropeway_abi as cl;
use ropeway_protocol::ids::{EventId, SessionId};
use ropeway_protocol::messages::PeerState;
use ropeway_protocol::types::Status;
use ropeway_transport::Link;
use rustc_hash::FxHashMap;

pub use ahead::Ahead;
pub use arrival::{Arrival, Part};
pub use dial::connect;
pub use movers::Movers;
pub use peer::Peer;
pub use push::{Push, signal, when_all_have_ended};

use crate::base::error::End;
use crate::base::lock::lock;
use crate::common::{Common, News};
use crate::native::UserEvent;
use crate::objects::semaphore;

/// What commands end with that need a peer which is not there: as those on a lost server do.
pub const PEER_LOST: Status = cl::CL_DEVICE_NOT_AVAILABLE;

/// Most peers of a session.
const MAX_PEERS: usize = 4096;

/// The peers of a session.
pub struct Peers {
    /// The session's own name.
    pub own: SessionId,
    /// Whether a user event was ever set to an error.
    pub failures: Arc<AtomicBool>,
    /// The control socket.
    daemon: OwnedFd,
    state: Mutex<State>,
    /// There may be something new to be looked after in time.
    stirred: Condvar,
    /// Bytes sent and received over connections that are closed.
    closed: Mutex<(u64, u64)>,
}

#[derive(Default)]
struct State {
    secret: Option<[u8; 32]>,
    peers: FxHashMap<SessionId, Arc<Peer>>,
    desk: dial::Desk,
    stirred: bool,
}

impl Peers {
    /// A session without peers; `daemon` is its control socket.
    pub fn new(own: SessionId, daemon: OwnedFd) -> Self {
        let (failures, state, stirred, closed) = Default::default();
        Self { own, failures, daemon, state, stirred, closed }
    }

    /// Takes part in the group of those who know `secret`.
    ///
    /// # Errors
    /// It does already, or no thread can be had.
    pub fn open(&self, common: &Arc<Common>, secret: [u8; 32]) -> Result<(), End> {
        let mut state = lock(&self.state);
        if state.secret.replace(secret).is_some() {
            return Err(End::refused("a second secret for its peers"));
        }
        let early = state.desk.early();
        drop(state);
        for knock in early {
            dial::admit(common, knock);
        }
        let common = common.clone();
        let spawned = std::thread::Builder::new().name("peers".into()).spawn(move || {
            let end = common.peers.look_after(&common);
            common.tell(News::Over(end));
        });
        spawned.map(drop).map_err(End::Broken)
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
        let peer = Arc::new(Peer::new(id, id == self.own));
        state.peers.insert(id, peer.clone());
        Ok(peer)
    }

    /// Sets a user event of the worker's; if to an error, commands that wait for it fail.
    pub fn settle(&self, user: &UserEvent, status: Status) {
        if status < 0 {
            self.failures.store(true, Ordering::Relaxed);
        }
        semaphore::set(user, status);
    }

    /// The client itself tells how an event has ended that a peer was to signal; false if there is none of this name.
    pub fn resolve(&self, event: EventId, status: Status) -> bool {
        let peers: Vec<_> = lock(&self.state).peers.values().cloned().collect();
        match peers.iter().find_map(|peer| peer.take_signal(event)) {
            Some(user) => {
                self.settle(&user, status);
                true
            }
            None => false,
        }
    }

    /// Lets the client know about a peer.
    fn tell_client(&self, common: &Common, state: PeerState) {
        common.log.line(&format!(
            "session {:016x}: peer {:016x} {}",
            self.own.0,
            state.peer.0,
            if state.connected { "is connected".to_owned() } else { format!("is lost: {}", state.text) }
        ));
        let mut sending = common.outgoing.lock();
        sending.note(&state);
        // Whoever reads from the client notices that it is gone.
        let _ = sending.send();
    }

    /// Something may have to be looked after in time.
    fn stir(&self) {
        lock(&self.state).stirred = true;
        self.stirred.notify_one();
    }

    /// Sees that nothing waits for ever; ends with the session.
    fn look_after(&self, common: &Arc<Common>) -> End {
        loop {
            let peers: Vec<_> = lock(&self.state).peers.values().cloned().collect();
            let mut next: Option<Instant> = None;
            for peer in peers {
                match peer.look(common, Instant::now()) {
                    Ok(deadline) => next = next.into_iter().chain(deadline).min(),
                    Err(end) => return end,
                }
            }
            let mut state = lock(&self.state);
            while !state.stirred {
                let Some(next) = next else {
                    state = self.stirred.wait(state).unwrap_or_else(PoisonError::into_inner);
                    continue;
                };
                let left = next.saturating_duration_since(Instant::now());
                let (woken, timeout) = self.stirred.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
                state = woken;
                if timeout.timed_out() {
                    break;
                }
            }
            state.stirred = false;
        }
    }

    fn count_closed(&self, link: &Link) {
        let (sent, received) = link.traffic();
        let mut closed = lock(&self.closed);
        *closed = (closed.0 + sent, closed.1 + received);
    }

    /// Bytes sent to all peers and received from them.
    pub fn traffic(&self) -> (u64, u64) {
        let closed = *lock(&self.closed);
        let peers: Vec<_> = lock(&self.state).peers.values().cloned().collect();
        peers.iter().map(|peer| peer.traffic()).fold(closed, |(a, b), (c, d)| (a + c, b + d))
    }
}

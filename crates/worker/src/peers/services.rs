//! Services that the peer modules use, and that know nothing of peers themselves.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use ropeway_abi as cl;
use ropeway_protocol::ids::SessionId;
use ropeway_protocol::messages::PeerState;
use ropeway_protocol::types::Status;
use ropeway_transport::Link;

use super::transfer_pool::TransferPool;
use crate::base::budget::Budget;
use crate::base::error::End;
use crate::base::lock::lock;
use crate::base::log::Log;
use crate::base::order::Turn;
use crate::native::{Event, UserEvent};
use crate::notify::notifier::Notifier;
use crate::notify::report::Reporter;
use crate::objects::semaphore;

/// The status of commands that need a lost peer: the same as that of commands on a lost server.
pub const PEER_LOST: Status = cl::CL_DEVICE_NOT_AVAILABLE;

/// Most pushes and signals of a session that are not sent yet.
const MAX_UNSENT: usize = 1 << 18;

/// A push's or signal's place among those that are not sent yet, given back when dropped.
pub struct Ticket(Arc<Budget>);

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.give_back(1);
    }
}

/// The session to which the peers belong, as they see it.
pub struct Services {
    /// The session's own name.
    pub own: SessionId,
    /// To the client.
    pub reporter: Arc<Reporter>,
    /// Waits for native events.
    pub notifier: Arc<Notifier>,
    /// The worker's log.
    pub log: Log,
    /// Whether a user event was ever set to an error.
    pub failures: Arc<AtomicBool>,
    /// Bounds the pushes and signals that are not sent yet, and with them the transfer pool's work: each item is part
    /// of one, or waits for memory that the client has named.
    unsent: Arc<Budget>,
    /// Threads that move bytes to peers.
    transfer_pool: Arc<TransferPool>,
    /// Set when there may be a new deadline to watch.
    stirred: (Mutex<bool>, Condvar),
    /// Bytes sent and received over connections that are closed.
    closed: Mutex<(u64, u64)>,
}

impl Services {
    /// Makes the services of a session.
    pub fn new(own: SessionId, reporter: Arc<Reporter>, notifier: Arc<Notifier>, log: Log) -> Arc<Self> {
        let (failures, transfer_pool, stirred, closed) = Default::default();
        let unsent = Arc::new(Budget::new(MAX_UNSENT));
        Arc::new(Self { own, reporter, notifier, log, failures, unsent, transfer_pool, stirred, closed })
    }

    /// Takes a ticket for a push or a signal that is to be sent.
    ///
    /// # Errors
    /// There are too many.
    pub fn ticket(&self) -> Result<Ticket, End> {
        match self.unsent.take(1) {
            true => Ok(Ticket(self.unsent.clone())),
            false => Err(End::refused(format_args!("more than {MAX_UNSENT} pushes and signals that are not sent yet"))),
        }
    }

    /// Ends the session.
    pub fn end(&self, end: End) {
        self.notifier.post.end(end);
    }

    /// Runs work that may take as long as moving bytes does.
    pub fn in_the_pool(self: &Arc<Self>, work: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let services = self.clone();
        self.notifier.post.count();
        self.transfer_pool.run(Box::new(move || {
            work(&services);
            services.notifier.post.done();
        }));
    }

    /// Calls `then`, which must take no time, once `event` has ended; see [`Notifier::when_ended`].
    pub fn when_ended(
        self: &Arc<Self>,
        event: Event,
        turn: Option<Turn>,
        at_once: bool,
        then: impl FnOnce(&Arc<Self>, Status) + Send + 'static,
    ) {
        let services = self.clone();
        self.notifier.when_ended(event, turn, at_once, Box::new(move |status| then(&services, status)));
    }

    /// Sets a user event of the worker's; if to an error, commands that wait for it fail.
    pub fn settle(&self, user: &UserEvent, status: Status) {
        if status < 0 {
            self.failures.store(true, Ordering::Relaxed);
        }
        semaphore::set(user, status);
    }

    /// Lets the client know about a peer.
    pub fn tell_client(&self, state: PeerState) {
        self.log.line(&format!(
            "session {:016x}: peer {:016x} {}",
            self.own.0,
            state.peer.0,
            if state.connected { "is connected".to_owned() } else { format!("is lost: {}", state.text) }
        ));
        let mut sending = self.reporter.client.outgoing.lock();
        sending.note(&state);
        // The thread that reads from the client notices that the client is gone.
        let _ = sending.send();
    }

    /// Lets the client know of a connection to a peer that broke, when others to it are there still.
    pub fn tell_of_break(&self, peer: SessionId, text: String) {
        self.log.line(&format!("session {:016x}: peer {:016x}: {text}", self.own.0, peer.0));
        let mut sending = self.reporter.client.outgoing.lock();
        sending.note(&PeerState { peer, connected: true, text });
        // The thread that reads from the client notices that the client is gone.
        let _ = sending.send();
    }

    /// Wakes the thread that watches deadlines.
    pub fn stir(&self) {
        *lock(&self.stirred.0) = true;
        self.stirred.1.notify_one();
    }

    /// Waits until there may be a new deadline to watch, or until `deadline`.
    pub fn await_stir(&self, deadline: Option<Instant>) {
        let mut stirred = lock(&self.stirred.0);
        while !*stirred {
            let Some(deadline) = deadline else {
                stirred = self.stirred.1.wait(stirred).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            stirred = self.stirred.1.wait_timeout(stirred, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        *stirred = false;
    }

    /// Counts what went over a connection that is closed.
    pub fn count_closed(&self, link: &Link) {
        let (sent, received) = link.traffic();
        let mut closed = lock(&self.closed);
        *closed = (closed.0 + sent, closed.1 + received);
    }

    /// Bytes sent and received over connections that are closed.
    pub fn closed_traffic(&self) -> (u64, u64) {
        *lock(&self.closed)
    }
}

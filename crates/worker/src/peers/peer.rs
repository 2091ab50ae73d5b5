//! One peer: whether it is connected, what is expected of it, and what is to be sent to it.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use ropeway_protocol::ids::{EventId, SessionId};
use ropeway_protocol::types::Status;

use super::arrival::Arrival;
use super::dialer::{Again, Attempt};
use super::inbox::Inbox;
use super::links::Links;
use super::peer_link::PeerLink;
use super::services::{PEER_LOST, Services};
use crate::base::error::End;
use crate::base::lock::lock;
use crate::native::UserEvent;

/// Called when it is known whether the peer is connected.
pub type Sending = Box<dyn FnOnce(&Arc<Services>, Result<Outlet, Status>) + Send>;

/// The way to a peer.
#[derive(Clone)]
pub enum Outlet {
    /// Over these connections.
    Links(Links),
    /// It is this session itself.
    Own,
}

/// Whether a peer is connected.
#[derive(Debug)]
pub(super) enum Condition {
    /// The peer has not been connected since this time, and is waited for.
    Awaited(Instant),
    /// It is.
    Connected,
    /// The peer is no longer connected, or could not be.
    Lost,
}

/// A peer.
pub struct Peer {
    /// The name of its session.
    pub id: SessionId,
    pub(super) state: Mutex<State>,
    /// Notified when something new is expected, the peer is lost, or nobody reads one of its connections any more.
    pub(super) changed: Condvar,
}

/// What is known of a peer.
pub(super) struct State {
    pub(super) condition: Condition,
    pub(super) links: Links,
    /// Connections for bulk data that have ended, of which the peer has not yet said what it has handled, and whether
    /// the client was told.
    pub(super) ended: Vec<(Arc<PeerLink>, bool)>,
    /// To be sent as soon as the peer is connected.
    pub(super) waiting: Vec<Sending>,
    pub(super) inbox: Inbox<Arc<Arrival>, UserEvent>,
    /// The attempt to connect to the peer, while there is one.
    pub(super) dialling: Option<Attempt>,
    /// The connections that are to be made again.
    pub(super) again: Again,
}

impl Peer {
    /// One that is not connected yet, unless it is the session itself.
    pub fn new(id: SessionId, own: bool) -> Self {
        let condition = if own { Condition::Connected } else { Condition::Awaited(Instant::now()) };
        let (links, ended, waiting, again) = Default::default();
        let state = State { condition, links, ended, waiting, inbox: Inbox::default(), dialling: None, again };
        Self { id, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Calls `send` as soon as it is known whether the peer is connected: at once, if that is known already.
    pub fn when_connected(&self, services: &Arc<Services>, send: Sending) {
        let mut state = lock(&self.state);
        let outlet = match state.condition {
            Condition::Awaited(_) => {
                state.waiting.push(send);
                drop(state);
                return services.stir();
            }
            Condition::Connected if self.id == services.own => Ok(Outlet::Own),
            Condition::Connected => Ok(Outlet::Links(state.links.clone())),
            Condition::Lost => Err(PEER_LOST),
        };
        drop(state);
        send(services, outlet);
    }

    /// Whether it is connected.
    pub fn is_connected(&self) -> bool {
        matches!(lock(&self.state).condition, Condition::Connected)
    }

    /// Does something with the attempt to connect to it.
    pub fn with_attempt<R>(&self, work: impl FnOnce(&mut Option<Attempt>) -> R) -> R {
        work(&mut lock(&self.state).dialling)
    }

    /// Does something with the connections that are to be made again.
    pub fn with_again<R>(&self, work: impl FnOnce(&mut Again) -> R) -> R {
        work(&mut lock(&self.state).again)
    }

    /// Expects a push.
    ///
    /// # Errors
    /// It is expected already.
    pub fn expect(self: &Arc<Self>, services: &Arc<Services>, arrival: Arc<Arrival>) -> Result<(), End> {
        let mut state = lock(&self.state);
        if state.inbox.expects(arrival.transfer) {
            return Err(End::refused(format_args!("{} is expected already", arrival.transfer)));
        }
        if matches!(state.condition, Condition::Lost) {
            drop(state);
            arrival.end(services, PEER_LOST);
            return Ok(());
        }
        let waits = matches!(state.condition, Condition::Awaited(_));
        let early = state.inbox.expect(arrival.transfer, arrival.clone());
        drop(state);
        match early {
            None => {
                self.changed.notify_all();
                if waits {
                    services.stir();
                }
            }
            Some(early) => {
                let peer = self.clone();
                services.in_the_pool(move |services| peer.take_early(services, &arrival, early));
            }
        }
        Ok(())
    }

    /// Expects a signal.
    pub fn expect_signal(&self, services: &Services, event: EventId, user: UserEvent) {
        let mut state = lock(&self.state);
        if matches!(state.condition, Condition::Lost) {
            drop(state);
            return services.settle(&user, PEER_LOST);
        }
        let waits = matches!(state.condition, Condition::Awaited(_));
        let early = state.inbox.expect_signal(event, user);
        drop(state);
        match early {
            Some((user, status)) => {
                self.changed.notify_all();
                services.settle(&user, status);
            }
            None if waits => services.stir(),
            None => self.changed.notify_all(),
        }
    }

    /// Takes back the user event that was registered for a signal of the peer's.
    pub fn take_signal(&self, event: EventId) -> Option<UserEvent> {
        lock(&self.state).inbox.take_signal(event)
    }

    /// Marks a lost or awaited peer as awaited anew: it is to be connected again.
    pub fn await_again(&self) {
        let mut state = lock(&self.state);
        if matches!(state.condition, Condition::Lost | Condition::Awaited(_)) {
            state.condition = Condition::Awaited(Instant::now());
        }
    }
}

//! What comes from a peer: it goes to what expects it, or is kept until it is expected.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use ropeway_protocol::messages::{Ended, PushData, PushEnds, PushFailed, PushInPlace, PushTaken, Received, Signal};
use ropeway_protocol::{ServePeer, Tail};
use ropeway_transport::Link;

use super::arrival::{Arrival, Fault};
use super::in_place::Incoming;
use super::inbox::{Early, Full, Inbox, Place};
use super::peer::{Condition, Peer, State};
use super::peer_link::PeerLink;
use super::services::{PEER_LOST, Services};
use crate::base::error::End;
use crate::base::lock::lock;
use crate::native::UserEvent;

/// How often a thread that waits for the client's announcement looks whether its connection has broken.
const LOOK: Duration = Duration::from_millis(500);

/// By which connection a message has come; none if it is the session's own.
pub type Source<'a> = Option<&'a PeerLink>;

impl Peer {
    /// Delivers the bytes of a push that came before the push was expected.
    pub(super) fn take_early(&self, services: &Arc<Services>, arrival: &Arc<Arrival>, mut early: Early) {
        let (mut complete, mut failed) = (false, None);
        loop {
            for (offset, bytes) in early.pieces {
                match arrival.receive(offset, &mut Incoming::Sent(&mut bytes.as_slice())) {
                    Ok(all) => complete |= all,
                    Err(fault) => return services.end(self.fault(fault)),
                }
            }
            match early.ends.map_or(Ok(false), |size| arrival.ends(size)) {
                Ok(all) => complete |= all,
                Err(fault) => return services.end(self.fault(fault)),
            }
            failed = failed.or(early.failed);
            let mut state = lock(&self.state);
            if matches!(state.condition, Condition::Lost) && !complete {
                drop(state);
                return arrival.end(services, failed.unwrap_or(PEER_LOST));
            }
            // More may have come in the meantime.
            match state.inbox.expect(arrival.transfer, arrival.clone()) {
                Some(more) => early = more,
                None => break,
            }
        }
        self.changed.notify_all();
        if let Some(status) = failed {
            lock(&self.state).inbox.done(arrival.transfer);
            arrival.end(services, status);
        } else if complete {
            lock(&self.state).inbox.done(arrival.transfer);
            arrival.land(services);
        }
    }

    fn fault(&self, fault: Fault) -> End {
        match fault {
            Fault::Wrong(what) => End::Peer(self.id, what),
            Fault::Broken => End::Gone,
        }
    }

    /// Takes bytes of a push.
    ///
    /// # Errors
    /// They are not what was announced, or the peer is lost.
    pub fn take_push(
        &self,
        services: &Arc<Services>,
        source: Source<'_>,
        message: &PushData,
        bytes: &mut Incoming<'_>,
    ) -> Result<(), End> {
        let (transfer, len) = (message.transfer, bytes.remaining());
        if len == 0 {
            return Err(End::Peer(self.id, format!("no bytes of {transfer}")));
        }
        let mut state = lock(&self.state);
        let arrival = loop {
            match state.inbox.place(transfer, len) {
                Place::Expected(arrival) => break arrival,
                Place::Nowhere => return Ok(()),
                Place::Keep => {
                    drop(state);
                    let kept = bytes.read_to_vec();
                    state = lock(&self.state);
                    let Ok(kept) = kept else {
                        state.inbox.forgo(len);
                        return Err(End::Gone);
                    };
                    let taken = state.inbox.keep(transfer, message.offset, kept);
                    drop(state);
                    let Some((arrival, kept)) = taken else { return Ok(()) };
                    let mut kept = kept.as_slice();
                    return self.deliver(services, &arrival, message.offset, &mut Incoming::Sent(&mut kept));
                }
                Place::Wait => state = self.wait_for_client(source, state)?,
            }
        };
        drop(state);
        self.deliver(services, &arrival, message.offset, bytes)
    }

    fn deliver(
        &self,
        services: &Arc<Services>,
        arrival: &Arc<Arrival>,
        offset: u64,
        bytes: &mut Incoming<'_>,
    ) -> Result<(), End> {
        let all = arrival.receive(offset, bytes);
        self.landed(services, arrival, all)
    }

    /// Ends a push if the bytes just taken were its last.
    fn landed(&self, services: &Arc<Services>, arrival: &Arc<Arrival>, all: Result<bool, Fault>) -> Result<(), End> {
        if all.map_err(|fault| self.fault(fault))? {
            lock(&self.state).inbox.done(arrival.transfer);
            arrival.land(services);
        }
        Ok(())
    }

    /// Waits until something more is expected. The wait may last as long as the session, as the client's announcement
    /// may be behind much else on a slow link.
    ///
    /// # Errors
    /// The peer is lost, or the connection is being made again: then the message comes again.
    fn wait_for_client<'a>(
        &self,
        source: Source<'_>,
        state: MutexGuard<'a, State>,
    ) -> Result<MutexGuard<'a, State>, End> {
        if matches!(state.condition, Condition::Lost) || source.is_some_and(PeerLink::is_over) {
            return Err(End::Gone);
        }
        Ok(self.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Takes a message into the inbox as soon as there is room for it.
    ///
    /// # Errors
    /// The peer is lost.
    fn take_in<T>(
        &self,
        source: Source<'_>,
        take: impl Fn(&mut Inbox<Arc<Arrival>, UserEvent>) -> Result<T, Full>,
    ) -> Result<T, End> {
        let mut state = lock(&self.state);
        loop {
            match take(&mut state.inbox) {
                Ok(taken) => return Ok(taken),
                Err(Full) => state = self.wait_for_client(source, state)?,
            }
        }
    }

    /// Takes the message that a push ends before all of its announced bytes.
    ///
    /// # Errors
    /// It was to be whole, or that was said before.
    pub fn take_end(&self, services: &Arc<Services>, source: Source<'_>, message: &PushEnds) -> Result<(), End> {
        let Some(arrival) = self.take_in(source, |inbox| inbox.end(message.transfer, message.size))? else {
            return Ok(());
        };
        let all = arrival.ends(message.size);
        self.landed(services, &arrival, all)
    }

    /// Takes the message that a push has failed.
    ///
    /// # Errors
    /// The status is none of a failure.
    pub fn take_failure(&self, services: &Services, source: Source<'_>, message: &PushFailed) -> Result<(), End> {
        if message.status >= 0 {
            return Err(End::Peer(self.id, format!("status {} of a failed push", message.status)));
        }
        if let Some(arrival) = self.take_in(source, |inbox| inbox.fail(message.transfer, message.status))? {
            arrival.end(services, message.status);
        }
        Ok(())
    }

    /// Takes a signal that has come.
    ///
    /// # Errors
    /// It has come before, or is none.
    pub fn take_signal_of(&self, services: &Services, source: Source<'_>, message: &Signal) -> Result<(), End> {
        let Signal { event, status } = *message;
        if status > 0 {
            return Err(End::Peer(self.id, format!("status {status} for {event}")));
        }
        let taken = self.take_in(source, |inbox| inbox.signal(event, status))?;
        if let Some(user) = taken.map_err(|()| End::Peer(self.id, format!("a signal of {event} twice")))? {
            services.settle(&user, status);
        }
        Ok(())
    }
}

/// Takes the messages that come by one socket.
pub(super) struct Receiver<'a> {
    pub peer: &'a Arc<Peer>,
    pub services: &'a Arc<Services>,
    pub link: &'a Arc<PeerLink>,
    pub socket: &'a Arc<Link>,
    /// Whether the last message was one that is not counted.
    pub uncounted: bool,
}

impl ServePeer for Receiver<'_> {
    type Error = End;

    fn push_data(&mut self, message: PushData, tail: &mut dyn Tail) -> Result<(), End> {
        self.peer.take_push(self.services, Some(self.link), &message, &mut Incoming::Sent(tail))
    }

    fn push_in_place(&mut self, message: PushInPlace) -> Result<(), End> {
        let PushInPlace { transfer, offset, at, size } = message;
        let lent = self.link.in_place().and_then(|in_place| in_place.announced(at, size));
        let lent = lent
            .ok_or_else(|| End::Peer(self.peer.id, format!("{size} bytes of {transfer} at {at}, in no slot of its")))?;
        let mut bytes = Incoming::Lent(lent);
        self.peer.take_push(self.services, Some(self.link), &PushData { transfer, offset }, &mut bytes)
    }

    fn push_taken(&mut self, message: PushTaken) -> Result<(), End> {
        let is_right = self.link.in_place().is_some_and(|in_place| in_place.taken(message.at));
        is_right
            .then_some(())
            .ok_or_else(|| End::Peer(self.peer.id, format!("a slot back at {} that it did not have", message.at)))
    }

    fn push_ends(&mut self, message: PushEnds) -> Result<(), End> {
        self.peer.take_end(self.services, Some(self.link), &message)
    }

    fn push_failed(&mut self, message: PushFailed) -> Result<(), End> {
        self.peer.take_failure(self.services, Some(self.link), &message)
    }

    fn signal(&mut self, message: Signal) -> Result<(), End> {
        self.peer.take_signal_of(self.services, Some(self.link), &message)
    }

    fn received(&mut self, message: Received) -> Result<(), End> {
        self.uncounted = true;
        if self.link.confirm(message.bytes) {
            self.peer.send_again(self.services, self.link, self.socket, message.bytes);
        }
        Ok(())
    }

    fn ended(&mut self, message: Ended) -> Result<(), End> {
        // What follows takes locks that are held while something is sent.
        let peer = self.peer.clone();
        self.services.in_the_pool(move |services| peer.fail_lost(services, &message));
        Ok(())
    }
}

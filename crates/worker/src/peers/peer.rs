//! One peer: whether it is connected, what is expected of it, and what is to be sent to it.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ropeway_protocol::ServePeer;
use ropeway_protocol::Tail;
use ropeway_protocol::ids::{EventId, SessionId};
use ropeway_protocol::messages::{PeerState, PushData, PushEnds, PushFailed, Signal};
use ropeway_protocol::types::Status;

use super::arrival::{Arrival, Fault};
use super::dialer::{Again, Attempt};
use super::inbox::{Early, Full, Inbox, Place};
use super::links::{CONTROL, Links, PeerLink, is_local};
use super::services::{PEER_LOST, Services};
use crate::base::error::End;
use crate::base::lock::lock;
use crate::link::input::Input;
use crate::native::UserEvent;

/// How long to wait for a peer to which nobody makes a connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// Most connections to one peer: both sides may make some.
const MAX_LINKS: usize = 8;

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
enum Condition {
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
    state: Mutex<State>,
    /// Notified when something new is expected, or the peer is lost.
    changed: Condvar,
}

struct State {
    condition: Condition,
    links: Links,
    /// To be sent as soon as the peer is connected.
    waiting: Vec<Sending>,
    inbox: Inbox<Arc<Arrival>, UserEvent>,
    /// The attempt to connect to the peer, while there is one.
    dialling: Option<Attempt>,
    /// The connections that are to be made again.
    again: Again,
}

impl Peer {
    /// One that is not connected yet, unless it is the session itself.
    pub fn new(id: SessionId, own: bool) -> Self {
        let condition = if own { Condition::Connected } else { Condition::Awaited(Instant::now()) };
        let (links, waiting, again) = Default::default();
        let state = State { condition, links, waiting, inbox: Inbox::default(), dialling: None, again };
        Self { id, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Calls `send` as soon as it is known whether the peer is connected: at once, if that is known already.
    pub fn when_connected(&self, common: &Arc<Services>, send: Sending) {
        let mut state = lock(&self.state);
        let outlet = match state.condition {
            Condition::Awaited(_) => {
                state.waiting.push(send);
                drop(state);
                return common.stir();
            }
            Condition::Connected if self.id == common.own => Ok(Outlet::Own),
            Condition::Connected => Ok(Outlet::Links(state.links.clone())),
            Condition::Lost => Err(PEER_LOST),
        };
        drop(state);
        send(common, outlet);
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

    /// Forgets a bulk connection that broke here while the peer is still there; returns true if nothing else is wrong.
    /// Bytes already sent over the connection still arrive. The side that made the connection makes it again.
    pub fn forget(&self, common: &Services, link: &Arc<PeerLink>, error: &io::Error) -> bool {
        let mut state = lock(&self.state);
        if state.links.control().is_none_or(|control| Arc::ptr_eq(control, link)) {
            return false;
        }
        let number = state.links.number(link);
        // A thread that finds the connection broken after another did sees it as closed.
        if number.is_some() && !is_local(error) {
            return false;
        }
        let Some(number) = number else { return true };
        state.links.remove(link);
        state.again.wanted.push(number);
        drop(state);
        link.link.shutdown();
        common.count_closed(&link.link);
        common.tell_of_break(
            self.id,
            format!("a connection to another server broke ({error}): what was being sent over it failed; it will be made again"),
        );
        common.stir();
        true
    }

    /// Removes a bulk connection that the peer has closed; returns false if the peer itself seems to be gone.
    fn was_closed(&self, common: &Services, link: &Arc<PeerLink>) -> bool {
        let mut state = lock(&self.state);
        let Some(number) = state.links.number(link).filter(|number| *number != CONTROL) else { return false };
        if state.links.control().is_none() {
            return false;
        }
        state.links.remove(link);
        state.again.wanted.push(number);
        drop(state);
        link.link.shutdown();
        common.count_closed(&link.link);
        common.stir();
        true
    }

    /// Expects a push.
    ///
    /// # Errors
    /// It is expected already.
    pub fn expect(self: &Arc<Self>, common: &Arc<Services>, arrival: Arc<Arrival>) -> Result<(), End> {
        let mut state = lock(&self.state);
        if state.inbox.expects(arrival.transfer) {
            return Err(End::refused(format_args!("{} is expected already", arrival.transfer)));
        }
        if matches!(state.condition, Condition::Lost) {
            drop(state);
            arrival.end(common, PEER_LOST);
            return Ok(());
        }
        let waits = matches!(state.condition, Condition::Awaited(_));
        let early = state.inbox.expect(arrival.transfer, arrival.clone());
        drop(state);
        match early {
            None => {
                self.changed.notify_all();
                if waits {
                    common.stir();
                }
            }
            Some(early) => {
                let peer = self.clone();
                common.in_the_pool(move |common| peer.take_early(common, &arrival, early));
            }
        }
        Ok(())
    }

    /// Delivers the bytes of a push that came before the push was expected.
    fn take_early(&self, common: &Arc<Services>, arrival: &Arc<Arrival>, mut early: Early) {
        let (mut complete, mut failed) = (false, None);
        loop {
            for (offset, bytes) in early.pieces {
                match arrival.receive(offset, &mut bytes.as_slice()) {
                    Ok(all) => complete |= all,
                    Err(fault) => return common.end(self.fault(fault)),
                }
            }
            match early.ends.map_or(Ok(false), |size| arrival.ends(size)) {
                Ok(all) => complete |= all,
                Err(fault) => return common.end(self.fault(fault)),
            }
            failed = failed.or(early.failed);
            let mut state = lock(&self.state);
            if matches!(state.condition, Condition::Lost) && !complete {
                drop(state);
                return arrival.end(common, failed.unwrap_or(PEER_LOST));
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
            arrival.end(common, status);
        } else if complete {
            lock(&self.state).inbox.done(arrival.transfer);
            arrival.land(common);
        }
    }

    fn fault(&self, fault: Fault) -> End {
        match fault {
            Fault::Wrong(what) => End::Peer(self.id, what),
            Fault::Broken => End::Gone,
        }
    }

    /// Expects a signal.
    pub fn expect_signal(&self, common: &Services, event: EventId, user: UserEvent) {
        let mut state = lock(&self.state);
        if matches!(state.condition, Condition::Lost) {
            drop(state);
            return common.settle(&user, PEER_LOST);
        }
        let waits = matches!(state.condition, Condition::Awaited(_));
        let early = state.inbox.expect_signal(event, user);
        drop(state);
        match early {
            Some((user, status)) => {
                self.changed.notify_all();
                common.settle(&user, status);
            }
            None if waits => common.stir(),
            None => self.changed.notify_all(),
        }
    }

    /// Takes back the user event that was registered for a signal of the peer's.
    pub fn take_signal(&self, event: EventId) -> Option<UserEvent> {
        lock(&self.state).inbox.take_signal(event)
    }

    /// Takes bytes of a push.
    ///
    /// # Errors
    /// They are not what was announced, or the peer is lost.
    pub fn take_push(&self, common: &Arc<Services>, message: &PushData, tail: &mut dyn Tail) -> Result<(), End> {
        let (transfer, len) = (message.transfer, tail.remaining());
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
                    let bytes = tail.read_to_vec();
                    state = lock(&self.state);
                    let Ok(bytes) = bytes else {
                        state.inbox.forgo(len);
                        return Err(End::Gone);
                    };
                    let taken = state.inbox.keep(transfer, message.offset, bytes);
                    drop(state);
                    let Some((arrival, bytes)) = taken else { return Ok(()) };
                    return self.deliver(common, &arrival, message.offset, &mut bytes.as_slice());
                }
                Place::Wait => state = self.wait_for_client(state)?,
            }
        };
        drop(state);
        self.deliver(common, &arrival, message.offset, tail)
    }

    fn deliver(
        &self,
        common: &Arc<Services>,
        arrival: &Arc<Arrival>,
        offset: u64,
        tail: &mut dyn Tail,
    ) -> Result<(), End> {
        let all = arrival.receive(offset, tail);
        self.landed(common, arrival, all)
    }

    /// Ends a push if the bytes just taken were its last.
    fn landed(&self, common: &Arc<Services>, arrival: &Arc<Arrival>, all: Result<bool, Fault>) -> Result<(), End> {
        if all.map_err(|fault| self.fault(fault))? {
            lock(&self.state).inbox.done(arrival.transfer);
            arrival.land(common);
        }
        Ok(())
    }

    /// Waits until something more is expected. The wait may last as long as the session, as the client's announcement
    /// may be behind much else on a slow link.
    ///
    /// # Errors
    /// The peer is lost.
    fn wait_for_client<'a>(&self, state: MutexGuard<'a, State>) -> Result<MutexGuard<'a, State>, End> {
        if matches!(state.condition, Condition::Lost) {
            return Err(End::Gone);
        }
        Ok(self.changed.wait(state).unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes a message into the inbox as soon as there is room for it.
    ///
    /// # Errors
    /// The peer is lost.
    fn take_in<T>(&self, take: impl Fn(&mut Inbox<Arc<Arrival>, UserEvent>) -> Result<T, Full>) -> Result<T, End> {
        let mut state = lock(&self.state);
        loop {
            match take(&mut state.inbox) {
                Ok(taken) => return Ok(taken),
                Err(Full) => state = self.wait_for_client(state)?,
            }
        }
    }

    /// Takes the message that a push ends before all of its announced bytes.
    ///
    /// # Errors
    /// It was to be whole, or that was said before.
    pub fn take_end(&self, common: &Arc<Services>, message: &PushEnds) -> Result<(), End> {
        let Some(arrival) = self.take_in(|inbox| inbox.end(message.transfer, message.size))? else { return Ok(()) };
        let all = arrival.ends(message.size);
        self.landed(common, &arrival, all)
    }

    /// Takes the message that a push has failed.
    ///
    /// # Errors
    /// The status is none of a failure.
    pub fn take_failure(&self, common: &Services, message: &PushFailed) -> Result<(), End> {
        if message.status >= 0 {
            return Err(End::Peer(self.id, format!("status {} of a failed push", message.status)));
        }
        if let Some(arrival) = self.take_in(|inbox| inbox.fail(message.transfer, message.status))? {
            arrival.end(common, message.status);
        }
        Ok(())
    }

    /// Takes a signal that has come.
    ///
    /// # Errors
    /// It has come before, or is none.
    pub fn take_signal_of(&self, common: &Services, message: &Signal) -> Result<(), End> {
        let Signal { event, status } = *message;
        if status > 0 {
            return Err(End::Peer(self.id, format!("status {status} for {event}")));
        }
        let taken = self.take_in(|inbox| inbox.signal(event, status))?;
        if let Some(user) = taken.map_err(|()| End::Peer(self.id, format!("a signal of {event} twice")))? {
            common.settle(&user, status);
        }
        Ok(())
    }

    /// Takes a connection into use: reads what comes by it, in a thread of its own.
    pub fn add(self: &Arc<Self>, common: &Arc<Services>, number: u8, link: ropeway_transport::Link) {
        let link = Arc::new(PeerLink::new(link));
        let mut state = lock(&self.state);
        if state.links.all().count() >= MAX_LINKS {
            return;
        }
        state.links.add(number, link.clone());
        let waiting = if number == CONTROL {
            state.condition = Condition::Connected;
            std::mem::take(&mut state.waiting)
        } else {
            Vec::new()
        };
        let outlet = Outlet::Links(state.links.clone());
        drop(state);
        let (peer, for_thread) = (self.clone(), common.clone());
        let read = move || peer.read(&for_thread, &link);
        if std::thread::Builder::new().name("peer".into()).spawn(read).is_err() {
            return self.lose(common, None, "no thread can be started to listen to it");
        }
        for send in waiting {
            let outlet = outlet.clone();
            common.in_the_pool(move |common| send(common, Ok(outlet)));
        }
    }

    /// Reads what comes by a connection, until it ends.
    fn read(&self, common: &Arc<Services>, link: &Arc<PeerLink>) {
        let mut input = Input::new(link.link.clone());
        let mut receiver = Receiver { peer: self, common };
        let end = loop {
            let next = input.dispatch_peer(&mut receiver);
            match next.and_then(|more| if more { Ok(()) } else { input.fill() }) {
                Ok(()) => {}
                Err(end) => break end,
            }
        };
        match end {
            End::Refused(what) => common.end(End::Peer(self.id, what)),
            End::Peer(..) | End::Ended(_) => common.end(end),
            End::Broken(error) => self.lose(common, Some(link), &format!("the connection to it broke: {error}")),
            End::Goodbye | End::Gone if self.was_closed(common, link) => {}
            End::Goodbye | End::Gone => self.lose(common, Some(link), "it closed the connection"),
        }
    }

    /// Handles the loss of the peer: fails what is expected of it and what was to be sent to it. If a connection (`by`)
    /// shows the loss, it must be one of those in use: the peer may have been connected again since.
    pub fn lose(&self, common: &Arc<Services>, by: Option<&Arc<PeerLink>>, why: &str) {
        let mut state = lock(&self.state);
        let in_use = |by: &Arc<PeerLink>| state.links.all().any(|link| Arc::ptr_eq(link, by));
        if matches!(state.condition, Condition::Lost) || by.is_some_and(|by| !in_use(by)) {
            return;
        }
        state.condition = Condition::Lost;
        for link in state.links.all() {
            link.link.shutdown();
            common.count_closed(&link.link);
        }
        state.links = Links::default();
        state.again = Again::default();
        let waiting = std::mem::take(&mut state.waiting);
        let (arrivals, signals) = state.inbox.clear();
        drop(state);
        self.changed.notify_all();
        // Tell the client before it hears of the failed commands: its next transfers then go another way.
        common.tell_client(PeerState { peer: self.id, connected: false, text: why.to_owned() });
        arrivals.iter().for_each(|arrival| arrival.end(common, PEER_LOST));
        signals.iter().for_each(|user| common.settle(user, PEER_LOST));
        waiting.into_iter().for_each(|send| send(common, Err(PEER_LOST)));
    }

    /// Ends waits that have timed out; returns when to look again.
    pub fn look(&self, common: &Arc<Services>, now: Instant) -> Option<Instant> {
        let mut state = lock(&self.state);
        let wanted = state.inbox.is_waiting() || !state.waiting.is_empty();
        let deadline = match (&state.condition, &state.dialling) {
            (Condition::Awaited(_), Some(attempt)) => Some(attempt.deadline()),
            (Condition::Awaited(since), None) if wanted => Some(*since + PATIENCE),
            _ => None,
        };
        if deadline.is_some_and(|deadline| now >= deadline) {
            state.dialling = None;
            drop(state);
            self.lose(common, None, "nobody has connected it in time");
            return None;
        }
        deadline
    }

    /// Marks a lost or awaited peer as awaited anew: it is to be connected again.
    pub fn await_again(&self) {
        let mut state = lock(&self.state);
        if matches!(state.condition, Condition::Lost | Condition::Awaited(_)) {
            state.condition = Condition::Awaited(Instant::now());
        }
    }

    /// Bytes sent and received over its connections.
    pub fn traffic(&self) -> (u64, u64) {
        let state = lock(&self.state);
        state.links.all().map(|link| link.link.traffic()).fold((0, 0), |(a, b), (c, d)| (a + c, b + d))
    }
}

struct Receiver<'a> {
    peer: &'a Peer,
    common: &'a Arc<Services>,
}

impl ServePeer for Receiver<'_> {
    type Error = End;

    fn push_data(&mut self, message: PushData, tail: &mut dyn Tail) -> Result<(), End> {
        self.peer.take_push(self.common, &message, tail)
    }

    fn push_ends(&mut self, message: PushEnds) -> Result<(), End> {
        self.peer.take_end(self.common, &message)
    }

    fn push_failed(&mut self, message: PushFailed) -> Result<(), End> {
        self.peer.take_failure(self.common, &message)
    }

    fn signal(&mut self, message: Signal) -> Result<(), End> {
        self.peer.take_signal_of(self.common, &message)
    }
}

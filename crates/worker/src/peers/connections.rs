//! The connections to a peer: how they come into use, are read, break, and are made again.

use std::io;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ropeway_abi as cl;
use ropeway_protocol::messages::{Ended, PeerState, PushFailed};
use ropeway_transport::Link;

use super::dialer::Again;
use super::peer::{Condition, Outlet, Peer, State};
use super::peer_link::{CONTROL, PeerLink, RENEWAL, Stream, is_local, is_unreachable};
use super::receiving::Receiver;
use super::services::{PEER_LOST, Services};
use crate::base::error::End;
use crate::base::lock::lock;
use crate::link::input::Input;

/// How long to wait for a peer to which nobody makes a connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often to look whether the other connections have ended, too, while connection 0 is broken.
const LOOK: Duration = Duration::from_millis(500);

/// Most connections for bulk data that have ended and that the peer has still to speak of. It does when it has read
/// each to its end.
const MAX_ENDED: usize = 16;

/// Most connections to one peer: both sides may make some.
const MAX_LINKS: usize = 8;

impl Peer {
    /// Takes a connection into use: reads what comes by it, in a thread of its own.
    pub fn add(self: &Arc<Self>, services: &Arc<Services>, number: u8, stream: Stream, link: Link) {
        let (own, peer, medium) = (services.own.0, self.id.0, link.medium());
        services
            .log
            .line(&format!("session {own:016x}: connection {number} to peer {peer:016x} goes through {medium}"));
        let link = Arc::new(PeerLink::new(number, stream, link));
        let mut state = lock(&self.state);
        if state.links.all().count() >= MAX_LINKS {
            return;
        }
        state.links.add(link.clone());
        let waiting = if number == CONTROL {
            state.condition = Condition::Connected;
            std::mem::take(&mut state.waiting)
        } else {
            Vec::new()
        };
        let outlet = Outlet::Links(state.links.clone());
        drop(state);
        let socket = link.socket();
        let has_slots = link.in_place().is_some();
        let slots_of = link.clone();
        if has_slots && !self.in_a_thread(services, move |_, _| slots_of.give_back_slots()) {
            return;
        }
        if !self.in_a_thread(services, move |peer, services| peer.read(services, &link, &socket)) {
            return;
        }
        for send in waiting {
            let outlet = outlet.clone();
            services.in_the_pool(move |services| send(services, Ok(outlet)));
        }
    }

    /// Does something about a connection in a thread of its own. Returns false if there can be none: then the peer is
    /// lost.
    fn in_a_thread(
        self: &Arc<Self>,
        services: &Arc<Services>,
        work: impl FnOnce(&Arc<Self>, &Arc<Services>) + Send + 'static,
    ) -> bool {
        let (peer, for_thread) = (self.clone(), services.clone());
        let spawned = thread::Builder::new().name("peer".into()).spawn(move || work(&peer, &for_thread));
        spawned.inspect_err(|_| self.lose(services, None, "no thread can be started to listen to it")).is_ok()
    }

    /// Reads what comes by a connection's socket, until it ends.
    fn read(self: &Arc<Self>, services: &Arc<Services>, link: &Arc<PeerLink>, socket: &Arc<Link>) {
        let is_control = link.number == CONTROL;
        let mut input = if is_control { Input::of_whole_frames(socket.clone()) } else { Input::new(socket.clone()) };
        let mut receiver = Receiver { peer: self, services, link, socket, uncounted: false };
        let end = loop {
            let before = input.passed();
            match input.dispatch_peer(&mut receiver) {
                Ok(true) if std::mem::take(&mut receiver.uncounted) => {}
                Ok(true) => link.count_handled(input.passed() - before),
                Ok(false) => {
                    if let Err(end) = input.fill(&|| ()) {
                        break end;
                    }
                }
                Err(end) => break end,
            }
        };
        match end {
            End::Refused(what) => services.end(End::Peer(self.id, what)),
            End::Peer(..) | End::Ended(_) | End::Limit(_) => services.end(end),
            End::Broken(error) if is_unreachable(&error) => {
                self.lose(services, Some(link), &format!("the connection to it broke: {error}"));
            }
            End::Broken(error) => self.ended(services, link, &format!("the connection to it broke: {error}")),
            End::Goodbye | End::Gone => self.ended(services, link, "it closed the connection"),
        }
        if !is_control {
            self.tell_end(link);
        }
        // Who waits for this looks with the lock held.
        let state = lock(&self.state);
        link.is_left();
        drop(state);
        self.changed.notify_all();
    }

    /// Tells the peer how much of a connection for bulk data was handled here, which nobody reads any more.
    fn tell_end(&self, link: &PeerLink) {
        let control = lock(&self.state).links.control().cloned();
        let Stream { name: stream, ours } = link.stream;
        let message = Ended { stream, yours: !ours, bytes: link.handled() };
        // A connection that is gone is noticed where it is read.
        drop(control.map(|control| control.post(&message, &[])));
    }

    /// Has those pushes fail that have lost bytes on a connection for bulk data which has ended.
    pub(super) fn fail_lost(&self, services: &Arc<Services>, message: &Ended) {
        let stream = Stream { name: message.stream, ours: message.yours };
        let is_it = |link: &&Arc<PeerLink>| link.number != CONTROL && link.stream == stream;
        let mut state = lock(&self.state);
        let in_use = state.links.all().find(is_it).cloned();
        if let Some(link) = in_use {
            self.retire(services, &mut state, &link, false);
        }
        let Some(at) = state.ended.iter().position(|(link, _)| is_it(&link)) else { return };
        let (link, is_told) = state.ended.swap_remove(at);
        let control = state.links.control().cloned();
        drop(state);
        services.stir();
        let Some(lost) = link.lost(message.bytes) else {
            return self.lose(services, None, "a connection to it broke, and what was on it is not known");
        };
        if lost.is_empty() {
            return;
        }
        for transfer in &lost {
            let message = PushFailed { transfer: *transfer, status: cl::CL_OUT_OF_RESOURCES };
            drop(control.as_ref().map(|control| control.post(&message, &[])));
        }
        if !is_told {
            let text =
                "a connection to another server broke: what was being sent over it failed; it will be made again";
            services.tell_of_break(self.id, text.to_owned());
        }
    }

    /// Takes a connection for bulk data, which has ended, out of use, and has it made again. `is_told` says whether the
    /// client is told of it.
    fn retire(&self, services: &Services, state: &mut State, link: &Arc<PeerLink>, is_told: bool) {
        state.links.remove(link);
        state.again.want_bulk(link.number, link.was_of_use());
        state.ended.push((link.clone(), is_told));
        link.close();
        services.count_closed(&link.socket());
    }

    /// Notes that a connection has ended, although the peer's machine answers as far as is known.
    fn ended(&self, services: &Arc<Services>, link: &Arc<PeerLink>, why: &str) {
        if !self.goes_on_without(services, link, why) {
            self.lose(services, Some(link), why);
        }
    }

    /// Has a connection made again that has ended; returns false if the peer itself seems to be gone. When a peer's
    /// process ends, all of its connections do: so none is made again when no other one works.
    fn goes_on_without(&self, services: &Services, link: &Arc<PeerLink>, why: &str) -> bool {
        let mut state = lock(&self.state);
        if !state.links.contains(link) {
            return false;
        }
        let works = |other: &Arc<PeerLink>| !Arc::ptr_eq(other, link) && other.works();
        if state.links.control().is_none() || !state.links.all().any(works) {
            return false;
        }
        if link.number != CONTROL {
            if state.ended.len() >= MAX_ENDED {
                return false;
            }
            self.retire(services, &mut state, link, false);
        } else if !link.breaks() {
            return false;
        } else if link.stream.ours {
            state.again.wanted.push(CONTROL);
        }
        drop(state);
        services.log.line(&format!(
            "session {:016x}: connection {} to peer {:016x} has ended ({why}), and is to be made again",
            services.own.0, link.number, self.id.0
        ));
        services.stir();
        true
    }

    /// Finds connection 0 by its name.
    fn control(&self, stream: Stream) -> Option<Arc<PeerLink>> {
        let state = lock(&self.state);
        state.links.all().find(|link| link.number == CONTROL && link.stream == stream).cloned()
    }

    /// The name of the broken connection 0 that this session has to make again.
    pub fn to_resume(&self) -> Option<u64> {
        let state = lock(&self.state);
        let broken = |link: &&Arc<PeerLink>| link.number == CONTROL && link.stream.ours && link.broken().is_some();
        state.links.all().find(broken).map(|link| link.stream.name)
    }

    /// Whether there is a connection 0 of this name, which may be made again.
    pub fn may_resume(&self, stream: Stream) -> bool {
        self.control(stream).is_some()
    }

    /// Goes on with connection 0 over a new socket, as soon as nobody reads the old one.
    pub fn resume(self: &Arc<Self>, services: &Arc<Services>, stream: Stream, socket: Link) {
        let Some(link) = self.control(stream) else { return };
        let number = link.expect_socket();
        self.changed.notify_all();
        // There is a new deadline.
        services.stir();
        self.in_a_thread(services, move |peer, services| {
            let mut state = lock(&peer.state);
            let is_wanted = |state: &State| state.links.contains(&link) && link.is_latest(number);
            // The peer is lost if this takes too long.
            while is_wanted(&state) && link.is_read() {
                state = peer.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if !is_wanted(&state) {
                return;
            }
            let socket = Arc::new(socket);
            services.count_closed(&link.replace(&socket));
            drop(state);
            link.begin_again(&socket);
            peer.read(services, &link, &socket);
        });
    }

    /// Sends what the peer has not received of connection 0, which was made again. Another thread does: the one that
    /// reads must go on, as the peer may be sending as much.
    pub(super) fn send_again(
        self: &Arc<Self>,
        services: &Arc<Services>,
        link: &Arc<PeerLink>,
        socket: &Arc<Link>,
        handled: u64,
    ) {
        let (link, socket) = (link.clone(), socket.clone());
        self.in_a_thread(services, move |peer, services| match link.send_again(&socket, handled) {
            Ok(()) => {
                services.stir();
                services
                    .log
                    .line(&format!("session {:016x}: connection 0 to peer {:016x} goes on", services.own.0, peer.id.0));
            }
            Err(why) => peer.lose(services, Some(&link), &why),
        });
    }

    /// Handles the loss of the peer: fails what is expected of it and what was to be sent to it. If a connection (`by`)
    /// shows the loss, it must be one of those in use: the peer may have been connected again since.
    pub fn lose(&self, services: &Arc<Services>, by: Option<&Arc<PeerLink>>, why: &str) {
        let mut state = lock(&self.state);
        if matches!(state.condition, Condition::Lost) || by.is_some_and(|by| !state.links.contains(by)) {
            return;
        }
        state.condition = Condition::Lost;
        for link in state.links.all() {
            link.close();
            services.count_closed(&link.socket());
        }
        (state.links, state.ended) = Default::default();
        state.again = Again::default();
        let waiting = std::mem::take(&mut state.waiting);
        let (arrivals, signals) = state.inbox.clear();
        drop(state);
        self.changed.notify_all();
        // Tell the client before it hears of the failed commands: its next transfers then go another way.
        services.tell_client(PeerState { peer: self.id, connected: false, text: why.to_owned() });
        arrivals.iter().for_each(|arrival| arrival.end(services, PEER_LOST));
        signals.iter().for_each(|user| services.settle(user, PEER_LOST));
        waiting.into_iter().for_each(|send| send(services, Err(PEER_LOST)));
    }

    /// Ends waits that have timed out; returns when to look again.
    pub fn look(&self, services: &Arc<Services>, now: Instant) -> Option<Instant> {
        let mut state = lock(&self.state);
        let wanted = state.inbox.is_waiting() || !state.waiting.is_empty();
        let broken = state.links.all().filter_map(|link| link.broken()).min();
        let unconnected = "nobody has connected it in time";
        let (deadline, why) = match (&state.condition, &state.dialling, broken) {
            (Condition::Awaited(_), Some(attempt), _) => (attempt.deadline(), unconnected),
            (Condition::Awaited(since), None, _) if wanted => (*since + PATIENCE, unconnected),
            // The threads that read the other connections may be busy when these end.
            (Condition::Connected, _, Some(_)) if !state.links.all().any(|link| link.works()) => {
                (now, "it closed the connection")
            }
            (Condition::Connected, _, Some(since)) => {
                (since + RENEWAL, "a connection to it was not made again in time")
            }
            _ => return None,
        };
        if now >= deadline {
            state.dialling = None;
            drop(state);
            self.lose(services, None, why);
            return None;
        }
        Some(if broken.is_some() { deadline.min(now + LOOK) } else { deadline })
    }

    /// Takes a bulk connection out of use by which sending has failed; returns true if the peer is still there as far
    /// as is known. The side that made the connection makes it again.
    pub fn forget(&self, services: &Services, link: &Arc<PeerLink>, error: &io::Error) -> bool {
        let mut state = lock(&self.state);
        if state.links.control().is_none_or(|control| Arc::ptr_eq(control, link)) {
            return false;
        }
        // Another thread may have found it broken before.
        if !state.links.contains(link) {
            return true;
        }
        if is_unreachable(error) || state.ended.len() >= MAX_ENDED {
            return false;
        }
        // Otherwise the peer has closed it, and is perhaps gone.
        let is_local = is_local(error);
        self.retire(services, &mut state, link, is_local);
        drop(state);
        if is_local {
            services.tell_of_break(
                self.id,
                format!("a connection to another server broke ({error}): what was being sent over it failed; it will be made again"),
            );
        }
        services.stir();
        true
    }

    /// Bytes sent and received over its connections.
    pub fn traffic(&self) -> (u64, u64) {
        let state = lock(&self.state);
        state.links.all().map(|link| link.socket().traffic()).fold((0, 0), |(a, b), (c, d)| (a + c, b + d))
    }
}

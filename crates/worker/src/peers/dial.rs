//! How sessions are connected to each other: proofs, and what the daemon does for this worker.

use std::io::IoSlice;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use ropeway_protocol::handshake::{Joined, Opening, Purpose, Refusal, encode_opening, peer_proof, proofs_equal};
use ropeway_protocol::ids::SessionId;
use ropeway_protocol::messages::PeerState;
use ropeway_transport::tls::Identity;
use ropeway_transport::{Link, Room, Sender};

use super::dialer::{Again, Attempt, PendingPeer};
use super::group::Peers;
use super::links::bulk_links;
use super::peer::Peer;
use super::peer_link::{CONTROL, Stream};
use super::services::Services;
use crate::base::drivers;
use crate::base::error::End;
use crate::base::lock::lock;
use crate::handoff::{self, MAX_ADDRESS, MAX_ADDRESSES, MAX_DIALS, ToDaemon, ToWorker};

/// Most peers that may wait for the client to tell this session its secret.
const MAX_KNOCKING: usize = 64;

/// Joins the group of sessions that know `secret`.
///
/// # Errors
/// It does already, or no thread can be had.
pub fn open(peers: &Arc<Peers>, secret: [u8; 32]) -> Result<(), End> {
    let mut state = lock(&peers.state);
    if state.secret.replace(secret).is_some() {
        return Err(End::refused("a second secret for its peers"));
    }
    let early = state.dialer.early();
    drop(state);
    for pending in early {
        admit(peers, pending);
    }
    let peers = peers.clone();
    let spawned = std::thread::Builder::new().name("peers".into()).spawn(move || peers.look_after());
    spawned.map(drop).map_err(End::Broken)
}

/// Connects to another session.
///
/// # Errors
/// The session has no peers, or too many.
pub fn connect(peers: &Arc<Peers>, id: SessionId, addresses: Vec<String>) -> Result<(), End> {
    // The client may pass on an address that another server reports of itself, so a bad address is not the client's
    // fault and is skipped.
    let fits = |address: &String| address.len() <= MAX_ADDRESS;
    let addresses = addresses.into_iter().filter(fits).take(MAX_ADDRESSES).collect();
    let peer = peers.peer(id)?;
    if peer.is_connected() {
        // Another thread must send this: the client may not be reading, and this is the thread that reads from it.
        peers.services.reporter.client.outgoing.leave(&PeerState { peer: id, connected: true, text: String::new() });
        return Ok(());
    }
    let bulk = bulk_links();
    let begins = peer.with_attempt(|attempt| {
        let begins = attempt.is_none();
        let (made, missing, since) = (Vec::new(), usize::from(bulk), Instant::now());
        attempt.get_or_insert(Attempt { addresses, made, missing, since });
        begins
    });
    if begins {
        peer.await_again();
        peers.services.stir();
        peers.ask_for((1..=bulk).map(|number| (id, number)));
    }
    Ok(())
}

/// Hears what the daemon has to say, as long as it is there.
pub fn listen(peers: &Peers) -> Option<End> {
    // When the daemon ends, so does this process; without it, the session has no new peers.
    while let Ok(Some((message, link, mut files))) = handoff::hear_with::<ToWorker>(peers.daemon.as_fd(), true) {
        match (message, link) {
            (ToWorker::Peer(hello), Some(link)) => admit(peers, PendingPeer { link, hello, since: Instant::now() }),
            (ToWorker::Dialled { ticket, outcome }, link) => {
                let link = link.ok_or_else(|| "the server has no connection".to_owned());
                let outcome = outcome.and_then(|proof| Ok((link?, proof)));
                peers.dialled(ticket, outcome);
            }
            (ToWorker::Fed { ticket, outcome }, _) => {
                let file = files.pop_front().ok_or_else(|| "the server has no file".to_owned());
                peers.feeds.fed(ticket, outcome.and(file));
            }
            (ToWorker::Drivers(facts), _) => drivers::learn(facts),
            (ToWorker::End(reason), _) => return Some(End::Ended(reason)),
            (ToWorker::Serve(..) | ToWorker::Peer(_), _) => return None,
        }
        peers.ask_for(std::iter::empty());
    }
    None
}

impl Peers {
    /// Asks the daemon for connections, as many at a time as it makes.
    pub(super) fn ask_for(&self, wanted: impl Iterator<Item = (SessionId, u8)>) {
        lock(&self.state).dialer.waiting.extend(wanted);
        loop {
            let mut state = lock(&self.state);
            if state.dialer.asked.len() >= MAX_DIALS {
                return;
            }
            let (Some((id, number)), Some(secret)) = (state.dialer.waiting.pop_front(), state.secret) else { return };
            state.dialer.last_ticket += 1;
            let ticket = state.dialer.last_ticket;
            state.dialer.asked.insert(ticket, (id, number));
            let peer = state.peers.get(&id).cloned();
            drop(state);
            let broken = peer.as_ref().and_then(|peer| peer.to_resume());
            let addresses = peer.and_then(|peer| {
                let first = peer.with_attempt(|attempt| attempt.as_ref().map(|attempt| attempt.addresses.clone()));
                let again = |again: &mut Again| again.asked.contains(&number).then(|| again.addresses.clone());
                first.or_else(|| peer.with_again(again))
            });
            let Some(addresses) = addresses else {
                lock(&self.state).dialer.asked.remove(&ticket);
                continue;
            };
            let from = self.services.own;
            let broken = broken.filter(|_| number == CONTROL);
            let (stream, resumes) = (broken.unwrap_or(ticket), broken.is_some());
            let seed = Identity::of_group(&secret).map(|identity| *identity.seed()).unwrap_or_default();
            let proof = peer_proof(&secret, from, id, number);
            let purpose = Purpose::Peer { session: id, from, link: number, stream, resumes, proof };
            let shares_memory = self.shares_memory;
            let message = ToDaemon::Dial { ticket, addresses, seed, purpose, shares_memory };
            if let Err(error) = handoff::say(self.daemon.as_fd(), &message, None, true) {
                self.dialled(ticket, Err(format!("the server does not connect it: {error}")));
            }
        }
    }

    /// Takes the outcome of a connection that the daemon was asked for.
    fn dialled(&self, ticket: u64, outcome: Result<(Link, [u8; 32]), String>) {
        let mut state = lock(&self.state);
        let Some((id, number)) = state.dialer.asked.remove(&ticket) else { return };
        let (peer, secret) = (state.peers.get(&id).cloned(), state.secret);
        drop(state);
        let (Some(peer), Some(secret)) = (peer, secret) else { return };
        let outcome = outcome.and_then(|(link, proof)| {
            let expected = peer_proof(&secret, id, self.services.own, number);
            if !proofs_equal(&proof, &expected) {
                return Err("it does not know the secret".to_owned());
            }
            link.take_up_memory().map_err(|error| error.to_string())
        });
        if peer.with_again(|again| again.was_asked(number)) {
            return self.made_again(&peer, number, ticket, outcome);
        }
        let next = peer.with_attempt(|place| {
            let attempt = place.as_mut()?;
            let link = match outcome {
                Ok(link) => link,
                Err(why) => {
                    *place = None;
                    return Some(Err(why));
                }
            };
            attempt.made.push((number, ticket, link));
            attempt.missing = attempt.missing.saturating_sub(1);
            if attempt.missing > 0 {
                return None;
            }
            if number != CONTROL {
                // The control connection is made last: once it is there, all connections are.
                attempt.missing = 1;
                return Some(Ok(None));
            }
            place.take().map(|attempt| Ok(Some((attempt.addresses, attempt.made))))
        });
        match next {
            None => {}
            Some(Ok(None)) => lock(&self.state).dialer.waiting.push_back((id, CONTROL)),
            Some(Ok(Some((addresses, made)))) => {
                peer.with_again(|again| again.addresses = addresses);
                for (number, name, link) in made {
                    peer.add(&self.services, number, Stream { name, ours: true }, link);
                }
                self.services.tell_client(PeerState { peer: id, connected: true, text: String::new() });
            }
            Some(Err(why)) => give_up(&self.services, &peer, &why),
        }
    }
}

impl Peers {
    /// Takes the outcome of a connection that was to be made again.
    fn made_again(&self, peer: &Arc<Peer>, number: u8, name: u64, outcome: Result<Link, String>) {
        let own = self.services.own.0;
        let log = |what: &str| {
            let line = format!("session {own:016x}: connection {number} to peer {:016x} {what}", peer.id.0);
            self.services.log.line(&line);
        };
        match outcome {
            Ok(link) => {
                peer.with_again(|again| again.failures = 0);
                if !peer.is_connected() {
                    return;
                }
                log("is made again");
                match peer.to_resume() {
                    Some(name) if number == CONTROL => {
                        peer.resume(&self.services, Stream { name, ours: true }, link);
                    }
                    _ if number == CONTROL => {}
                    _ => peer.add(&self.services, number, Stream { name, ours: true }, link),
                }
            }
            Err(why) => {
                log(&format!("cannot be made again: {why}"));
                let is_over = peer.with_again(|again| {
                    again.failures += 1;
                    again.wanted.push(number);
                    again.has_failed()
                });
                if is_over && number == CONTROL {
                    peer.lose(&self.services, None, &format!("the connection to it broke, and then: {why}"));
                }
                self.services.stir();
            }
        }
    }
}

fn give_up(services: &Arc<Services>, peer: &Peer, why: &str) {
    if peer.is_connected() {
        // The peer has connected from its side meanwhile.
        return services.tell_client(PeerState { peer: peer.id, connected: true, text: String::new() });
    }
    peer.lose(services, None, why);
}

/// Lets a peer in, if it proves that it is one.
fn admit(peers: &Peers, pending: PendingPeer) {
    let Purpose::Peer { session, from, link: number, stream: name, resumes, proof } = pending.hello.purpose else {
        return;
    };
    let stream = Stream { name, ours: false };
    let mut state = lock(&peers.state);
    let Some(secret) = state.secret else {
        if state.dialer.pending_peers.len() >= MAX_KNOCKING {
            state.dialer.pending_peers.pop_front();
        }
        state.dialer.pending_peers.push_back(pending);
        return;
    };
    drop(state);
    let refuse = |why: &str| {
        peers.services.log.line(&format!(
            "session {:016x}: turned away {}, which says to be peer {:016x}: {why}",
            peers.services.own.0,
            pending.link.peer(),
            from.0
        ));
        let refusal = encode_opening(Opening::Refusal, &Refusal { text: why.to_owned() });
        let _ = pending.link.send_all(&mut [IoSlice::new(&refusal)]);
    };
    let expected = peer_proof(&secret, from, peers.services.own, number);
    if !proofs_equal(&proof, &expected) || session != peers.services.own || from == peers.services.own {
        return refuse("it does not know the secret");
    }
    let peer = match peers.peer(from) {
        Ok(peer) => peer,
        Err(end) => return refuse(&end.to_string()),
    };
    if resumes && (number != CONTROL || !peer.may_resume(stream)) {
        return refuse("it has given up that connection");
    }
    // Once the answer is sent, the client may announce what is expected of it, before the connection is taken into use
    // here.
    peer.await_again();
    let joined = Joined { proof: peer_proof(&secret, peers.services.own, from, number) };
    let joined = encode_opening(Opening::Joined, &joined);
    match pending.link.answer_hello(&joined, Room::ForPeers) {
        Ok(link) if resumes => peer.resume(&peers.services, stream, link),
        Ok(link) => peer.add(&peers.services, number, stream, link),
        Err(_) => {}
    }
}

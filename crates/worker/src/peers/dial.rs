//! How sessions come to be connected: proofs, and what the daemon does for this worker.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ropeway_protocol::handshake::{Hello, Joined, Opening, Purpose, Refusal, encode_opening, peer_proof, proofs_equal};
use ropeway_protocol::ids::SessionId;
use ropeway_protocol::messages::PeerState;
use ropeway_transport::{Link, Sender};
use rustc_hash::FxHashMap;

use super::links::{CONTROL, bulk_links};
use super::{Peer, Peers};
use crate::base::error::End;
use crate::base::lock::lock;
use crate::common::Common;
use crate::handoff::{self, MAX_ADDRESS, MAX_ADDRESSES, MAX_DIALS, ToDaemon, ToWorker};

/// Most peers that may wait for the client to tell this session its secret.
const MAX_KNOCKING: usize = 64;

/// How long they may.
const KNOCKING: Duration = Duration::from_secs(10);

/// How long an attempt to connect may take in all: several addresses that do not answer, or a name that is looked up for long.
const DIALLING: Duration = Duration::from_secs(30);

/// A connection of what says to be a peer.
pub struct Knock {
    link: Link,
    hello: Hello,
    since: Instant,
}

/// What goes on between this worker and its daemon.
#[derive(Default)]
pub struct Desk {
    /// Those that came before the secret.
    knocking: VecDeque<Knock>,
    /// Connections that the daemon is asked for: whose, and which.
    asked: FxHashMap<u64, (SessionId, u8)>,
    /// Those that it will be asked for.
    waiting: VecDeque<(SessionId, u8)>,
    last_ticket: u64,
}

impl Desk {
    /// Those that came before the secret, and not too long ago.
    pub fn early(&mut self) -> impl Iterator<Item = Knock> + use<> {
        std::mem::take(&mut self.knocking).into_iter().filter(|knock| knock.since.elapsed() < KNOCKING)
    }
}

/// An attempt to connect to a peer.
pub struct Attempt {
    addresses: Vec<String>,
    /// Connections that are there already.
    made: Vec<(u8, Link)>,
    /// How many are on their way.
    missing: usize,
    since: Instant,
}

impl Attempt {
    /// When it has come to nothing, whatever the daemon does.
    pub fn deadline(&self) -> Instant {
        self.since + DIALLING
    }
}

/// Connects to another session.
///
/// # Errors
/// The session has no peers, or too many.
pub fn connect(common: &Arc<Common>, id: SessionId, addresses: Vec<String>) -> Result<(), End> {
    // One of them may be what another server says of itself, so that it is no fault of the client's if it is none.
    let fits = |address: &String| address.len() <= MAX_ADDRESS;
    let addresses = addresses.into_iter().filter(fits).take(MAX_ADDRESSES).collect();
    let peer = common.peers.peer(id)?;
    if peer.is_connected() {
        // Not from here: the client may not be reading, and this is who reads it.
        common.outgoing.leave(&PeerState { peer: id, connected: true, text: String::new() });
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
        common.peers.stir();
        common.peers.ask_for(common, (1..=bulk).map(|number| (id, number)));
    }
    Ok(())
}

impl Peers {
    /// Asks the daemon for connections, as many at a time as it makes.
    fn ask_for(&self, common: &Arc<Common>, wanted: impl Iterator<Item = (SessionId, u8)>) {
        lock(&self.state).desk.waiting.extend(wanted);
        loop {
            let mut state = lock(&self.state);
            if state.desk.asked.len() >= MAX_DIALS {
                return;
            }
            let (Some((id, number)), Some(secret)) = (state.desk.waiting.pop_front(), state.secret) else { return };
            state.desk.last_ticket += 1;
            let ticket = state.desk.last_ticket;
            state.desk.asked.insert(ticket, (id, number));
            let peer = state.peers.get(&id).cloned();
            drop(state);
            let addresses =
                peer.and_then(|peer| peer.with_attempt(|attempt| Some(attempt.as_ref()?.addresses.clone())));
            let Some(addresses) = addresses else {
                lock(&self.state).desk.asked.remove(&ticket);
                continue;
            };
            let proof = peer_proof(&secret, self.own, id, number);
            let purpose = Purpose::Peer { session: id, from: self.own, link: number, proof };
            let message = ToDaemon::Dial { ticket, addresses, purpose };
            if let Err(error) = handoff::say(self.daemon.as_fd(), &message, None, true) {
                self.dialled(common, ticket, Err(format!("the server does not connect it: {error}")));
            }
        }
    }

    /// Hears what the daemon has to say, as long as it is there.
    pub fn listen(&self, common: &Arc<Common>) {
        // When the daemon ends, so does this process; without it, the session has no new peers.
        while let Ok(Some((message, socket))) = handoff::hear::<ToWorker>(self.daemon.as_fd(), true) {
            let link = |socket: OwnedFd| Link::from_fd(socket).map_err(|error| error.to_string());
            match (message, socket) {
                (ToWorker::Peer(hello), Some(socket)) => {
                    if let Ok(link) = link(socket) {
                        admit(common, Knock { link, hello, since: Instant::now() });
                    }
                }
                (ToWorker::Dialled { ticket, outcome }, socket) => {
                    let socket = socket.ok_or_else(|| "the server has no connection".to_owned());
                    let outcome = outcome.and_then(|proof| Ok((link(socket?)?, proof)));
                    self.dialled(common, ticket, outcome);
                }
                (ToWorker::Serve(_) | ToWorker::Peer(_), _) => return,
            }
            self.ask_for(common, std::iter::empty());
        }
    }

    /// Takes what came of a connection that the daemon was asked for.
    fn dialled(&self, common: &Arc<Common>, ticket: u64, outcome: Result<(Link, [u8; 32]), String>) {
        let mut state = lock(&self.state);
        let Some((id, number)) = state.desk.asked.remove(&ticket) else { return };
        let (peer, secret) = (state.peers.get(&id).cloned(), state.secret);
        drop(state);
        let (Some(peer), Some(secret)) = (peer, secret) else { return };
        let outcome = outcome.and_then(|(link, proof)| {
            let expected = peer_proof(&secret, id, self.own, number);
            if proofs_equal(&proof, &expected) { Ok(link) } else { Err("it does not know the secret".to_owned()) }
        });
        let next = peer.with_attempt(|place| {
            let attempt = place.as_mut()?;
            let link = match outcome {
                Ok(link) => link,
                Err(why) => {
                    *place = None;
                    return Some(Err(why));
                }
            };
            attempt.made.push((number, link));
            attempt.missing = attempt.missing.saturating_sub(1);
            if attempt.missing > 0 {
                return None;
            }
            if number != CONTROL {
                // It comes last: who has it has all.
                attempt.missing = 1;
                return Some(Ok(None));
            }
            place.take().map(|attempt| Ok(Some(attempt.made)))
        });
        match next {
            None => {}
            Some(Ok(None)) => lock(&self.state).desk.waiting.push_back((id, CONTROL)),
            Some(Ok(Some(made))) => {
                for (number, link) in made {
                    peer.add(common, number, link);
                }
                self.tell_client(common, PeerState { peer: id, connected: true, text: String::new() });
            }
            Some(Err(why)) => give_up(common, &peer, &why),
        }
    }
}

fn give_up(common: &Arc<Common>, peer: &Peer, why: &str) {
    if peer.is_connected() {
        // From the other side.
        return common.peers.tell_client(common, PeerState { peer: peer.id, connected: true, text: String::new() });
    }
    peer.lose(common, None, why);
}

/// Lets a peer in, if it proves that it is one.
pub fn admit(common: &Arc<Common>, knock: Knock) {
    let Purpose::Peer { session, from, link: number, proof } = knock.hello.purpose else { return };
    let peers = &common.peers;
    let mut state = lock(&peers.state);
    let Some(secret) = state.secret else {
        if state.desk.knocking.len() >= MAX_KNOCKING {
            state.desk.knocking.pop_front();
        }
        state.desk.knocking.push_back(knock);
        return;
    };
    drop(state);
    let refuse = |why: &str| {
        common.log.line(&format!(
            "session {:016x}: turned away {}, which says to be peer {:016x}: {why}",
            peers.own.0,
            knock.link.peer(),
            from.0
        ));
        let refusal = encode_opening(Opening::Refusal, &Refusal { text: why.to_owned() });
        let _ = knock.link.send_all(&mut [IoSlice::new(&refusal)]);
    };
    let expected = peer_proof(&secret, from, peers.own, number);
    if !proofs_equal(&proof, &expected) || session != peers.own || from == peers.own {
        return refuse("it does not know the secret");
    }
    let peer = match peers.peer(from) {
        Ok(peer) => peer,
        Err(end) => return refuse(&end.to_string()),
    };
    let joined = Joined { proof: peer_proof(&secret, peers.own, from, number) };
    let joined = encode_opening(Opening::Joined, &joined);
    if knock.link.send_all(&mut [IoSlice::new(&joined)]).is_ok() {
        peer.add(common, number, knock.link);
    }
}

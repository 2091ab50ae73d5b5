//! Which servers reach each other, so that memory and events can go directly from one to the other.
//!
//! Two sessions of this process are introduced to each other when something first has to go from one to the other: both
//! get the process's secret, and one of them is told to connect. Where neither can connect, the client relays.

use std::io::Read as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use ropeway_protocol::ids::SessionId;
use ropeway_protocol::messages::{ConnectPeer, OpenPeers, WaitForEvents};
use ropeway_protocol::types::EventList;
use ropeway_transport::tls::{Identity, PublicKey};
use ropeway_transport::{Endpoint, Pass};

use super::connection::Connection;
use super::sessions::State;
use crate::base::status::Result;
use crate::base::sync::lock;

/// The route from one session to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// The servers send it to each other.
    Direct,
    /// The client takes it and passes it on.
    Relay,
}

/// Time within which a server says whether it reaches another, whatever the other does.
const ANSWER: Duration = Duration::from_secs(30);

/// How often two servers have lost each other.
static PARTINGS: AtomicUsize = AtomicUsize::new(0);

/// Returns how often two servers of this process have lost each other: when the number changes, routes found earlier
/// may no longer be valid.
pub(crate) fn partings() -> usize {
    PARTINGS.load(Ordering::SeqCst)
}

/// The secret by which sessions of this process recognise each other. `None` where the system has no random numbers.
fn secret() -> Option<[u8; 32]> {
    static SECRET: OnceLock<Option<[u8; 32]>> = OnceLock::new();
    *SECRET.get_or_init(|| {
        let mut secret = [0; 32];
        let read = std::fs::File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut secret));
        read.inspect_err(|error| crate::error!("no random numbers from /dev/urandom: {error}")).ok()?;
        Some(secret)
    })
}

/// The key that the servers of this process show each other: who knows the secret has it.
pub(super) fn group_key() -> Option<PublicKey> {
    static KEY: OnceLock<Option<PublicKey>> = OnceLock::new();
    *KEY.get_or_init(|| Some(Identity::of_group(&secret()?)?.public()))
}

/// Whether servers may connect to each other at all: `ROPEWAY_PEERS=off` has everything go through the client.
fn is_wanted() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    *WANTED.get_or_init(|| std::env::var_os("ROPEWAY_PEERS").is_none_or(|value| value != "off"))
}

/// Orders two sessions so that the first connects to the second: first comes the one that may be harder to reach, on a
/// server that serves this machine alone, or is reached over vsock; otherwise the order is always the same.
fn caller_first<'a>(one: &'a Connection, other: &'a Connection) -> (&'a Connection, &'a Connection) {
    let is_far = |endpoint: &Endpoint| !endpoint.is_local() && !matches!(endpoint, Endpoint::Vsock(_));
    let key = |connection: &Connection| (is_far(connection.endpoint()), connection.session());
    if key(one) < key(other) { (one, other) } else { (other, one) }
}

/// Returns the route from one session to another, if it is known. Does not wait.
pub(crate) fn known_way(from: &Arc<Connection>, to: &Arc<Connection>) -> Option<Way> {
    // A server needs no connection to itself.
    if Arc::ptr_eq(from, to) {
        return Some(if from.give_secret().is_ok_and(|given| given) { Way::Direct } else { Way::Relay });
    }
    if !is_wanted() {
        return Some(Way::Relay);
    }
    let (first, second) = caller_first(from, to);
    if were_parted(first, second) {
        // Until the loss has been reported, one of them may be gone without the client knowing.
        let was_said = lock(&first.sessions.0).said.contains(&second.session());
        return was_said.then(|| if first.is_there() && second.is_there() { Way::Relay } else { Way::Direct });
    }
    if first.reaches(second) || second.reaches(first) {
        return Some(Way::Direct);
    }
    (first.has_no_way_to(second) && second.has_no_way_to(first)).then_some(Way::Relay)
}

/// Returns the route from one session to another. Waits for the two to connect on the first call, and for an answer
/// from both when they have lost each other: the caller must hold no lock that other threads need.
pub(crate) fn way(from: &Arc<Connection>, to: &Arc<Connection>) -> Way {
    if let Some(way) = known_way(from, to) {
        return way;
    }
    let (first, second) = caller_first(from, to);
    if were_parted(first, second) {
        // They may have parted because one of them is gone, which is not known here yet: then there is no route at all.
        if !first.answers() || !second.answers() {
            return Way::Direct;
        }
    } else if first.connects_to(second) || second.connects_to(first) {
        return Way::Direct;
    }
    if lock(&first.sessions.0).said.insert(second.session()) {
        let why = first.sessions.why_not(second.session());
        let why = why.or_else(|| second.sessions.why_not(first.session())).unwrap_or_default();
        let (one, other) = (first.configured(), second.configured());
        if were_parted(first, second) {
            crate::warning!(
                "the connection between {one} and {other} is lost ({why}): from now on what goes from one to the other goes through this machine"
            );
        } else {
            crate::warning!(
                "{one} and {other} do not reach each other ({why}): what goes from one to the other goes through this machine; see --peer-address"
            );
        }
    }
    Way::Relay
}

/// Whether two sessions are known not to reach each other; does not try to find out. Where no session may reach
/// another, this is false.
pub(crate) fn are_apart(one: &Connection, other: &Connection) -> bool {
    were_parted(one, other) || (one.has_no_way_to(other) && other.has_no_way_to(one))
}

/// Whether one of two sessions has lost the other, which may not have noticed and may go on sending into the void.
fn were_parted(one: &Connection, other: &Connection) -> bool {
    one.was_parted_from(other) || other.was_parted_from(one)
}

impl Connection {
    /// Returns the session's name, by which its peers know it.
    pub(crate) fn session(&self) -> SessionId {
        self.welcome().session
    }

    /// Sends the session the secret of the process's group. Returns `false` if there is no secret.
    pub(crate) fn give_secret(&self) -> Result<bool> {
        let Some(secret) = secret() else { return Ok(false) };
        let mut known = lock(&self.sessions.0);
        if !known.has_secret {
            self.post(&OpenPeers { secret })?;
            known.has_secret = true;
        }
        Ok(true)
    }

    /// Whether the session is known to be connected to another.
    fn reaches(&self, peer: &Connection) -> bool {
        matches!(lock(&self.sessions.0).peers.get(&peer.session()), Some(State::Connected))
    }

    /// Whether the session is connected to another, or could be made to.
    fn connects_to(&self, peer: &Connection) -> bool {
        let session = peer.session();
        if self.ask_to_connect(peer).is_err() {
            return false;
        }
        let given_up = Instant::now() + ANSWER;
        let state = self.wait(|| {
            let state = lock(&self.sessions.0).peers.get(&session).cloned();
            state.filter(|state| *state != State::Asked || Instant::now() > given_up)
        });
        state == Ok(State::Connected)
    }

    /// Whether the session has tried in vain to connect to another.
    fn has_no_way_to(&self, peer: &Connection) -> bool {
        matches!(lock(&self.sessions.0).peers.get(&peer.session()), Some(State::Unreachable(_)))
    }

    /// Whether the server answers.
    fn answers(&self) -> bool {
        // Any answer will do.
        let _ = self.call(&WaitForEvents { events: EventList::default() });
        self.is_there()
    }

    /// Whether the server is there as far as is known.
    fn is_there(&self) -> bool {
        self.drain();
        !self.is_lost()
    }

    /// Whether the session was connected to another and has lost it.
    fn was_parted_from(&self, peer: &Connection) -> bool {
        matches!(lock(&self.sessions.0).peers.get(&peer.session()), Some(State::Parted(_)))
    }

    /// Has the session connect to another, once.
    fn ask_to_connect(&self, peer: &Connection) -> Result<()> {
        if lock(&self.sessions.0).peers.contains_key(&peer.session()) {
            return Ok(());
        }
        if !self.give_secret()? || !peer.give_secret()? {
            return Err(crate::SERVER_LOST);
        }
        // The peer must know the secret when the other session connects.
        peer.flush()?;
        let addresses = peer.addresses_from(self);
        let mut known = lock(&self.sessions.0);
        if known.peers.contains_key(&peer.session()) {
            // Another thread was faster.
            return Ok(());
        }
        if addresses.is_empty() {
            let why = format!("{} has no address there", peer.configured());
            known.peers.insert(peer.session(), State::Unreachable(why));
            return Ok(());
        }
        known.peers.insert(peer.session(), State::Asked);
        self.post(&ConnectPeer { peer: peer.session(), addresses })
    }

    /// The addresses of this server for the server of another session, which may be on another machine.
    fn addresses_from(&self, other: &Self) -> Vec<String> {
        // An encrypted server is dialled with the key by which this client knows it; one that has shown a certificate
        // has said its key behind it.
        let key = match self.endpoint().pass() {
            Some(Pass::Certified(_)) => self.welcome().peer_key.map(PublicKey::new),
            pass => pass.and_then(Pass::server),
        };
        let with_key = |address: &String| match key {
            Some(key) if address.starts_with("tls://") => format!("{address}/#{}", key.text()),
            _ => address.clone(),
        };
        // The way by ssh or vsock begins at this machine, and on the machine where another such way ends, this machine's
        // own addresses mean something else.
        let is_led = |connection: &Self| matches!(connection.configured(), Endpoint::Ssh(_) | Endpoint::Vsock(_));
        let is_here = is_led(self) || is_led(other) && self.endpoint().is_local();
        let own = (!is_here).then(|| self.endpoint().to_string());
        self.welcome().peer_address.iter().chain(&own).map(with_key).collect()
    }

    /// Takes in the server's message about whether a peer is connected.
    pub(crate) fn peer_state(&self, peer: SessionId, connected: bool, text: String) {
        if connected && !text.is_empty() {
            crate::warning!("{}: {text}", self.endpoint());
        }
        let peers = &mut lock(&self.sessions.0).peers;
        let state = match peers.get(&peer) {
            _ if connected => State::Connected,
            Some(State::Asked) => State::Unreachable(text),
            // The peer may have connected to this session.
            _ => State::Parted(text),
        };
        if matches!(state, State::Parted(_)) {
            PARTINGS.fetch_add(1, Ordering::SeqCst);
        }
        peers.insert(peer, state);
    }
}

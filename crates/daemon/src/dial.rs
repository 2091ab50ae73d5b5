//! Connections to other servers, made for workers.
//!
//! A worker runs its client's kernels, and so must not reach the network. It says where its peer is and what it has to
//! prove there; this module connects and sends the hello, in a thread of its own and in bounded time. The worker gets
//! the socket only if the other end has answered as a peer does.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ropeway_protocol::handshake::{
    Hello, Opening, PREAMBLE_LEN, Preamble, Purpose, decode_joined, decode_nearby, encode_opening, features,
};
use ropeway_protocol::limits;
use ropeway_transport::tls::Identity;
use ropeway_transport::{Endpoint, Link, Room, Sender};
use ropeway_worker::handoff::{self, MAX_ADDRESS, MAX_ADDRESSES, MAX_DIALS, ToWorker};
use tracing::{debug, warn};

/// Time limit for connecting to one address. The answer may take as long as in any handshake.
const CONNECT: Duration = Duration::from_secs(2);

/// A connection that a worker wants.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Dial {
    /// The worker's name for the request.
    pub(crate) ticket: u64,
    /// URLs, in order of preference.
    pub(crate) addresses: Vec<String>,
    /// Who to be where connections are encrypted.
    pub(crate) identity: Option<Identity>,
    /// The purpose of the connection.
    pub(crate) purpose: Purpose,
    /// Whether it may go through memory that both ends share.
    pub(crate) shares_memory: bool,
}

impl Dial {
    /// Makes the connection, and tells the worker `pid` the outcome.
    pub(crate) fn start(self, pid: u32, control: Arc<OwnedFd>, under_way: &Arc<AtomicUsize>) {
        let ticket = self.ticket;
        let refuse = |control: &OwnedFd, why: &str| tell(pid, control, ticket, Err(why.to_owned()), None);
        let sane = self.addresses.len() <= MAX_ADDRESSES && self.addresses.iter().all(|text| text.len() <= MAX_ADDRESS);
        if !sane || !matches!(self.purpose, Purpose::Peer { .. }) {
            return refuse(&control, "that is no peer's address");
        }
        if under_way.fetch_add(1, Ordering::Relaxed) >= MAX_DIALS {
            under_way.fetch_sub(1, Ordering::Relaxed);
            return refuse(&control, "too many connections are being made at once");
        }
        let (counted, for_thread) = (under_way.clone(), control.clone());
        let spawned = thread::Builder::new().name("dial".into()).spawn(move || {
            let (link, outcome) = match self.connect() {
                Ok((link, proof)) => (Some(link), Ok(proof)),
                Err(why) => (None, Err(why)),
            };
            debug!(worker = pid, addresses = ?self.addresses, ok = outcome.is_ok(), "connection to a peer");
            counted.fetch_sub(1, Ordering::Relaxed);
            tell(pid, &for_thread, ticket, outcome, link.as_ref());
        });
        if let Err(error) = spawned {
            under_way.fetch_sub(1, Ordering::Relaxed);
            refuse(&control, &format!("no thread can be started: {error}"));
        }
    }

    /// Connects to the first address where a peer answers, and returns the link and the peer's proof.
    fn connect(&self) -> Result<(Link, [u8; 32]), String> {
        let mut failures = Vec::new();
        for address in &self.addresses {
            match self.connect_to(address) {
                Ok(connected) => return Ok(connected),
                Err(why) => failures.push(format!("{address}: {why}")),
            }
        }
        Err(if failures.is_empty() { "it has no address".to_owned() } else { failures.join("; ") })
    }

    fn connect_to(&self, address: &str) -> Result<(Link, [u8; 32]), String> {
        let endpoint: Endpoint = address.parse().map_err(|error| format!("{error}"))?;
        let link = match &self.identity {
            Some(identity) => Link::connect_as(&endpoint, identity, CONNECT),
            None => Link::connect(&endpoint, CONNECT),
        };
        let mut link = link.map_err(|error| plain(&error))?;
        let proof = self.join(&mut link)?;
        Ok((link, proof))
    }

    fn join(&self, link: &mut Link) -> Result<[u8; 32], String> {
        let hello = Hello {
            features: if self.shares_memory && link.may_be_nearby() { features::TAKES_NEARBY } else { 0 },
            purpose: self.purpose,
            release: env!("CARGO_PKG_VERSION").to_owned(),
            program: "ropeway".to_owned(),
            pid: std::process::id(),
            credential: Vec::new(),
            devices: Vec::new(),
        };
        let hello = encode_opening(Opening::Hello, &hello);
        let said = match self.shares_memory {
            true => link.offer_memory(&hello, Room::ForPeers),
            false => link.send_all(&mut [io::IoSlice::new(&hello)]),
        };
        said.map_err(|error| plain(&error))?;
        let deadline = Instant::now() + Duration::from_secs(limits::HANDSHAKE_SECONDS);
        let (mut preamble, mut body) = hear(link, deadline)?;
        if preamble.opening == Opening::Nearby {
            let nearby = decode_nearby(preamble, &body).map_err(|error| error.to_string())?;
            link.hand_in_memory(&nearby.name, &nearby.token, Room::ForPeers).map_err(|error| plain(&error))?;
            (preamble, body) = hear(link, deadline)?;
        }
        decode_joined(preamble, &body).map(|joined| joined.proof).map_err(|error| error.to_string())
    }
}

/// Reads an answer.
fn hear(link: &Link, deadline: Instant) -> Result<(Preamble, Vec<u8>), String> {
    let mut head = [0; PREAMBLE_LEN];
    link.recv_exact_by(&mut head, deadline).map_err(|error| plain(&error))?;
    let preamble = Preamble::from_bytes(&head).map_err(|error| error.to_string())?;
    if preamble.len as usize > limits::MAX_HELLO {
        return Err("it answered with a long text".to_owned());
    }
    let mut body = vec![0; preamble.len as usize];
    link.recv_exact_by(&mut body, deadline).map_err(|error| plain(&error))?;
    Ok((preamble, body))
}

fn plain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it does not answer in time".to_owned(),
        io::ErrorKind::UnexpectedEof => "it closed the connection".to_owned(),
        _ => error.to_string(),
    }
}

/// Tells a worker the outcome of a dial. A worker that does not listen is about to end, or broken.
fn tell(pid: u32, control: &OwnedFd, ticket: u64, outcome: Result<[u8; 32], String>, link: Option<&Link>) {
    // An error text with many addresses is cut to what a message holds.
    let outcome = outcome.map_err(|why| why.chars().take(1000).collect());
    let message = ToWorker::Dialled { ticket, outcome };
    if let Err(error) = handoff::say(control.as_fd(), &message, link, false) {
        warn!(worker = pid, %error, "a worker does not hear of its peers");
    }
}

//! Making a connection: connect, hello, welcome.

use std::fmt;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::time::{Duration, Instant};

use ropeway_protocol::handshake::{
    HandshakeError, Hello, Opening, PREAMBLE_LEN, Preamble, Purpose, Welcome, decode_welcome, encode_opening, features,
};
use ropeway_transport::{Endpoint, Link, Sender};

use super::connection::{Connection, SILENCE};
use super::{background, completions, inbox, outbox, transfers};
use crate::base::stats::{STATS, count};

/// Why there is no connection to a server.
#[derive(Debug)]
pub enum OpenError {
    /// Nothing answers there, or not in time.
    Link(io::Error),
    /// What answers will not or cannot serve.
    Handshake(HandshakeError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(error) if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) => {
                f.write_str("it does not answer in time")
            }
            Self::Link(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                f.write_str("what answers there closed the connection without a word")
            }
            Self::Link(error) => error.fmt(f),
            Self::Handshake(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::Link(error)
    }
}

impl From<HandshakeError> for OpenError {
    fn from(error: HandshakeError) -> Self {
        Self::Handshake(error)
    }
}

impl Connection {
    /// Connects to the server at `endpoint` and begins a session, within `timeout` in all.
    ///
    /// # Errors
    /// [`OpenError`], to be shown to a person behind the server's address.
    pub fn open(endpoint: &Endpoint, timeout: Duration) -> Result<Arc<Self>, OpenError> {
        Self::open_as(endpoint, None, timeout)
    }

    /// The same where the configuration has another `name` for the server.
    ///
    /// # Errors
    /// [`OpenError`], to be shown to a person behind that name.
    pub fn open_as(endpoint: &Endpoint, name: Option<&Endpoint>, timeout: Duration) -> Result<Arc<Self>, OpenError> {
        let deadline = Instant::now() + timeout;
        let link = Link::connect(endpoint, timeout)?;
        let welcome = shake_hands(&link, deadline)?;
        // One for the connection itself, one for hello and welcome.
        count(&STATS.round_trips, 2);
        link.set_patience(SILENCE)?;
        let connection = Arc::new(Self {
            link,
            endpoint: endpoint.clone(),
            name: name.cloned(),
            welcome,
            outbox: outbox::Outbox::default(),
            inbox: inbox::Inbox::default(),
            helper: background::Helper::new()?,
            calls: Default::default(),
            events: completions::Events::default(),
            transfers: transfers::Transfers::default(),
            queues: Default::default(),
            early: Default::default(),
            early_count: AtomicUsize::new(0),
            contexts: Default::default(),
            next_call: AtomicU32::new(1),
            unset_user_events: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            looks: AtomicU32::new(0),
            asked_at: Default::default(),
            lost: AtomicBool::new(false),
            peers: Default::default(),
            carrier: Default::default(),
            rounds: Default::default(),
            closed: AtomicBool::new(false),
            on_loss: Default::default(),
        });
        background::start(&connection)?;
        connection.join_rounds();
        Ok(connection)
    }
}

fn shake_hands(link: &Link, deadline: Instant) -> Result<Welcome, OpenError> {
    let program = std::env::current_exe().ok();
    let program = program.as_deref().and_then(|p| p.file_name()).unwrap_or_default();
    let hello = Hello {
        features: features::SUPPORTED,
        purpose: Purpose::Commands,
        release: env!("CARGO_PKG_VERSION").to_owned(),
        program: program.to_string_lossy().chars().take(200).collect(),
        pid: std::process::id(),
        credential: Vec::new(),
    };
    let bytes = encode_opening(Opening::Hello, &hello);
    link.send_all(&mut [IoSlice::new(&bytes)])?;
    count(&STATS.messages_sent, 1);
    count(&STATS.batches, 1);
    count(&STATS.bytes_sent, bytes.len());

    let mut preamble = [0; PREAMBLE_LEN];
    receive_until(link, &mut preamble, deadline)?;
    let preamble = Preamble::from_bytes(&preamble)?;
    let mut body = vec![0; preamble.len as usize];
    receive_until(link, &mut body, deadline)?;
    count(&STATS.messages_received, 1);
    count(&STATS.bytes_received, PREAMBLE_LEN + body.len());
    Ok(decode_welcome(preamble, &body)?)
}

/// Fills `into`, however slowly the bytes come, but not beyond `deadline`.
fn receive_until(link: &Link, mut into: &mut [u8], deadline: Instant) -> io::Result<()> {
    while !into.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || !link.wait_readable(Some(left))? {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match link.try_recv(into) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => into = &mut into[n..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

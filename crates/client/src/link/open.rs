//! Making a connection: connect, hello, welcome.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::time::{Duration, Instant};

use ropeway_protocol::handshake::HandshakeError;
use ropeway_transport::{Endpoint, Link};

use super::connection::{Connection, SILENCE};
use super::greet::greet;
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
    /// Connects to the server at `endpoint` and begins a session, within `timeout` in all; a server that answers that the client has to wait is
    /// waited for (see [`greet`]).
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
        let welcome = greet(&link, &name.unwrap_or(endpoint).to_string(), deadline)?;
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

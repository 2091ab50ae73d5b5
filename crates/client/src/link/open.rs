//! Making a connection: connect, hello, welcome.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ropeway_transport::{Endpoint, Link};

use super::channel::Channel;
use super::connection::Connection;
use super::error::OpenError;
use super::greet::greet;
use super::way::{Sockets, Way};
use super::{background, deferred_flush};
use crate::base::stats::{STATS, count};

/// How to connect.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// How long it may take.
    pub timeout: Duration,
    /// Whether to share memory with a server of this machine.
    pub shares_memory: bool,
    /// How many sockets carry the bytes of a link between machines.
    pub sockets: Sockets,
}

impl Connection {
    /// Connects to the server at `endpoint` and begins a session, within `timeout` in all; if the server answers that
    /// the client has to wait, waits (see [`greet`]).
    ///
    /// # Errors
    /// [`OpenError`], to be shown to a person behind the server's address.
    pub fn open(endpoint: &Endpoint, timeout: Duration) -> Result<Arc<Self>, OpenError> {
        Self::open_as(endpoint, None, Manner { timeout, shares_memory: true, sockets: Sockets::default() })
    }

    /// Does the same for a server that has another `name` in the configuration.
    ///
    /// # Errors
    /// [`OpenError`], to be shown to a person behind that name.
    pub fn open_as(endpoint: &Endpoint, name: Option<&Endpoint>, manner: Manner) -> Result<Arc<Self>, OpenError> {
        let Manner { timeout, shares_memory, sockets } = manner;
        let deadline = Instant::now() + timeout;
        let link = Link::connect(endpoint, timeout)?;
        let way = Way { endpoint, shares_memory, sockets };
        let (link, welcome) = greet(link, &way, &name.unwrap_or(endpoint).to_string(), deadline)?;
        // One round trip for the connection itself, one for hello and welcome.
        count(&STATS.round_trips, 2);
        let connection = Arc::new(Self::new(Channel::new(link), endpoint.clone(), name.cloned(), welcome)?);
        background::start(&connection)?;
        deferred_flush::join(&connection);
        Ok(connection)
    }
}

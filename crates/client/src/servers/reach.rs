//! From a server's address to where it can be connected to: what has to be started first, and what has to be kept.

use std::io;
use std::path::Path;
use std::time::Duration;

use ropeway_transport::Endpoint;

use crate::link::error::OpenError;
use crate::servers::local::{self, LocalServer};
use crate::servers::ssh::{self, Tunnel};
use crate::servers::tickets;

/// A server that can be connected to now.
#[derive(Debug)]
pub struct Reached {
    /// Where to connect.
    pub endpoint: Endpoint,
    /// How long it may take to answer.
    pub timeout: Duration,
    /// Kept as long as the connection.
    pub held: Option<Held>,
}

/// What a server lives by that is started when it is needed: it ends, at once or later, when this is dropped.
#[derive(Debug)]
pub enum Held {
    /// The server behind `local:`.
    Local(LocalServer),
    /// The way to a server behind `ssh://`.
    Tunnel(Tunnel),
}

impl Reached {
    /// Explains why no session could be begun at `address`, which led here, and sees that the next program does not
    /// find the same.
    pub fn failed(self, address: &Endpoint, error: OpenError) -> OpenError {
        if let Some(Held::Tunnel(tunnel)) = &self.held {
            tunnel.leave_for_good();
        }
        match error {
            OpenError::Link(error) => OpenError::Link(ssh::explain(address, error)),
            OpenError::Handshake(error) => OpenError::Handshake(error),
        }
    }
}

/// Finds the ticket for `address`, or starts what leads there with the program `ropeway` at `binary`, or where it is
/// found. Connecting may take `timeout` where nothing has to be started.
///
/// # Errors
/// A sentence: why there is no such server.
pub fn reach(address: &Endpoint, timeout: Duration, binary: Option<&Path>) -> io::Result<Reached> {
    match address {
        Endpoint::Local => {
            let server = LocalServer::start(binary)?;
            let (endpoint, timeout) = (server.endpoint().clone(), timeout.max(local::PATIENCE));
            Ok(Reached { endpoint, timeout, held: Some(Held::Local(server)) })
        }
        Endpoint::Ssh(host) => {
            let tunnel = Tunnel::open(host, timeout, binary)?;
            let (endpoint, timeout) = (tunnel.endpoint().clone(), timeout.max(ssh::PATIENCE));
            Ok(Reached { endpoint, timeout, held: Some(Held::Tunnel(tunnel)) })
        }
        Endpoint::Tls { .. } | Endpoint::Tcp { .. } | Endpoint::Ucx { .. } | Endpoint::Unix(_) | Endpoint::Vsock(_) => {
            Ok(Reached { endpoint: tickets::with_ticket(address)?, timeout, held: None })
        }
    }
}

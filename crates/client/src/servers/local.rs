//! `local:` — a server of the program's own on this machine.
//!
//! `ropeway local` starts the server on a Unix socket in a folder that only this user can enter. It ends when the program
//! does.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use ropeway_transport::Endpoint;

use crate::servers::companion::Companion;

/// How long the server may take to listen, and then to warm its worker: it initialises this machine's OpenCL, which the
/// program would otherwise have to do.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A running server; it ends when this is dropped.
#[derive(Debug)]
pub struct LocalServer {
    endpoint: Endpoint,
    _companion: Companion,
}

impl LocalServer {
    /// Starts one with the program `ropeway` at `binary`, or where it is found.
    ///
    /// # Errors
    /// There is no such program, or it does not say in time where it listens.
    pub fn start(binary: Option<&Path>) -> io::Result<Self> {
        // The server's log would mix with the program's output, so it is shown only if somebody wants to see it.
        let log = if std::env::var_os("ROPEWAY_LOG").is_some() { Stdio::inherit() } else { Stdio::null() };
        let started = Companion::start(binary, &["local"], log, ("listening on ", PATIENCE))?;
        let (companion, url) = started.ok_or_else(|| {
            io::Error::other("the program `ropeway` did not start a server; `ropeway local` in a shell says why")
        })?;
        let endpoint = url.parse().map_err(|_| io::Error::other("it listens at no address that can be understood"))?;
        Ok(Self { endpoint, _companion: companion })
    }

    /// Where it listens.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

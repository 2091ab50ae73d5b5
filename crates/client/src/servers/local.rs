//! `local:` — a server of the program's own on this machine.
//!
//! `ropeway local` starts the server on a Unix socket in a folder that only this user can enter. The server is not a
//! child of the program, because the program may wait for its children. It ends when the program does, however that
//! happens: it reads from a pipe whose other end only the program has.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ropeway_transport::Endpoint;
use ropeway_transport::inherited::Kept;
use rustix::pipe::PipeFlags;

use crate::servers::binary;

/// How long the server may take to listen, and then to warm its worker: it initialises this machine's OpenCL, which the
/// program would otherwise have to do.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A running server; it ends when this is dropped.
#[derive(Debug)]
pub struct LocalServer {
    endpoint: Endpoint,
    /// Goes before the descriptor.
    _kept: Kept,
    /// This process's end of the pipe; no other process has it.
    _alive: OwnedFd,
}

impl LocalServer {
    /// Starts one with the program `ropeway` at `binary`, or where it is found.
    ///
    /// # Errors
    /// There is no such program, or it does not say in time where it listens.
    pub fn start(binary: Option<&Path>) -> io::Result<Self> {
        let binary = match binary {
            Some(binary) => binary.to_owned(),
            None => binary::find()?,
        };
        let mut command = Command::new(&binary);
        // The server's log would mix with the program's output, so it is shown only if somebody wants to see it.
        let log = if std::env::var_os("ROPEWAY_LOG").is_some() { Stdio::inherit() } else { Stdio::null() };
        let (far, alive) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let kept = Kept::from_children(&alive);
        command.arg("local").stdin(Stdio::from(far)).stdout(Stdio::piped()).stderr(log);
        let parse =
            |url: &str| url.parse().map_err(|_| io::Error::other("it listens at no address that can be understood"));
        // The child ends as soon as it has started the server, and the server when the pipe does.
        let deadline = Instant::now() + PATIENCE;
        let said = binary::run_until(command, &binary, deadline, |line| line.strip_prefix("listening on ").map(parse))?;
        let endpoint = said.unwrap_or_else(|| {
            Err(io::Error::other("the program `ropeway` did not start a server; `ropeway local` in a shell says why"))
        })?;
        Ok(Self { endpoint, _kept: kept, _alive: alive })
    }

    /// Where it listens.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

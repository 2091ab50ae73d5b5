//! `local:` — a server of the program's own on this machine.
//!
//! `ropeway local` starts the server on a Unix socket in a folder that only this user can enter. The server is not a
//! child of the program, because the program may wait for its children. It ends when the program does, however that
//! happens: it reads from a pipe whose other end only the program has.

use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ropeway_transport::Endpoint;
use ropeway_transport::inherited::Kept;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::PipeFlags;

use crate::servers::binary;

/// How long the server may take to listen, and then to warm its worker: it initialises this machine's OpenCL, which the
/// program would otherwise have to do.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The maximum size of the server's answer.
const MAX_ANSWER: usize = 4096;

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
        let mut child = command
            .spawn()
            .map_err(|error| io::Error::new(error.kind(), format!("cannot start {}: {error}", binary.display())))?;
        // The child has its own, and the pipe must be at an end when this process's other end is gone.
        drop(command);
        let listening = listening(&mut child);
        if listening.is_err() {
            // The child has nothing more to report; the server ends when the pipe does.
            let _ = child.kill();
        }
        // The child ends as soon as it has started the server. The program may already have waited for it.
        let _ = child.wait();
        Ok(Self { endpoint: listening?, _kept: kept, _alive: alive })
    }

    /// Where it listens.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

/// Reads where the server listens.
fn listening(child: &mut Child) -> io::Result<Endpoint> {
    let mut output = child.stdout.take().ok_or(ErrorKind::BrokenPipe)?;
    let deadline = Instant::now() + PATIENCE;
    let mut said = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&said);
        // A line that is not whole may not hold all of the address.
        let lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        if let Some(url) = lines.filter_map(|line| line.strip_prefix("listening on ")).next() {
            return url.parse().map_err(|_| io::Error::other("it listens at no address that can be understood"));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&output, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Err(ErrorKind::TimedOut.into()),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut piece = [0; 512];
        match output.read(&mut piece)? {
            n if n == 0 || said.len() > MAX_ANSWER => {
                return Err(io::Error::other(
                    "the program `ropeway` did not start a server; `ropeway local` in a shell says why",
                ));
            }
            n => said.extend_from_slice(&piece[..n]),
        }
    }
}

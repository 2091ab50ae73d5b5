//! The start of a worker process: `ropeway worker`, which only `ropeway serve` calls.

use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

pub use ropeway_worker::WorkerOptions;
pub use ropeway_worker::handoff::{Allowance, DeviceSelector};
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::stdio::dup2_stdin;

pub use crate::sandbox::Wall;
use crate::sandbox::{self, Own};
use crate::{WorkerUser, groups};

/// The reason why a worker cannot begin.
#[derive(Debug)]
pub enum WorkerError {
    /// The worker was started by hand.
    NoServer,
    /// The system refused something that the worker needs.
    System(&'static str, io::Error),
}

impl fmt::Display for WorkerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoServer => write!(f, "a worker is started by `ropeway serve`, not by hand"),
            Self::System(what, error) => write!(f, "worker: cannot {what}: {error}"),
        }
    }
}

impl std::error::Error for WorkerError {}

/// Runs a worker: takes the control socket from standard input, enters these control groups and the sandbox with these
/// walls, and with `folder` for its temporary files, as `user` if there is one, and serves one session. The process ends
/// with its session; an exit code is returned only when there was no session.
///
/// # Errors
/// A [`WorkerError`] when it cannot begin.
pub fn run(
    options: WorkerOptions,
    walls: &[Wall],
    folder: Option<&Path>,
    groups: &[PathBuf],
    user: Option<&WorkerUser>,
) -> Result<u8, WorkerError> {
    let control = control_socket()?;
    // The process was started as /proc/self/exe, so it sets its own name; it works without one too.
    let _ = rustix::thread::set_name(c"ropeway-worker");
    // First of all: what was taken before would not count.
    for group in groups {
        let failed =
            |error| WorkerError::System("enter its control group (--no-sandbox=groups leaves that off)", error);
        groups::enter(group).map_err(failed)?;
    }
    if let Some(user) = user {
        user.take_over().map_err(|error| WorkerError::System("become another user", error))?;
    }
    // After that, as a change of user undoes it. Without its server, a worker would hold devices that nobody can manage. If the server ended before this call, the
    // control socket is at its end, which ends the worker as well.
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| WorkerError::System("tie its life to the server's", error.into()))?;
    // Kept from here on: it is in what the kernel has told this process at its start, which another user's worker cannot read behind the walls.
    let _ = rustix::param::page_size();
    let readable = options.custom.files();
    let program_cache = options.cache_folder.as_deref();
    let own =
        Own { readable: &readable, program_cache, folder, connects: options.ucx, listens: options.custom.uses_cuda() };
    // A server has one such process.
    sandbox::enter(walls, own, options.probe);
    Ok(ropeway_worker::run(control, options))
}

/// This machine's name, as clients are told it.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The control socket, moved away from standard input so that a driver that reads there does not take its bytes.
fn control_socket() -> Result<OwnedFd, WorkerError> {
    let stdin = io::stdin();
    if stdin.is_terminal() || rustix::net::sockopt::socket_type(&stdin).is_err() {
        return Err(WorkerError::NoServer);
    }
    let system = |error: io::Error| WorkerError::System("take over its control socket", error);
    let control = stdin.as_fd().try_clone_to_owned().map_err(system)?;
    let null = File::open("/dev/null").map_err(system)?;
    dup2_stdin(&null).map_err(|error| system(error.into()))?;
    Ok(control)
}

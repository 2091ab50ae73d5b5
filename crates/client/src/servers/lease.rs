//! Servers that a broker lends, for programs that are configured with what they want (`ROPEWAY_WANT`).
//!
//! `ropeway hold` gets the lease, and holds it as long as the program runs; the library learns the servers from the host
//! file that it writes.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use ropeway_transport::Endpoint;

use crate::base::program::program_name;
use crate::servers::companion::Companion;
use crate::servers::config::{Config, Wanted};

/// How long the program `ropeway` may take beside the time for which the request waits.
const PATIENCE: Duration = Duration::from_secs(20);

/// A lease; it is given back when this is dropped.
#[derive(Debug)]
pub(super) struct Leased {
    /// Its servers, with what they are shown.
    pub(super) servers: Vec<Endpoint>,
    /// The host file that names them.
    pub(super) file: PathBuf,
    _companion: Companion,
}

impl Leased {
    /// Gets what is wanted, and waits for it as long as that says.
    ///
    /// # Errors
    /// One sentence: there is no lease, or no program that could get one.
    pub(super) fn get(wanted: &Wanted) -> io::Result<Self> {
        let wait = format!("{}ms", wanted.wait.as_millis());
        let program = program_name();
        let mut args = vec!["hold", "--want", &wanted.want, "--wait", &wait, "--program", &program];
        if let Some(broker) = &wanted.broker {
            args.extend(["--broker", broker]);
        }
        // What it says is for the program's user: that the request waits, or why there is no lease.
        let started = Companion::start(None, &args, Stdio::inherit(), ("leased ", wanted.wait + PATIENCE))?;
        let (companion, file) = started.ok_or_else(|| io::Error::other("there is no lease"))?;
        let mut config = Config::default();
        let file = PathBuf::from(file);
        config.read_host_file(&file);
        match config.problems.first() {
            None => Ok(Self { servers: config.servers, file, _companion: companion }),
            Some(problem) => Err(io::Error::other(problem.clone())),
        }
    }
}

//! An encrypted server, and how its figures are told.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::process::Side;
use crate::server::Server;
use crate::setup::Bench;

/// A server that takes encrypted connections only, and the programs that have its ticket.
pub(super) struct Encrypted {
    pub(super) server: Server,
    pub(super) ticket: String,
    pub(super) side: Side,
    state: PathBuf,
}

impl Encrypted {
    /// Starts one that has `name` in the run.
    ///
    /// # Errors
    /// A sentence that says why there is none.
    pub(super) fn start(bench: &Bench, name: &str) -> Result<Self, String> {
        let state = bench.folder.path().join(name);
        let server = Server::start_encrypted(&bench.ropeway, &bench.native, &state)?;
        let (ticket, side) = ticket(bench, &state, server.port, &["new", "bench"])?;
        Ok(Self { server, ticket, side, state })
    }

    /// The programs of one more client, with a weight.
    ///
    /// # Errors
    /// A sentence that says why there is no ticket.
    pub(super) fn with_weight(&self, bench: &Bench, name: &str, weight: u32) -> Result<Side, String> {
        let args = ["new", name, "--weight", &weight.to_string()];
        Ok(ticket(bench, &self.state, self.server.port, &args)?.1)
    }
}

/// A new ticket for the server with this state and port, and the programs that have it.
fn ticket(bench: &Bench, state: &Path, port: u16, args: &[&str]) -> Result<(String, Side), String> {
    let mut command = Command::new(&bench.ropeway);
    command.args(["ticket", "--state"]).arg(state).args(args).arg("--host").arg(format!("127.0.0.1:{port}"));
    let made = command.output().map_err(|error| format!("no ticket: {error}"))?;
    let ticket = String::from_utf8_lossy(&made.stdout).trim().to_owned();
    if !made.status.success() {
        return Err(format!("no ticket: {}", String::from_utf8_lossy(&made.stderr)));
    }
    let mut side = bench.remote.clone();
    side.use_server(&ticket);
    // The server reads its clients again when their file has changed, a moment later.
    let begun = Instant::now();
    while let Err(why) = side.start_up() {
        if begun.elapsed() > Duration::from_secs(10) {
            return Err(why);
        }
    }
    Ok((ticket, side))
}

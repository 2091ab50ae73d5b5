//! The server under test.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use ropeway_tests::net::Host;

use crate::process::Side;

/// Enough time for a server to warm its workers again.
pub const BETWEEN_CLIENTS: Duration = Duration::from_millis(250);

/// How long a server may take to warm its workers.
const PATIENCE: Duration = Duration::from_secs(30);

/// A `ropeway serve` started by this program, and ended when dropped.
pub struct Server {
    process: Child,
    url: String,
    /// Its port.
    pub port: u16,
}

impl Server {
    /// Starts `ropeway serve` on a free port of the loopback address and waits until its workers are warm.
    ///
    /// # Errors
    /// A sentence that says why there is none.
    pub fn start(ropeway: &Path, side: &Side) -> Result<Self, String> {
        Self::start_with(ropeway, side, &[])
    }

    /// The same with further arguments.
    ///
    /// # Errors
    /// A sentence that says why there is none.
    pub fn start_with(ropeway: &Path, side: &Side, args: &[&str]) -> Result<Self, String> {
        let mut command = side.command(ropeway);
        command.args(["serve", "--listen", "tcp://127.0.0.1:0"]).args(args);
        Self::run(ropeway, command)
    }

    /// Starts one with just these arguments.
    ///
    /// # Errors
    /// A sentence that says why there is none.
    pub fn start_just(ropeway: &Path, side: &Side, args: &[&str]) -> Result<Self, String> {
        let mut command = side.command(ropeway);
        command.arg("serve").args(args);
        Self::run(ropeway, command)
    }

    /// Starts one that takes encrypted connections only, with its key and its clients in `state`.
    ///
    /// # Errors
    /// A sentence that says why there is none.
    pub fn start_encrypted(ropeway: &Path, side: &Side, state: &Path) -> Result<Self, String> {
        let mut command = side.command(ropeway);
        command.args(["serve", "--listen", "tls://127.0.0.1:0", "--state"]).arg(state);
        Self::run(ropeway, command)
    }

    /// Starts one on a machine of a network, at that machine's address.
    ///
    /// # Errors
    /// A sentence that says why there is none.
    pub fn start_at(ropeway: &Path, side: &Side, host: &Host) -> Result<Self, String> {
        let mut command = side.command_at(host, ropeway);
        command.args(["serve", "--plaintext-network", "--listen", &format!("tcp://{}:7590", host.address())]);
        Self::run(ropeway, command)
    }

    fn run(ropeway: &Path, mut command: Command) -> Result<Self, String> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        if std::env::var_os("ROPEWAY_BENCH_LOG").is_none() {
            command.stderr(Stdio::null());
        }
        let process = command.spawn().map_err(|e| format!("{} cannot be started: {e}", ropeway.display()))?;
        let mut server = Self { process, url: String::new(), port: 0 };
        // The server prints where it listens, and when its workers are warm.
        let (send, said) = channel();
        let out = server.process.stdout.take();
        std::thread::spawn(move || {
            let lines = out.into_iter().flat_map(|out| BufReader::new(out).lines());
            lines.map_while(Result::ok).try_for_each(|line| send.send(line))
        });
        let begun = Instant::now();
        loop {
            let line = said
                .recv_timeout(PATIENCE.saturating_sub(begun.elapsed()))
                .map_err(|_| format!("{} serves nobody; ROPEWAY_BENCH_LOG=1 shows what it says", ropeway.display()))?;
            if let Some(url) = line.strip_prefix("listening on ") {
                server.port = url.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or(0);
                url.clone_into(&mut server.url);
            } else if line == "ready" {
                return Ok(server);
            }
        }
    }

    /// Its address as clients write it.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.process.id()).ok().and_then(rustix::process::Pid::from_raw) {
            // It may have ended already.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let asked = Instant::now();
        while let Ok(None) = self.process.try_wait() {
            if asked.elapsed() > Duration::from_secs(5) {
                let _ = self.process.kill();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

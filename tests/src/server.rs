//! A real server with folders of its own.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use crate::natives::Native;
use crate::net::Host;
use crate::{places, process, wait_for};

/// A running `ropeway serve`; killed when dropped.
pub struct Server {
    child: Child,
    url: String,
    log: Arc<Mutex<String>>,
    home: TempDir,
}

impl Server {
    /// Starts one on a free loopback port.
    pub fn start() -> Self {
        Self::start_with(&["--listen", "tcp://127.0.0.1:0"], &[])
    }

    /// Starts one on a free loopback port, with the devices of this native implementation.
    pub fn start_on_native(native: &Native) -> Self {
        Self::start_with(&["--listen", "tcp://127.0.0.1:0"], &native.env())
    }

    /// Starts one on a Unix socket in its own folder.
    pub fn start_unix() -> Self {
        let home = folder();
        let url = format!("unix:{}", home.path().join("ropeway.sock").display());
        Self::start_in(home, &["--listen", &url], &[])
    }

    /// Starts one with these arguments, one of which says where to listen, and these variables.
    pub fn start_with(args: &[&str], env: &[(&str, &str)]) -> Self {
        Self::start_in(folder(), args, env)
    }

    /// Starts one on a machine of a test's network, on that machine's address, with these further arguments and these
    /// variables.
    pub fn start_on(host: &Host, args: &[&str], env: &[(&str, &str)]) -> Self {
        let listen = format!("tcp://{}:7590", host.address());
        Self::serve_on(host, &[&["--listen", &listen, "--plaintext-network"], args].concat(), env)
    }

    /// Starts `ropeway serve` on a machine of a test's network with just these arguments, and these variables.
    pub fn serve_on(host: &Host, args: &[&str], env: &[(&str, &str)]) -> Self {
        Self::start_command(host.command(places::ropeway()), folder(), args, env).until_ready()
    }

    /// As [`Self::start_with`], without waiting until its workers are warm.
    pub fn start_cold(args: &[&str], env: &[(&str, &str)]) -> Self {
        Self::start_command(Command::new(places::ropeway()), folder(), args, env)
    }

    fn start_in(home: TempDir, args: &[&str], env: &[(&str, &str)]) -> Self {
        Self::start_command(Command::new(places::ropeway()), home, args, env).until_ready()
    }

    fn start_command(mut command: Command, home: TempDir, args: &[&str], env: &[(&str, &str)]) -> Self {
        command.arg("serve").args(args);
        let own = ["CACHE_DIRECTORY", "STATE_DIRECTORY", "XDG_STATE_HOME"];
        for name in ["ROPEWAY_SERVERS", "ROPEWAY_HOSTFILE", "ROPEWAY_LOG"].into_iter().chain(own) {
            command.env_remove(name);
        }
        command
            .env("HOME", home.path())
            .env("XDG_CACHE_HOME", home.path().join("cache"))
            .env("XDG_CONFIG_HOME", home.path().join("config"))
            .env("POCL_CACHE_DIR", places::pocl_cache())
            .envs(Native::pocl().env())
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the server starts");
        let log = Arc::new(Mutex::new(String::new()));
        collect(child.stdout.take().expect("it was asked for"), Arc::clone(&log));
        collect(child.stderr.take().expect("it was asked for"), Arc::clone(&log));
        let mut server = Self { child, url: String::new(), log, home };
        server.url = server
            .until_it_says(|log| log.lines().find_map(|line| line.strip_prefix("listening on ")).map(str::to_owned));
        server
    }

    /// Waits until it has said something on standard output.
    fn until_it_says<T>(&mut self, what: impl Fn(&str) -> Option<T>) -> T {
        wait_for("server", Duration::from_secs(60), || {
            if let Ok(Some(status)) = self.child.try_wait() {
                panic!("the server ended with {status}:\n{}", self.log());
            }
            what(&self.log())
        })
    }

    /// Waits until its workers are warm: clients are served before, but only from then on do all tests find the same
    /// server.
    fn until_ready(mut self) -> Self {
        self.until_it_says(|log| log.lines().any(|line| line == "ready").then_some(()));
        self
    }

    /// Where clients find it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// `host:port`, for plain sockets.
    ///
    /// # Panics
    /// For a server on a Unix socket.
    pub fn address(&self) -> &str {
        self.url.strip_prefix("tcp://").expect("a server on TCP")
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its worker processes, warm ones included.
    pub fn workers(&self) -> Vec<u32> {
        process::children(self.pid())
    }

    /// The worker that serves the session of the client `pid`, once there is one.
    pub fn worker_of(&self, pid: u32) -> u32 {
        let of_client = format!("pid={pid} ");
        wait_for("session in the log", Duration::from_secs(10), || {
            let log = self.log();
            let line = log.lines().find(|line| line.contains("session begins") && line.contains(&of_client))?;
            line.split_once("worker=")?.1.split_whitespace().next()?.parse().ok()
        })
    }

    /// Its output so far.
    pub fn log(&self) -> String {
        self.log.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Waits until its log holds `text`.
    pub fn expect_log(&self, text: &str) {
        let mut seen = String::new();
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait_for(&format!("log line with '{text}'"), Duration::from_secs(10), || {
                seen = self.log();
                seen.contains(text).then_some(())
            });
        }));
        assert!(found.is_ok(), "no '{text}' in:\n{seen}");
    }

    /// Kills it, as a crash of its machine would.
    pub fn kill(&mut self) {
        process::kill(self.pid());
        let _ = self.child.wait();
    }

    /// Asks it to stop and waits for its end.
    pub fn stop(&mut self) -> std::process::ExitStatus {
        process::terminate(self.pid());
        self.child.wait().expect("it is our child")
    }

    /// The folder that is its home.
    pub fn home(&self) -> &std::path::Path {
        self.home.path()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            eprintln!("--- log of the server on {} ---\n{}", self.url, self.log());
        }
    }
}

fn folder() -> TempDir {
    tempfile::Builder::new().prefix("ropeway-").tempdir().expect("a temporary folder can be made")
}

/// Reads lines into the log until the other end is closed.
fn collect(stream: impl Read + Send + 'static, log: Arc<Mutex<String>>) {
    thread::spawn(move || {
        let mut lines = BufReader::new(stream);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            log.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push_str(&String::from_utf8_lossy(&line));
            line.clear();
        }
    });
}

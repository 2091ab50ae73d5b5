//! A real server with folders of its own.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::daemon::Daemon;
use crate::groups::Groups;
use crate::natives::Native;
use crate::net::Host;
use crate::program::{copy_settings, copy_variables};
use crate::{places, process, wait_for};

/// A running `ropeway serve`; killed when dropped.
pub struct Server {
    daemon: Daemon,
    url: String,
    home: TempDir,
    /// How it was started.
    again: Again,
}

/// How a server is started once more.
struct Again {
    command: Command,
    state: Option<TempDir>,
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

    /// As [`Self::start_with`], with control groups for its workers, by a server that is itself in these.
    pub fn start_in_groups(groups: &Groups, args: &[&str], env: &[(&str, &str)]) -> Self {
        Self::start_by(groups.command(places::ropeway()), folder(), args, env).until_ready()
    }

    /// As [`Self::start_with`], with another build of the program.
    pub fn start_program(program: &Path, args: &[&str]) -> Self {
        Self::start_command(Command::new(program), folder(), args, &[]).until_ready()
    }

    fn start_in(home: TempDir, args: &[&str], env: &[(&str, &str)]) -> Self {
        Self::start_command(Command::new(places::ropeway()), home, args, env).until_ready()
    }

    fn start_command(command: Command, home: TempDir, args: &[&str], env: &[(&str, &str)]) -> Self {
        // Servers here are killed, and would leave their control groups where the test was started.
        Self::start_by(command, home, &[args, &["--no-sandbox=groups"]].concat(), env)
    }

    fn start_by(mut command: Command, home: TempDir, args: &[&str], env: &[(&str, &str)]) -> Self {
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
            .envs(env.iter().copied());
        let mut again = Command::new(command.get_program());
        copy_settings(&command, &mut again);
        let mut daemon = Daemon::start(command);
        let url = daemon.until_it_says(url_in);
        Self { daemon, url, home, again: Again { command: again, state: None } }
    }

    /// Keeps its state folder as long as it is there itself.
    pub fn keeps(&mut self, state: TempDir) {
        self.again.state = Some(state);
    }

    /// Kills it, and starts it once more in the same way, on the same address.
    pub fn restart(&mut self) {
        self.kill();
        let any_port = |arg: &OsStr| arg.to_str().is_some_and(|arg| arg.ends_with("://127.0.0.1:0"));
        let mut same = Command::new(self.again.command.get_program());
        let own = OsStr::new(&self.url);
        same.args(self.again.command.get_args().map(|arg| if any_port(arg) { own } else { arg }));
        copy_variables(&self.again.command, &mut same);
        self.daemon = Daemon::start(same);
        self.url = self.daemon.until_it_says(url_in);
    }

    /// A ticket of its own, whose line it is.
    ///
    /// # Panics
    /// For a server that does not keep its state.
    pub fn own_ticket(&self, name: &str) -> String {
        let state = self.again.state.as_ref().expect("it keeps its state");
        let mut command = Command::new(places::ropeway());
        command.args(["ticket", "new", name, "--host", self.address(), "--state"]).arg(state.path());
        let made = command.output().expect("ropeway starts");
        assert!(made.status.success(), "{made:?}");
        String::from_utf8(made.stdout).expect("a ticket is text").trim().to_owned()
    }

    /// Waits until its workers are warm: clients are served before, but only from then on do all tests find the same
    /// server.
    fn until_ready(mut self) -> Self {
        self.daemon.until_it_says(|log| log.lines().any(|line| line == "ready").then_some(()));
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
        self.url.split_once("://").expect("a server on TCP").1
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.daemon.pid()
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
        self.daemon.log()
    }

    /// Waits until its log holds `text`.
    pub fn expect_log(&self, text: &str) {
        self.daemon.expect_log(text);
    }

    /// Kills it, as a crash of its machine would.
    pub fn kill(&mut self) {
        self.daemon.kill();
    }

    /// Asks it to stop and waits for its end.
    pub fn stop(&mut self) -> std::process::ExitStatus {
        self.daemon.stop()
    }

    /// The folder that is its home.
    pub fn home(&self) -> &std::path::Path {
        self.home.path()
    }
}

/// What a server says of where it listens.
fn url_in(log: &str) -> Option<String> {
    log.lines().find_map(|line| line.strip_prefix("listening on ")).map(str::to_owned)
}

pub(crate) fn folder() -> TempDir {
    tempfile::Builder::new().prefix("ropeway-").tempdir().expect("a temporary folder can be made")
}

//! A real server that takes encrypted connections, and its tickets.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::groups::Groups;
use crate::places::ropeway;
use crate::server::Server;

/// A server with a state folder, on loopback, that takes encrypted connections only.
pub struct Encrypted {
    /// The server.
    pub server: Server,
    /// Its state folder.
    pub state: PathBuf,
    _folder: TempDir,
}

impl Encrypted {
    /// Starts one.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts one with these further arguments.
    pub fn start_with(args: &[&str]) -> Self {
        Self::start_in(args, &[])
    }

    /// Starts one with these further arguments and these variables.
    pub fn start_in(args: &[&str], env: &[(&str, &str)]) -> Self {
        Self::start_by(args, |args| Server::start_with(args, env))
    }

    /// As [`Self::start_in`], with control groups for its workers, by a server that is itself in these.
    pub fn start_in_groups(groups: &Groups, args: &[&str], env: &[(&str, &str)]) -> Self {
        Self::start_by(args, |args| Server::start_in_groups(groups, args, env))
    }

    fn start_by(args: &[&str], start: impl FnOnce(&[&str]) -> Server) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let state = folder.path().join("state");
        let common = ["--listen", "tls://127.0.0.1:0", "--state", state.to_str().expect("its name is text")];
        let server = start(&[&common[..], args].concat());
        Self { server, state, _folder: folder }
    }

    /// Its address, without `tls://`.
    pub fn host(&self) -> &str {
        self.server.url().strip_prefix("tls://").expect("it is encrypted")
    }

    /// `ropeway ticket` on the server's machine.
    pub fn ticket(&self, args: &[&str]) -> Output {
        Command::new(ropeway())
            .args(["ticket", "--state"])
            .arg(&self.state)
            .args(args)
            .output()
            .expect("ropeway starts")
    }

    /// A new ticket's line.
    pub fn new_ticket(&self, name: &str, args: &[&str]) -> String {
        let made = self.ticket(&[&["new", name, "--host", self.host()], args].concat());
        assert!(made.status.success(), "{made:?}");
        let known = format!("clients={}", self.clients());
        self.server.expect_log(&known);
        String::from_utf8_lossy(&made.stdout).trim().to_owned()
    }

    fn clients(&self) -> usize {
        fs::read_to_string(self.state.join("access.toml")).unwrap_or_default().matches("[clients.").count()
    }
}

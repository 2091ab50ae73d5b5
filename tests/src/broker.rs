//! A real broker, servers that lend through it, and programs with leases.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ropeway_transport::tls::Ticket;
use ropeway_transport::{Endpoint, Pass};
use tempfile::TempDir;

use crate::daemon::Daemon;
use crate::net::Host;
use crate::places::ropeway;
use crate::program::{Outcome, Program};
use crate::server::{Server, folder};
use crate::wait_for;

/// A broker on loopback, with a folder of its own; killed when dropped.
pub struct Broker {
    daemon: Option<Daemon>,
    /// `host:port`.
    address: String,
    folder: TempDir,
    options: Vec<String>,
    /// Where it runs, if not on this machine's loopback.
    host: Option<Host>,
    /// Variables that it gets.
    env: Vec<(String, String)>,
}

/// The file with a broker's clients.
const CLIENTS: &str = "access.toml";

/// How long a device takes to be free, or a server to be there, on a busy machine.
const SOON: std::time::Duration = std::time::Duration::from_secs(20);

impl Broker {
    /// Starts one.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts one with these further arguments.
    pub fn start_with(options: &[&str]) -> Self {
        Self::new("127.0.0.1:0".to_owned(), options, &[], folder(), None)
    }

    /// Starts one on a machine of a test's network.
    pub fn start_on(host: &Host) -> Self {
        Self::start_on_with(host, &[])
    }

    /// The same with these further arguments.
    pub fn start_on_with(host: &Host, options: &[&str]) -> Self {
        Self::new(format!("{}:7591", host.address()), options, &[], folder(), Some(host.clone()))
    }

    /// Starts another broker of the same pool, on this machine or another one: it has the same key and clients.
    pub fn start_another(&self, host: Option<&Host>) -> Self {
        let options: Vec<_> = self.options.iter().map(String::as_str).collect();
        self.start_another_with(host, &options)
    }

    /// The same with these arguments instead of this one's.
    pub fn start_another_with(&self, host: Option<&Host>, options: &[&str]) -> Self {
        let address = host.map_or_else(|| "127.0.0.1:0".to_owned(), |host| format!("{}:7591", host.address()));
        let (admin, folder) = (self.own_ticket(), folder());
        let state = folder.path().join("state");
        DirBuilder::new().mode(0o700).create(&state).expect("a folder can be made");
        for file in ["server.key", CLIENTS] {
            fs::copy(self.state().join(file), state.join(file)).expect("a file can be copied");
        }
        let broker = Self::new(address, options, &[], folder, host.cloned());
        let admin = self.as_ticket_of(&admin, &broker);
        fs::write(broker.folder.path().join("admin"), admin).expect("a file can be written");
        broker
    }

    /// Gives another broker of the pool this one's clients.
    pub fn copy_clients_to(&self, other: &Self) {
        let fresh = other.folder.path().join(CLIENTS);
        fs::copy(self.state().join(CLIENTS), &fresh).expect("a file can be copied");
        fs::rename(&fresh, other.state().join(CLIENTS)).expect("a file can be renamed");
    }

    /// Starts one with its state folder on this disk.
    pub fn start_in(disk: &Path) -> Self {
        let folder = tempfile::tempdir_in(disk).expect("a folder can be made there");
        Self::new("127.0.0.1:0".to_owned(), &[], &[], folder, None)
    }

    /// Starts one with these variables.
    pub fn start_with_env(env: &[(&str, &str)]) -> Self {
        Self::start_with_both(&[], env)
    }

    /// Starts one with these further arguments and variables.
    pub fn start_with_both(options: &[&str], env: &[(&str, &str)]) -> Self {
        Self::new("127.0.0.1:0".to_owned(), options, env, folder(), None)
    }

    fn new(address: String, options: &[&str], env: &[(&str, &str)], folder: TempDir, host: Option<Host>) -> Self {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let mut broker = Self {
            daemon: None,
            address,
            folder,
            options,
            host,
            env: env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        };
        broker.restart();
        broker
    }

    /// A command of Ropeway's, on the broker's machine.
    fn ropeway(&self) -> Command {
        self.host.as_ref().map_or_else(|| Command::new(ropeway()), |host| host.command(ropeway()))
    }

    /// Starts it again, on the same port.
    pub fn restart(&mut self) {
        self.kill();
        let mut command = self.ropeway();
        command.args(["broker", "--listen", &format!("tls://{}", self.address), "--state"]).arg(self.state());
        command.args(&self.options).env("ROPEWAY_LOG", "debug").env_remove("STATE_DIRECTORY");
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        let mut daemon = Daemon::start(command);
        let listens =
            |log: &str| log.lines().find_map(|line| line.strip_prefix("listening on tls://")).map(str::to_owned);
        self.address = daemon.until_it_says(listens);
        self.daemon = Some(daemon);
    }

    /// Kills it, as a crash would.
    pub fn kill(&mut self) {
        self.daemon = None;
    }

    /// Whether it was last heard to lead its pool.
    pub fn leads(&self) -> bool {
        let Some(daemon) = &self.daemon else { return false };
        let log = daemon.log();
        log.rfind("this broker leads") > log.rfind("this broker does not lead any more")
    }

    /// The broker itself.
    ///
    /// # Panics
    /// While it does not run.
    pub fn daemon(&mut self) -> &mut Daemon {
        self.daemon.as_mut().expect("it runs")
    }

    /// Its `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// A ticket of this broker's, as one of `other`, which has the same key and clients.
    pub fn as_ticket_of(&self, ticket: &str, other: &Self) -> String {
        ticket.replace(&self.address, &other.address)
    }

    /// Gives it these rules, and waits until it has read them.
    pub fn rule(&mut self, rules: &str) {
        let read = |broker: &mut Self| broker.daemon().log().matches("the pool's rules were read again").count();
        let before = read(self);
        self.write_rules(rules);
        wait_for("rules that were read again", SOON, || (read(self) > before).then_some(()));
    }

    /// Gives it this file of rules.
    pub fn write_rules(&self, rules: &str) {
        let fresh = self.folder.path().join("pool.toml");
        fs::write(&fresh, rules).expect("a file can be written");
        fs::rename(&fresh, self.state().join("pool.toml")).expect("a file can be renamed");
    }

    /// Its state folder.
    pub fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// A new ticket's line.
    pub fn ticket(&self, name: &str, args: &[&str]) -> String {
        let mut command = Command::new(ropeway());
        command.args(["ticket", "new", name, "--host", &self.address, "--state"]).arg(self.state()).args(args);
        let made = command.output().expect("ropeway starts");
        assert!(made.status.success(), "{made:?}");
        String::from_utf8(made.stdout).expect("a ticket is text").trim().to_owned()
    }

    /// A server with this many devices that lends them, once the broker knows it.
    pub fn server(&self, devices: usize) -> Server {
        let pocl = vec!["pthread"; devices].join(" ");
        self.lending("tls://127.0.0.1:0", devices, |args| Server::start_with(args, &[("POCL_DEVICES", &pocl)]))
    }

    /// The same with one device and these variables.
    pub fn server_with_env(&self, env: &[(&str, &str)]) -> Server {
        self.lending("tls://127.0.0.1:0", 1, |args| Server::start_with(args, env))
    }

    /// The same on a machine of a test's network.
    pub fn server_on(&self, host: &Host, devices: usize) -> Server {
        let ticket = self.ticket(&format!("server {}", self.device_count()), &["--registers"]);
        self.server_for_on(&ticket, host, devices)
    }

    /// A server with this many devices and this ticket, once the broker knows it.
    pub fn server_for(&self, ticket: &str, devices: usize) -> Server {
        let pocl = vec!["pthread"; devices].join(" ");
        let start = |args: &[&str]| Server::start_with(args, &[("POCL_DEVICES", &pocl)]);
        self.lending_to(ticket, "tls://127.0.0.1:0", devices, start)
    }

    /// The same on a machine of a test's network.
    pub fn server_for_on(&self, ticket: &str, host: &Host, devices: usize) -> Server {
        let pocl = vec!["pthread"; devices].join(" ");
        let listen = format!("tls://{}:7590", host.address());
        self.lending_to(ticket, &listen, devices, |args| Server::serve_on(host, args, &[("POCL_DEVICES", &pocl)]))
    }

    fn lending(&self, listen: &str, devices: usize, start: impl FnOnce(&[&str]) -> Server) -> Server {
        let ticket = self.ticket(&format!("server {}", self.device_count()), &["--registers"]);
        self.lending_to(&ticket, listen, devices, start)
    }

    fn lending_to(&self, ticket: &str, listen: &str, devices: usize, start: impl FnOnce(&[&str]) -> Server) -> Server {
        let before = self.device_count();
        let state = folder();
        let state_text = state.path().to_str().expect("its name is text").to_owned();
        let mut server = start(&["--listen", listen, "--warm", "2", "--broker", ticket, "--state", &state_text]);
        server.keeps(state);
        wait_for("devices at the broker", SOON, || (self.device_count() == before + devices).then_some(()));
        server
    }

    /// A command for the user `admin` of the broker.
    pub fn command(&self, args: &[&str]) -> Output {
        let ticket = self.own_ticket();
        let mut command = self.ropeway();
        command.args(args).env("ROPEWAY_BROKER", ticket);
        command.output().expect("ropeway starts")
    }

    /// What such a command prints.
    ///
    /// # Panics
    /// When it fails.
    pub fn says(&self, args: &[&str]) -> String {
        let output = self.command(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).expect("it prints text")
    }

    /// Everybody's leases.
    pub fn leases(&self) -> String {
        self.says(&["lease", "list", "--all"])
    }

    /// How many leases there are.
    pub fn lease_count(&self) -> usize {
        self.leases().lines().count() - 1
    }

    /// Waits until there are so many leases.
    pub fn expect_leases(&self, count: usize) {
        wait_for(&format!("{count} leases"), SOON, || (self.lease_count() == count).then_some(()));
    }

    /// A program that runs with a lease on `want`, for the user of this ticket.
    pub fn program(&self, ticket: &str, want: &str, program: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> Program {
        let run = Program::native(ropeway()).args(["run", "--broker", ticket, "--only", "--want", want]);
        // A busy machine may keep a server from answering for longer than a program usually waits.
        run.args(["--"]).args([program.as_ref()]).args(args).env("ROPEWAY_CONNECT_TIMEOUT", "20")
    }

    /// Runs it to its end.
    pub fn run(&self, ticket: &str, want: &str, program: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> Outcome {
        self.program(ticket, want, program, args).run()
    }

    /// The list of devices.
    pub fn devices(&self) -> String {
        self.says(&["devices", "--broker", &self.own_ticket()])
    }

    fn device_count(&self) -> usize {
        self.devices().lines().filter(|line| line.contains("free") || line.contains("lent")).count()
    }

    /// The ticket of `admin`, made when it is first wanted.
    fn own_ticket(&self) -> String {
        let path = self.folder.path().join("admin");
        if let Ok(ticket) = fs::read_to_string(&path) {
            return ticket;
        }
        let ticket = self.ticket("admin", &[]);
        fs::write(&path, &ticket).expect("a file can be written");
        ticket
    }
}

/// The line of a lease or ticket, as if it were for the server whose ticket the other line is.
pub fn with_key_of(line: &str, other: &str) -> String {
    let parts = |line: &str| {
        let endpoint: Endpoint = line.parse().expect("it is a ticket");
        let Some(Pass::Ticket(ticket)) = endpoint.pass().cloned() else { panic!("it is a ticket") };
        (endpoint.host().to_owned(), endpoint.port(), ticket)
    };
    let ((host, port, own), (_, _, other)) = (parts(line), parts(other));
    let pass = Some(Pass::Ticket(Ticket { server: other.server, ..own }).into());
    Endpoint::Tls { host, port, pass }.with_secret()
}

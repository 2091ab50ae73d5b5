//! Real ssh servers on loopback or on a machine of a test's network, with keys and configurations of their own.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use crate::natives::Native;
use crate::net::Host;
use crate::program::Program;
use crate::{places, process, wait_for};

/// Debian's place of the ssh server; it has to be started with its whole path.
const SSHD: &str = "/usr/sbin/sshd";

/// The folder that an ssh server of root needs.
const SEPARATION: &str = "/run/sshd";

/// How often another port is tried when somebody else was faster.
const PORTS: u32 = 5;

/// An ssh server whose host has Ropeway, and a client that knows it; both end when this is dropped.
pub struct Sshd {
    child: Child,
    log: Arc<Mutex<String>>,
    alias: String,
    port: u16,
    folder: TempDir,
}

impl Sshd {
    /// Starts one. Its host has the program `ropeway`.
    pub fn start() -> Self {
        Self::start_with("")
    }

    /// Starts one with these further lines in its configuration.
    pub fn start_with(lines: &str) -> Self {
        Self::start_at(None, lines, &places::ropeway(), &of_pocl())
    }

    /// Starts one on a machine of a test's network, on that machine's address.
    pub fn start_on(host: &Host) -> Self {
        Self::start_at(Some(host), "", &places::ropeway(), &of_pocl())
    }

    /// Starts one whose host has this program `ropeway`, which finds its OpenCL by these variables.
    pub fn start_of(ropeway: &Path, variables: &[(String, OsString)]) -> Self {
        Self::start_at(None, "", ropeway, variables)
    }

    fn start_at(host: Option<&Host>, lines: &str, ropeway: &Path, variables: &[(String, OsString)]) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = tempfile::Builder::new().prefix("rw-").tempdir().expect("a temporary folder can be made");
        let at = |name: &str| folder.path().join(name);
        for name in ["bin", "remote", "client"] {
            fs::create_dir(at(name)).expect("a folder can be made");
        }
        std::os::unix::fs::symlink(ropeway, at("bin/ropeway")).expect("a link can be made");
        for name in ["host_key", "key", "stranger"] {
            new_key(&at(name));
        }
        fs::copy(at("key.pub"), at("authorized_keys")).expect("a file can be copied");
        // Only root can make this folder, and only root's server needs it.
        let _ = fs::create_dir(SEPARATION);
        for _ in 0..PORTS {
            let address = host.map_or(Ipv4Addr::LOCALHOST, Host::address);
            let port = host.map_or_else(|| free_port(address), |host| host.inside(|| free_port(address)));
            let at_port = SocketAddrV4::new(address, port);
            let config = server_configuration(folder.path(), at_port, lines, variables);
            fs::write(at("sshd_config"), config).expect("a file can be written");
            let command = host.map_or_else(|| Command::new(SSHD), |host| host.command(SSHD));
            let Some((child, log)) = listen(command, &at("sshd_config")) else { continue };
            let alias = format!("host{number}-{}", std::process::id());
            let config = client_configuration(folder.path(), at_port, &alias);
            fs::write(at("config"), config).expect("a file can be written");
            let key = fs::read_to_string(at("host_key.pub")).expect("it was just made");
            fs::write(at("known_hosts"), format!("{alias} {key}")).expect("a file can be written");
            return Self { child, log, alias, port, folder };
        }
        panic!("no port for an ssh server");
    }

    /// The address of its host for programs that use [`Self::ssh`].
    pub fn url(&self) -> String {
        format!("ssh://{}", self.alias)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The name of its host, which no other process of this machine has among its arguments.
    pub fn alias(&self) -> &str {
        &self.alias
    }

    /// The ssh command that knows this host.
    pub fn ssh(&self) -> String {
        format!("ssh -F {}", self.file("config").display())
    }

    /// Lets the client know another ssh server's host too.
    pub fn know(&self, other: &Self) {
        let config = fs::read_to_string(self.file("config")).expect("it was written");
        let others = fs::read_to_string(other.file("config")).expect("it was written");
        fs::write(self.file("config"), config + &others).expect("a file can be written");
    }

    /// A file of the server or its client.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `program` with this host's devices, or those of `servers`; an unused tunnel stays for `keep` seconds.
    pub fn program(&self, program: &Path, servers: &str, keep: &str) -> Program {
        self.client(Program::remote(program, servers), keep)
    }

    /// A program with what `ssh://` needs.
    pub fn client(&self, program: Program, keep: &str) -> Program {
        program
            .env("XDG_RUNTIME_DIR", self.file("client"))
            .env("ROPEWAY_SSH", self.ssh())
            .env("ROPEWAY_SSH_KEEP", keep)
            .env("ROPEWAY_BINARY", places::ropeway())
            .env("ROPEWAY_CONNECT_TIMEOUT", "20")
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        self.log.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// How many sessions it has begun.
    pub fn sessions(&self) -> usize {
        self.log().lines().filter(|line| line.contains("Starting session: ")).count()
    }

    /// This machine's processes of the way to this host: the tunnel, its ssh, and their starters.
    pub fn processes(&self) -> Vec<u32> {
        process::with_argument(&self.alias)
    }

    /// The tunnel, and its ssh, once there are exactly these: those that started them, or came too late to be the tunnel,
    /// end at once.
    pub fn tunnel(&self) -> (u32, u32) {
        wait_for("a tunnel with one ssh", Duration::from_secs(20), || {
            let [tunnel] = process::with_argument(&self.url())[..] else { return None };
            let [ssh] = process::children(tunnel)[..] else { return None };
            Some((tunnel, ssh))
        })
    }

    /// Waits until neither end has a process or a file of the way to this host any more.
    pub fn expect_nothing_left(&self) {
        wait_for("end of the tunnel", Duration::from_secs(20), || self.processes().is_empty().then_some(()));
        for folder in ["client", "remote"] {
            let is_empty = || fs::read_dir(self.file(folder)).expect("it is there").next().is_none().then_some(());
            wait_for(&format!("end of all files in {folder}"), Duration::from_secs(20), is_empty);
        }
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.processes().into_iter().for_each(process::kill);
        for connection in process::children(self.child.id()) {
            // The server's process for a connection, and below it the one of its user.
            let servers = process::children(connection);
            servers.iter().chain([&connection]).for_each(|pid| process::kill(*pid));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- log of the ssh server of {} ---\n{}", self.alias, self.log());
        }
    }
}

fn new_key(path: &Path) {
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path).status();
    assert!(made.is_ok_and(|status| status.success()), "ssh-keygen makes no key; run `make packages` first");
}

fn free_port(address: Ipv4Addr) -> u16 {
    let socket = TcpListener::bind((address, 0)).expect("there is a free port");
    socket.local_addr().expect("it has an address").port()
}

/// The variables by which a server finds PoCL.
fn of_pocl() -> Vec<(String, OsString)> {
    let cache = ("POCL_CACHE_DIR".to_owned(), places::pocl_cache().into_os_string());
    let native = Native::pocl();
    native.env().into_iter().map(|(name, value)| (name.to_owned(), value.into())).chain([cache]).collect()
}

fn server_configuration(folder: &Path, at_port: SocketAddrV4, lines: &str, variables: &[(String, OsString)]) -> String {
    let at = folder.display();
    let variables = variables.iter().map(|(name, value)| format!("\"{name}={}\"", value.to_string_lossy()));
    let variables: Vec<String> = variables.collect();
    format!(
        "{lines}\nListenAddress {at_port}\nHostKey {at}/host_key\nAuthorizedKeysFile {at}/authorized_keys\n\
         PidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
         LogLevel VERBOSE\n\
         SetEnv \"PATH={at}/bin:/usr/bin:/bin\" \"XDG_RUNTIME_DIR={at}/remote\" \"XDG_CACHE_HOME={at}/cache\" \
         {}\n",
        variables.join(" ")
    )
}

fn client_configuration(folder: &Path, at_port: SocketAddrV4, alias: &str) -> String {
    let (at, address, port) = (folder.display(), at_port.ip(), at_port.port());
    format!(
        "Host {alias}\n  HostName {address}\n  Port {port}\n  HostKeyAlias {alias}\n  IdentityFile {at}/key\n  \
         IdentitiesOnly yes\n  IdentityAgent none\n  UserKnownHostsFile {at}/known_hosts\n  \
         GlobalKnownHostsFile none\n  StrictHostKeyChecking yes\n"
    )
}

/// Starts the server; `None` if somebody else has its port.
fn listen(mut command: Command, config: &Path) -> Option<(Child, Arc<Mutex<String>>)> {
    command.args(["-D", "-e", "-f"]).arg(config);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{SSHD}: {error}; run `make packages` first"));
    let mut lines = BufReader::new(child.stderr.take().expect("it was asked for")).lines().map_while(Result::ok);
    let log = Arc::new(Mutex::new(String::new()));
    loop {
        let Some(line) = lines.next() else {
            let _ = child.wait();
            let log = log.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
            assert!(log.contains("Address already in use"), "{SSHD} does not start:\n{log}");
            return None;
        };
        log.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push_str(&format!("{line}\n"));
        if line.contains("Server listening on") {
            break;
        }
    }
    let collected = Arc::clone(&log);
    thread::spawn(move || {
        lines.for_each(|line| {
            collected.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push_str(&format!("{line}\n"));
        });
    });
    Some((child, log))
}

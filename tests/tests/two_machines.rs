//! The demonstrations of README.md and docs/security.md with their own commands, between machines with a network each
//! of their own, while everything that their links carry is captured: nothing of it can be read.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use ropeway_tests::capture::{Capture, Captured};
use ropeway_tests::net::{Host, Net};
use ropeway_tests::places::{c_program, root, ropeway};
use ropeway_tests::program::{Outcome, Program};
use ropeway_tests::server::Server;
use ropeway_tests::sshd::Sshd;
use ropeway_tests::wait_for;
use ropeway_transport::{Endpoint, Pass};
use tempfile::TempDir;

/// Bytes of the buffer that goes to the servers and back.
const SIZE: usize = 4 << 20;

/// The kernel, which changes nothing; its text is to be found nowhere.
const SOURCE: &str = "/* written to be recognized wherever it goes */\n\
                      __kernel void pass(__global uint *carried_along, uint nothing_at_all) {\n    \
                      carried_along[get_global_id(0)] += nothing_at_all;\n}\n";

/// A document has this line, so that what is run here is what people are told to run.
fn told(document: &str, line: &str) -> String {
    let text = fs::read_to_string(root().join(document)).unwrap();
    assert!(text.lines().any(|told| told == line), "{document} no longer has the line\n{line}");
    line.split_once("$ ").unwrap().1.to_owned()
}

/// The user of a machine, with a home folder there.
struct User<'a> {
    host: &'a Host,
    home: PathBuf,
}

impl User<'_> {
    /// What runs a line of shell.
    fn program(&self, line: &str) -> Program {
        let path = [ropeway().parent().unwrap().as_os_str(), &std::env::var_os("PATH").unwrap()].join(OsStr::new(":"));
        let program = Program::native("sh").args(["-ec", line]).may_crash().env("HOME", &self.home);
        let folders = ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"];
        let program = folders.into_iter().fold(program, Program::without);
        program.env("PATH", path).env("ROPEWAY_CONNECT_TIMEOUT", "20").on(self.host)
    }

    fn run(&self, line: &str) -> Outcome {
        self.program(line).run().success()
    }
}

/// Files that the program `carried` takes, and its user's home.
struct Things {
    folder: TempDir,
    pattern: Vec<u8>,
}

impl Things {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let random = Command::new("head").args(["-c", "64", "/dev/urandom"]).output().unwrap();
        assert_eq!(random.stdout.len(), 64);
        fs::write(folder.path().join("pattern"), &random.stdout).unwrap();
        fs::write(folder.path().join("source"), SOURCE).unwrap();
        fs::create_dir(folder.path().join("home")).unwrap();
        Self { folder, pattern: random.stdout }
    }

    fn user<'a>(&self, host: &'a Host) -> User<'a> {
        User { host, home: self.folder.path().join("home") }
    }

    /// The command that carries the pattern over all devices.
    fn command(&self) -> String {
        let at = self.folder.path().display();
        format!("{} {at}/pattern {at}/source {SIZE}", c_program("carried").display())
    }

    /// How often a part of the buffer or of the kernel's text was captured, and of what else is secret.
    fn found(&self, captured: &Captured, secret: &[u8]) -> [usize; 3] {
        // The buffer's repeats begin anywhere in a packet.
        captured.found([&self.pattern.repeat(2), SOURCE.as_bytes(), secret])
    }
}

/// The server's machine makes a ticket as its user does.
fn new_ticket(server: &Server, host: &Host, line: &str) -> String {
    let user = User { host, home: server.home().to_owned() };
    let made = user.run(line);
    server.expect_log("clients=1");
    made.stdout.trim().to_owned()
}

/// All that is secret of a ticket: its text, and what the text stands for.
fn secret_of(ticket: &str) -> Vec<u8> {
    let text = ticket.split_once('#').unwrap().1.as_bytes();
    let Ok(endpoint) = ticket.parse::<Endpoint>() else { panic!("it is no ticket") };
    let Some(Pass::Ticket(ticket)) = endpoint.pass() else { panic!("it has no secret") };
    [text, b"\n", ticket.identity.seed().as_slice()].concat()
}

#[test]
fn what_readme_shows_works_between_two_machines_and_nothing_of_it_can_be_read() {
    let Some(net) = Net::or_skip(2) else { return };
    let (things, gpu_machine) = (Things::new(), net.host(1));
    let laptop = things.user(net.host(0));
    let capture = Capture::of(net.hosts());
    let in_place = |line: &str| line.replace("gpu-machine", &gpu_machine.address().to_string());

    let serve = told("README.md", "gpu-machine$ ropeway serve --listen tls://0.0.0.0:7590 &");
    let arguments = serve.strip_prefix("ropeway serve ").unwrap().strip_suffix(" &").unwrap();
    let server = Server::serve_on(gpu_machine, &arguments.split(' ').collect::<Vec<_>>(), &[]);
    let new = told("README.md", "gpu-machine$ ropeway ticket new laptop --host gpu-machine");
    let ticket = new_ticket(&server, gpu_machine, &in_place(&new));
    assert!(ticket.starts_with(&in_place("ropeway://gpu-machine:7590/#")), "{ticket}");
    laptop.run(&format!("ropeway join '{ticket}'"));
    let export = told("README.md", "laptop$ export ROPEWAY_SERVERS=gpu-machine");
    let run = told("README.md", "laptop$ ropeway run -- clinfo -l");
    let listed = laptop.run(&in_place(&format!("{export}\n{run}"))).stdout;
    let (_, ours) = listed.split_once(": Ropeway\n").unwrap_or_else(|| panic!("no such platform:\n{listed}"));
    assert!(ours.trim_start().starts_with("`-- Device #0: "), "{listed}");
    let run = told("docs/security.md", "laptop$ ropeway run --server gpu-machine.lab -- clinfo -l");
    let run = in_place(&run.replace(".lab", "")).replace("clinfo -l", &things.command());
    assert_eq!(laptop.run(&run).stdout, "carried over 1 devices\n");

    let captured = capture.end();
    let bytes = captured.bytes();
    assert!(bytes.iter().all(|bytes| *bytes > 2 * SIZE), "{bytes:?} bytes are not all that was sent");
    assert_eq!(things.found(&captured, &secret_of(&ticket)), [0; 3]);
}

#[test]
fn nothing_that_goes_through_ssh_can_be_read() {
    let Some(net) = Net::or_skip(2) else { return };
    let things = Things::new();
    let (laptop, sshd) = (things.user(net.host(0)), Sshd::start_on(net.host(1)));
    let me = String::from_utf8(Command::new("id").arg("-un").output().unwrap().stdout).unwrap();
    let in_place = |line: &str| line.replace("me@gpu-machine", &format!("{}@{}", me.trim(), sshd.alias()));
    let run = told("README.md", "laptop$ ropeway run --server ssh://me@gpu-machine -- clinfo -l");
    let run = in_place(&run);
    let through_ssh = |line: &str| sshd.client(laptop.program(line), "0").run().success().stdout;
    let capture = Capture::of(net.hosts());
    let listed = through_ssh(&run);
    assert!(listed.contains(": Ropeway\n"), "{listed}");
    assert_eq!(through_ssh(&run.replace("clinfo -l", &things.command())), "carried over 1 devices\n");
    wait_for("end of the tunnel", Duration::from_secs(20), || sshd.processes().is_empty().then_some(()));
    let captured = capture.end();
    let bytes = captured.bytes();
    assert!(bytes.iter().all(|bytes| *bytes > 2 * SIZE), "{bytes:?} bytes are not all that was sent");
    let key = fs::read(sshd.file("key")).unwrap();
    assert_eq!(things.found(&captured, &key), [0; 3]);
}

/// Runs the program over the servers, and captures all packets of all machines meanwhile.
fn over_three(net: &Net, things: &Things, urls: &[String]) -> (Outcome, Captured) {
    let capture = Capture::of(net.hosts());
    let run = format!("ropeway run --server {} -- {}", urls.join(","), things.command());
    let outcome = things.user(net.host(0)).program(&run).limit(Duration::from_secs(60)).run().success();
    assert_eq!(outcome.stdout, "carried over 3 devices\n", "{}", outcome.stderr);
    let captured = capture.end();
    // From the client to a server, from there to the next one and the one after, and back to the client.
    let bytes = captured.bytes();
    assert!(
        bytes.len() == 4 && bytes.iter().all(|bytes| *bytes > 2 * SIZE),
        "{bytes:?} bytes are not all that was sent"
    );
    assert!(bytes.iter().all(|bytes| *bytes < 3 * SIZE), "{bytes:?} bytes: it went by way of somebody else");
    (outcome, captured)
}

#[test]
fn nothing_that_three_servers_of_one_context_send_each_other_can_be_read() {
    let Some(net) = Net::or_skip(4) else { return };
    let (things, hosts) = (Things::new(), &net.hosts()[1..]);
    let servers = hosts.iter().map(|host| Server::serve_on(host, &["--listen", "tls://0.0.0.0:7590"], &[]));
    let servers: Vec<_> = servers.collect();
    let laptop = things.user(net.host(0));
    let mut secrets = Vec::new();
    for (server, host) in servers.iter().zip(hosts) {
        let new = format!("ropeway ticket new laptop --host {}", host.address());
        let ticket = new_ticket(server, host, &new);
        laptop.run(&format!("ropeway join '{ticket}'"));
        secrets.push(secret_of(&ticket));
    }
    let urls: Vec<_> = hosts.iter().map(|host| host.address().to_string()).collect();
    let (outcome, captured) = over_three(&net, &things, &urls);
    assert!(!outcome.stderr.contains("do not reach each other"), "{}", outcome.stderr);
    assert_eq!(things.found(&captured, &secrets.concat()), [0; 3]);
}

#[test]
fn everything_can_be_read_that_goes_over_plaintext_networks() {
    let Some(net) = Net::or_skip(4) else { return };
    let things = Things::new();
    let servers: Vec<_> = net.hosts()[1..].iter().map(|host| Server::start_on(host, &[], &[])).collect();
    let urls: Vec<_> = servers.iter().map(|server| server.url().to_owned()).collect();
    let (_, captured) = over_three(&net, &things, &urls);
    let [buffer, source, none] = things.found(&captured, &[0xA5; 16]);
    // The buffer goes over four links, and is seen at both ends of each.
    assert!(buffer > 7 * SIZE && source > SOURCE.len() - 16, "{buffer} {source}");
    assert_eq!(none, 0);
}

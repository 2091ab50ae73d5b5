//! `ropeway doctor` finds what keeps a client out or others in: keys, tickets, clocks, files, firewalls and ssh. Each
//! is found by its name, with the advice that belongs to it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ropeway_tests::encrypted::Encrypted;
use ropeway_tests::fake;
use ropeway_tests::net::{Host, Net};
use ropeway_tests::places::{ropeway, shifted_clock};
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;
use ropeway_tests::sshd::Sshd;
use ropeway_tests::wait_for;

fn doctor(args: &[&str]) -> Program {
    Program::native(ropeway()).args(["doctor"]).args(args).env("ROPEWAY_CONNECT_TIMEOUT", "2")
}

/// The doctor of one server.
fn of(server: &str) -> Program {
    doctor(&["--server", server])
}

/// Runs it: what it finds is in one line, and the advice in the line below.
///
/// # Panics
/// When it does not say so, or says that all is well.
fn finds(doctor: Program, what: &str, advice: &str) {
    let outcome = doctor.limit(Duration::from_secs(60)).run();
    let said = &outcome.stdout;
    let mut lines = said.lines().skip_while(|line| !(line.starts_with("FAILED") && line.contains(what)));
    let found = lines.next().unwrap_or_else(|| panic!("no failure '{what}' in:\n{said}{}", outcome.stderr));
    let next = lines.next().unwrap_or_default();
    assert!(next.trim_start().starts_with("-> ") && next.contains(advice), "no advice '{advice}':\n{found}\n{next}");
    assert!(!outcome.status.success(), "{said}");
}

/// Runs it, and expects this line.
fn says(doctor: Program, line: &str) {
    let outcome = doctor.limit(Duration::from_secs(60)).run();
    assert!(outcome.stdout.lines().any(|said| said.contains(line)), "no '{line}' in:\n{}", outcome.stdout);
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn no_ticket_a_wrong_key_and_a_revoked_ticket() {
    let (server, other) = (Encrypted::start(), Encrypted::start());
    finds(of(server.server.url()), "there is no ticket for 127.0.0.1", "`ropeway ticket new NAME --host 127.0.0.1`");
    let ticket = server.new_ticket("alice", &[]);
    says(of(&ticket), &format!("ok      server {}: Ropeway", server.server.url()));
    let elsewhere = ticket.replace(server.host(), other.host());
    finds(of(&elsewhere), "it has another key than the ticket says", "do not use it before you know which");
    assert!(server.ticket(&["revoke", "alice"]).status.success());
    server.server.expect_log("clients=0");
    finds(of(&ticket), "it does not let this client's key in", "`ropeway ticket list` there");
}

#[test]
fn an_expired_ticket_and_a_clock_that_is_wrong() {
    let server = Encrypted::start();
    let ticket = server.new_ticket("brief", &["--expires", "1s"]);
    wait_for("its end", Duration::from_secs(20), || {
        (!of(&ticket).run().stdout.contains("ok      server")).then_some(())
    });
    finds(of(&ticket), "the ticket of 'brief' has expired at ", "both clocks say so");
    let shifted = |seconds: &str| of(&ticket).env("LD_PRELOAD", shifted_clock()).env("SHIFTED_CLOCK", seconds);
    finds(
        shifted("-7200"),
        "the ticket of 'brief' has expired at ",
        "the server's clock is 2h ahead of this machine's",
    );
    finds(shifted("7200"), "the ticket of 'brief' has expired at ", "the server's clock is 2h behind this machine's");
    // Less than a minute is nothing.
    finds(shifted("-20"), "the ticket of 'brief' has expired at ", "both clocks say so");
}

#[test]
fn tickets_that_others_can_read_and_what_is_none() {
    let server = Encrypted::start();
    let ticket = server.new_ticket("bob", &[]);
    let config = tempfile::tempdir().unwrap();
    let joined =
        Command::new(ropeway()).args(["join", &ticket]).env("XDG_CONFIG_HOME", config.path()).output().unwrap();
    assert!(joined.status.success(), "{joined:?}");
    let here = || of(server.server.url()).env("XDG_CONFIG_HOME", config.path());
    let folder = config.path().join("ropeway/tickets");
    says(here(), &format!("ok      tickets: 1 in {}", folder.display()));
    let file = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    set_mode(&file, 0o640);
    let named = format!("ticket {}: others can read or write it (mode 640)", file.display());
    finds(here(), &named, &format!("chmod 600 {}", file.display()));
    // The server itself is not said to be out of reach.
    finds(here(), &format!("server {}: the ticket ", server.server.url()), "the ticket's file");
    set_mode(&file, 0o600);
    fs::write(&file, &ticket[..ticket.len() - 5]).unwrap();
    finds(here(), &format!("ticket {}: ", file.display()), "`ropeway join`");
    fs::write(&file, &ticket).unwrap();
    set_mode(&folder, 0o777);
    finds(here(), &format!("tickets: others can write to {}", folder.display()), "chmod go-w");
    set_mode(&folder, 0o755);
    says(here(), &format!("ok      server {}", server.server.url()));
    // A ticket in a file of the configuration.
    let file = config.path().join("ropeway/ropeway.toml");
    fs::write(&file, format!("servers = ['{ticket}']\n")).unwrap();
    set_mode(&file, 0o644);
    let configured = || doctor(&[]).env("XDG_CONFIG_HOME", config.path());
    finds(configured(), &format!("{} has a ticket, and others can read it", file.display()), "chmod 600");
    set_mode(&file, 0o600);
    says(configured(), &format!("ok      server {}", server.server.url()));
}

#[test]
fn a_server_s_own_files() {
    let server = Encrypted::start();
    server.new_ticket("carol", &[]);
    let state = server.state.clone();
    let here = || doctor(&["--state", state.to_str().unwrap(), "--server", server.server.url()]);
    says(here(), &format!("ok      state folder {}: 1 client", state.display()));
    let (key, access) = (state.join("server.key"), state.join("access.toml"));
    set_mode(&key, 0o644);
    finds(here(), &format!("cannot use the server's key {}: others can read", key.display()), "all tickets are void");
    set_mode(&key, 0o600);
    set_mode(&access, 0o666);
    let told = format!("{0}: others can write to it; chmod go-w {0}", access.display());
    finds(here(), &told, "that all clients are yours");
    set_mode(&access, 0o600);
    set_mode(&state, 0o777);
    finds(here(), "others can write to it", "let themselves in");
    set_mode(&state, 0o700);
    let rules = fs::read_to_string(&access).unwrap();
    fs::write(&access, format!("{rules}\n[clients.carol\n")).unwrap();
    finds(here(), &format!("{}: ", access.display()), "the old rules");
    fs::write(&access, rules).unwrap();
    says(here(), &format!("ok      state folder {}: 1 client", state.display()));
    // A folder that is named has to be there; looking does not make it.
    let nothing = state.join("nothing");
    let args = ["--state", nothing.to_str().unwrap(), "--server", server.server.url()];
    finds(doctor(&args), &format!("there is no server's key in {}", nothing.display()), "`ropeway serve`");
    assert!(!nothing.exists());
}

/// A ticket for a machine on which nobody has made any.
fn ticket_for(host: &Host) -> String {
    let state = tempfile::tempdir().unwrap();
    let address = host.address().to_string();
    let args = ["ticket", "--state", state.path().to_str().unwrap(), "new", "dora", "--host", &address];
    let made = Command::new(ropeway()).args(args).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    String::from_utf8(made.stdout).unwrap().trim().to_owned()
}

#[test]
fn firewalls_and_machines_that_are_not_there() {
    let Some(net) = Net::or_skip(3) else { return };
    let (laptop, dropping, unreachable) = (net.host(0), net.host(1), net.host(2));
    let ticket = ticket_for(dropping);
    let plain = format!("tcp://{}:7590", dropping.address());
    // Its machine is there, and refuses.
    for server in [&ticket, &plain] {
        finds(of(server).on(laptop), "it cannot be reached (connection refused)", "see where it listens");
    }
    laptop.part_from(dropping);
    for server in [&ticket, &plain] {
        finds(
            of(server).on(laptop),
            "nothing answers at its address",
            "a firewall drops what is sent to its port 7590",
        );
    }
    laptop.has_no_way_to(unreachable);
    let ticket = ticket_for(unreachable);
    finds(of(&ticket).on(laptop), "there is no way to its address (no route to host)", "this machine's network");
}

#[test]
fn others_that_answer_in_a_server_s_place() {
    let server = Encrypted::start();
    let ticket = server.new_ticket("erin", &[]);
    // Encrypted servers do not take plain text, and others take nothing else.
    let plain = server.server.url().replace("tls://", "tcp://");
    finds(of(&plain), "it closed the connection", &format!("use {}", server.server.url()));
    let unencrypted = Server::start();
    let to = |address: &str| ticket.replace(server.host(), address);
    finds(of(&to(unencrypted.address())), "it does not encrypt", &format!("tcp://{}", unencrypted.address()));
    // Another service's greeting, and one that takes connections and says nothing.
    let at = |url: String| to(url.strip_prefix("tcp://").unwrap());
    let greeting = fake::answering(b"SSH-2.0-OpenSSH_9.2p1\r\n".to_vec());
    finds(of(&at(greeting)), "it does not speak TLS", "another program");
    finds(of(&at(fake::silent())), "it takes connections and says nothing", "a firewall or a proxy");
}

#[test]
fn ssh_without_a_key_that_it_uses() {
    let sshd = Sshd::start();
    let of = |url: &str| sshd.client(doctor(&["--server", url]), "0").without("SSH_AUTH_SOCK");
    let url = sshd.url();
    let key = sshd.file("key");
    set_mode(&key, 0o644);
    finds(of(&url), "ssh does not use a key that others can read", "`chmod 600` the file that it names");
    set_mode(&key, 0o600);
    // No key at all, no agent, and nobody is asked for a password.
    fs::remove_file(&key).unwrap();
    finds(of(&url), "does not let ssh in without asking", "SSH_AUTH_SOCK is not set");
    let with_agent = of(&url).env("SSH_AUTH_SOCK", "/nonexistent");
    finds(with_agent, "does not let ssh in without asking", "load the key into the agent with ssh-add");
    sshd.expect_nothing_left();
}

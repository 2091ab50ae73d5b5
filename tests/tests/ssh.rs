//! `ssh://`, servers that ssh starts on their hosts: real ssh servers on loopback.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use ropeway_tests::places::{self, c_program};
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;
use ropeway_tests::sshd::Sshd;
use ropeway_tests::{process, wait_for};
use socket2::{Domain, Socket, Type};

/// Longer than any test.
const LONG: &str = "600";

#[test]
fn programs_share_one_connection_that_is_kept_for_the_next() {
    let sshd = Sshd::start();
    let native = Program::native(c_program("vector_add")).run().success();
    let run = || sshd.program(&c_program("vector_add"), &sshd.url(), LONG).run().success();
    let first = run();
    assert_eq!((first.stdout, first.stderr), (native.stdout.clone(), String::new()));
    let (tunnel, ssh) = sshd.tunnel();
    assert_eq!(run().stdout, native.stdout);
    assert_eq!(sshd.tunnel(), (tunnel, ssh));
    // Several at once.
    let all: Vec<_> = (0..3).map(|_| sshd.program(&c_program("vector_add"), &sshd.url(), LONG).start()).collect();
    all.into_iter().for_each(|program| assert_eq!(program.finish().success().stdout, native.stdout));
    assert_eq!(sshd.tunnel(), (tunnel, ssh));
    assert_eq!(sshd.sessions(), 1);
}

/// A socket with a port of its own, where connections are refused.
fn socket_of_nobody() -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    socket
}

/// What a program that gets no device is told.
fn refusal(sshd: &Sshd) -> String {
    let outcome = sshd.program(&c_program("listing"), &sshd.url(), LONG).run();
    assert_eq!(outcome.stdout, "0 platforms\n", "it has a device");
    let sentences = outcome.stderr.lines().filter(|line| line.starts_with("ropeway:"));
    assert_eq!(sentences.count(), 1, "one sentence: {}", outcome.stderr);
    sshd.expect_nothing_left();
    outcome.stderr
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let sshd = Sshd::start();
    fs::remove_file(sshd.file("bin/ropeway")).unwrap();
    let told = refusal(&sshd);
    assert!(told.contains(&format!("ropeway is not installed on {}", sshd.alias())), "{told}");
    assert!(told.contains(&format!("`ssh {} ropeway --version` must print a version", sshd.alias())), "{told}");
    // An earlier release, and one that ends.
    let is_called = |text: &str| {
        fs::write(sshd.file("bin/ropeway"), format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(sshd.file("bin/ropeway"), fs::Permissions::from_mode(0o755)).unwrap();
    };
    is_called("echo \"error: unexpected argument '--stdio' found\" >&2; exit 2");
    let told = refusal(&sshd);
    assert!(told.contains("is of a release that cannot be used through ssh"), "{told}");
    is_called("echo 'ropeway: cannot make a folder' >&2; exit 1");
    let told = refusal(&sshd);
    assert!(told.contains("ended on ") && told.contains("exit status 1: ropeway: cannot make a folder"), "{told}");

    fs::set_permissions(sshd.file("key"), fs::Permissions::from_mode(0o644)).unwrap();
    let told = refusal(&sshd);
    assert!(told.contains("ssh does not use a key that others can read") && told.contains("chmod 600"), "{told}");
    fs::set_permissions(sshd.file("key"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::copy(sshd.file("stranger.pub"), sshd.file("authorized_keys")).unwrap();
    let told = refusal(&sshd);
    assert!(told.contains("does not let ssh in without asking") && told.contains("Permission denied"), "{told}");
    assert!(told.contains("must work without a password"), "{told}");
    let key = fs::read_to_string(sshd.file("known_hosts")).unwrap();
    fs::write(sshd.file("known_hosts"), "").unwrap();
    let told = refusal(&sshd);
    assert!(told.contains("ssh does not know the host key of"), "{told}");
    let other = fs::read_to_string(sshd.file("stranger.pub")).unwrap();
    fs::write(sshd.file("known_hosts"), format!("{} {other}", sshd.alias())).unwrap();
    let told = refusal(&sshd);
    assert!(told.contains("has another host key than the one that ssh knows"), "{told}");
    fs::write(sshd.file("known_hosts"), key).unwrap();

    let config = fs::read_to_string(sshd.file("config")).unwrap();
    let with = |from: &str, to: &str| fs::write(sshd.file("config"), config.replace(from, to)).unwrap();
    with("HostName 127.0.0.1", "HostName nobody.invalid");
    let told = refusal(&sshd);
    assert!(told.contains("ssh does not know the host name"), "{told}");
    // A port that is taken, and where nobody listens.
    let nobody = socket_of_nobody();
    with("  Port ", &format!("  Port {}\n  # ", nobody.local_addr().unwrap().as_socket().unwrap().port()));
    let told = refusal(&sshd);
    assert!(told.contains("cannot be reached by ssh") && told.contains("Connection refused"), "{told}");
    // One that takes connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    with("  Port ", &format!("  Port {}\n  # ", silent.local_addr().unwrap().port()));
    let listing = sshd.program(&c_program("listing"), &sshd.url(), LONG).env("ROPEWAY_CONNECT_TIMEOUT", "1").run();
    assert!(listing.stderr.contains("cannot be reached by ssh") && listing.stderr.contains("timed out"), "{listing:?}");
    fs::write(sshd.file("config"), config).unwrap();
    let no_ssh = sshd.program(&c_program("listing"), &sshd.url(), LONG).env("ROPEWAY_SSH", "/nonexistent/ssh").run();
    assert!(no_ssh.stderr.contains("/nonexistent/ssh cannot be started"), "{}", no_ssh.stderr);
    assert!(no_ssh.stderr.contains("apt install openssh-client"), "{}", no_ssh.stderr);
    let keep = sshd.program(&c_program("listing"), &sshd.url(), "soon").run().stderr;
    assert!(keep.contains("ROPEWAY_SSH_KEEP is not a number of seconds"), "{keep}");
    sshd.expect_nothing_left();
}

#[test]
fn a_key_may_be_for_ropeway_alone() {
    let sshd = Sshd::start();
    let key = fs::read_to_string(sshd.file("key.pub")).unwrap();
    let line = format!("restrict,port-forwarding,command=\"ropeway serve --stdio\" {key}");
    fs::write(sshd.file("authorized_keys"), line).unwrap();
    // User and port need not come from ssh's configuration.
    let config = fs::read_to_string(sshd.file("config")).unwrap();
    fs::write(sshd.file("config"), config.replace("  Port ", "  # ")).unwrap();
    let user = Command::new("id").arg("-un").output().unwrap().stdout;
    let user = String::from_utf8(user).unwrap();
    let url = format!("ssh://{}@{}:{}", user.trim(), sshd.alias(), sshd.port());
    sshd.program(&c_program("vector_add"), &url, "0").run().success();
    sshd.expect_nothing_left();
    assert_eq!(sshd.sessions(), 1);
}

#[test]
fn an_ssh_server_that_forwards_nothing_is_named() {
    let sshd = Sshd::start_with("AllowStreamLocalForwarding no");
    let told = sshd.program(&c_program("listing"), &sshd.url(), "0").run().stderr;
    assert!(told.contains("forwards no connection") && told.contains("AllowStreamLocalForwarding"), "{told}");
    sshd.expect_nothing_left();
    let doctor = Program::native(places::ropeway()).args(["doctor", "--server", &sshd.url()]);
    let told = sshd.client(doctor, "0").run().stdout;
    assert!(told.contains("-> its sshd_config must not forbid that"), "{told}");
    sshd.expect_nothing_left();
}

#[test]
fn a_server_that_is_of_no_use_is_not_kept_for_the_next_program() {
    let sshd = Sshd::start();
    // Something else is there in Ropeway's place, until that is put right.
    let socket = sshd.file("other.sock");
    let other = UnixListener::bind(&socket).unwrap();
    let script = format!("#!/bin/sh\necho listening on unix:{}\nexec cat >/dev/null\n", socket.display());
    fs::rename(sshd.file("bin/ropeway"), sshd.file("bin/right")).unwrap();
    fs::write(sshd.file("bin/ropeway"), script).unwrap();
    fs::set_permissions(sshd.file("bin/ropeway"), fs::Permissions::from_mode(0o755)).unwrap();
    let answering = thread::spawn(move || {
        let (mut client, _) = other.accept().unwrap();
        client.write_all(&[b'x'; 256]).unwrap();
        // Until the client has read it and gone.
        let _ = client.read_to_end(&mut Vec::new());
    });
    let run = |program| sshd.program(&c_program(program), &sshd.url(), LONG).run();
    let told = run("listing").stderr;
    assert!(told.contains("not a Ropeway server"), "{told}");
    answering.join().unwrap();
    sshd.expect_nothing_left();
    fs::rename(sshd.file("bin/right"), sshd.file("bin/ropeway")).unwrap();
    run("vector_add").success();
}

#[test]
fn a_server_whose_clients_machine_is_gone_ends() {
    let sshd = Sshd::start();
    let mut program = sshd.program(&c_program("servers"), &sshd.url(), LONG).start();
    assert_eq!(program.line(), "ready");
    let is_there = || fs::read_dir(sshd.file("remote")).unwrap().next().is_some();
    assert!(is_there());
    let (_, ssh) = sshd.tunnel();
    // Its connection stays, and says nothing any more.
    process::stop(ssh);
    wait_for("end of the server", Duration::from_secs(60), || (!is_there()).then_some(()));
    process::resume(ssh);
    program.kill();
    sshd.expect_nothing_left();
}

#[test]
fn what_no_program_uses_ends_and_leaves_nothing() {
    let sshd = Sshd::start();
    let run = |keep| sshd.program(&c_program("vector_add"), &sshd.url(), keep).run().success();
    run("0");
    sshd.expect_nothing_left();
    // As long as there is a program, it stays.
    let mut program = sshd.program(&c_program("servers"), &sshd.url(), "0.5").start();
    assert_eq!(program.line(), "ready");
    let tunnel = sshd.tunnel();
    run(LONG);
    // Four times as long as an unused tunnel stays.
    thread::sleep(Duration::from_secs(2));
    assert_eq!(sshd.tunnel(), tunnel);
    // A program that waits for its children has none.
    assert!(process::children(program.pid()).is_empty());
    program.kill();
    sshd.expect_nothing_left();
    assert_eq!(sshd.sessions(), 2);
}

#[test]
fn a_tunnel_keeps_nothing_of_the_program_that_started_it() {
    let sshd = Sshd::start();
    let program = c_program("vector_add");
    // A second descriptor of the output, which children get too.
    let script = format!("exec 7>&1; exec {}", program.display());
    let outcome = sshd.program(Path::new("sh"), &sshd.url(), LONG).args(["-c", &script]).run().success();
    assert!(outcome.stdout.contains("sums are right"), "{}", outcome.stdout);
    let (tunnel, _) = sshd.tunnel();
    // Whoever reads the output has seen its end; the tunnel has a session of its own, and no terminal.
    let stat = fs::read_to_string(format!("/proc/{tunnel}/stat")).unwrap();
    let session = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(3).unwrap();
    assert_eq!(session, tunnel.to_string());
}

#[test]
fn a_tunnel_that_is_killed_is_replaced() {
    let sshd = Sshd::start();
    let run = || sshd.program(&c_program("vector_add"), &sshd.url(), LONG).run().success();
    run();
    let (tunnel, ssh) = sshd.tunnel();
    process::kill(tunnel);
    wait_for("end of its ssh", Duration::from_secs(20), || (!process::is_alive(ssh)).then_some(()));
    run();
    let (second, ssh) = sshd.tunnel();
    assert_ne!(second, tunnel);
    // An ssh that ends takes its tunnel with it.
    process::kill(ssh);
    sshd.expect_nothing_left();
    run();
    // At once, while the ssh of the tunnel before may still be there.
    process::kill(sshd.tunnel().0);
    run();
    assert_eq!(sshd.sessions(), 4);
}

#[test]
fn a_tunnel_that_others_may_have_made_is_not_used() {
    let sshd = Sshd::start();
    let run = || sshd.program(&c_program("vector_add"), &sshd.url(), LONG).run();
    run().success();
    let folder = fs::read_dir(sshd.file("client")).unwrap().next().unwrap().unwrap().path();
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let told = run();
    assert!(!told.status.success() && told.stderr.contains("is not this user's alone"), "{}", told.stderr);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    run().success();
    assert_eq!(sshd.sessions(), 1);
}

#[test]
fn programs_that_come_at_once_share_a_tunnel() {
    let sshd = Sshd::start();
    let program = || sshd.program(&c_program("vector_add"), &sshd.url(), LONG).start();
    let all: Vec<_> = (0..6).map(|_| program()).collect();
    all.into_iter().for_each(|program| drop(program.finish().success()));
    sshd.tunnel();
    assert_eq!(sshd.sessions(), 1);
}

#[test]
fn two_hosts_and_a_server_beside_them_are_one_context() {
    let (one, two) = (Sshd::start(), Sshd::start());
    one.know(&two);
    let native = Program::native(c_program("many_servers")).env("POCL_DEVICES", "pthread pthread pthread");
    let native = native.args(["all"]).run().success();
    let server = Server::start();
    let all = format!("{},{},{}", one.url(), two.url(), server.url());
    let remote = one.program(&c_program("many_servers"), &all, LONG).args(["all"]).run().success();
    assert_eq!(remote.stdout, native.stdout, "left: through Ropeway, right: native; {}", remote.stderr);
    assert!(remote.stdout.starts_with("3 devices in one context\n"), "{}", remote.stdout);
    let apart = format!("{} and {} do not reach each other", one.url(), two.url());
    let turned = format!("{} and {} do not reach each other", two.url(), one.url());
    assert!(remote.stderr.contains(&apart) || remote.stderr.contains(&turned), "{}", remote.stderr);
    // Nobody was tried in vain: the sockets of this machine are nothing to others.
    assert!(!remote.stderr.contains("unix:"), "{}", remote.stderr);
    assert!(!server.log().contains("refused"), "{}", server.log());
    assert_eq!((one.sessions(), two.sessions()), (1, 1));
}

#[test]
fn the_tools_know_it() {
    let sshd = Sshd::start();
    let tool = |args: &[&str]| sshd.client(Program::native(places::ropeway()).args(args), LONG).run();
    let url = sshd.url();
    let devices = tool(&["devices", "--server", &url]).success();
    assert!(devices.stdout.contains(&url) && devices.stdout.contains(" us "), "{}", devices.stdout);
    let doctor = tool(&["doctor", "--server", &url]);
    assert!(doctor.stdout.contains(&format!("ok      server {url}: Ropeway")), "{}", doctor.stdout);
    let listing = c_program("listing");
    let run = tool(&["run", "--only", "--server", &url, "--", listing.to_str().unwrap()]).success();
    assert_eq!(run.stdout, "Ropeway: 1 devices (0)\n1 platforms\n", "{}", run.stderr);
    assert_eq!(sshd.sessions(), 1);

    let locked = Sshd::start();
    fs::copy(locked.file("stranger.pub"), locked.file("authorized_keys")).unwrap();
    let args = ["doctor", "--server", &locked.url()];
    let agent = |socket: Option<&str>| {
        let doctor = locked.client(Program::native(places::ropeway()).args(args), LONG);
        match socket {
            Some(socket) => doctor.env("SSH_AUTH_SOCK", socket),
            None => doctor.without("SSH_AUTH_SOCK"),
        }
        .run()
        .stdout
    };
    let told = agent(None);
    assert!(told.contains("does not let ssh in without asking"), "{told}");
    assert!(told.contains("-> ") && told.contains("SSH_AUTH_SOCK is not set"), "{told}");
    assert!(agent(Some("/nonexistent")).contains("load the key into the agent with ssh-add"));
}

//! `ucx://`: sessions that open over a socket and go on over UCX, by the transports that any machine has. For a build with
//! the feature `ucx` (`make ucx`), but for the first.

use std::fs;
use std::io::{IoSlice, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use ropeway_protocol::handshake::{Opening, Purpose, features};
use ropeway_tests::interrupted::{kill_clients, kill_workers};
use ropeway_tests::places::{c_program, ropeway};
use ropeway_tests::program::{Outcome, Program};
use ropeway_tests::raw::{hello_with, opening};
use ropeway_tests::server::Server;
use ropeway_transport::{Endpoint, Link, Sender as _};

/// Values of `UCX_TLS`.
const TRANSPORTS: [&str; 2] = ["tcp,self", "shm,self"];

/// How soon everybody has to know that the other is gone.
const SOON: Duration = Duration::from_secs(5);

fn serve(transports: &str) -> Server {
    Server::start_with(&["--listen", "ucx://127.0.0.1:0"], &[("UCX_TLS", transports)])
}

fn through(server: &Server, program: PathBuf, transports: &str) -> Program {
    Program::remote(program, server.url()).env("UCX_TLS", transports)
}

fn remote(name: &str, server: &Server, transports: &str) -> Program {
    through(server, c_program(name), transports)
}

/// A program that has no device, and says why.
fn refusal(program: Program) -> Outcome {
    let outcome = program.run();
    assert_eq!(outcome.stdout, "0 platforms\n", "it has a device");
    outcome
}

#[test]
fn an_ordinary_build_says_that_it_is_without() {
    const TOLD: &str = "ucx:// is not a part of this build";
    let refused = Program::here(ropeway()).args(["serve", "--listen", "ucx://127.0.0.1:0"]).run();
    assert!(!refused.status.success() && refused.stderr.contains(TOLD), "{}", refused.stderr);
    let server = Server::start();
    let told = refusal(Program::remote(c_program("listing"), &server.url().replace("tcp://", "ucx://"))).stderr;
    assert!(told.contains(TOLD), "{told}");
}

#[test]
#[ignore = "for a build with the feature ucx: make ucx"]
fn unmodified_programs_run_over_it() {
    let native = Program::native(c_program("transfers")).run().success();
    for transports in TRANSPORTS {
        let server = serve(transports);
        let added = remote("vector_add", &server, transports).run().success();
        assert_eq!((added.stdout.as_str(), added.stderr.as_str()), ("1024 sums are right\n", ""), "{transports}");
        // Of all sizes up to many messages'.
        assert_eq!(remote("transfers", &server, transports).run().success().stdout, native.stdout, "{transports}");
        let log = server.log();
        assert!(!log.contains("UCX"), "{transports}: {log}");
    }
}

/// As a server and a program have it that know nothing of transports.
#[test]
#[ignore = "for a build with the feature ucx: make ucx"]
fn a_person_is_told_of_it() {
    let server = Server::start_with(&["--listen", "ucx://127.0.0.1:0", "--listen", "tcp://127.0.0.1:0"], &[]);
    assert!(server.url().starts_with("ucx://127.0.0.1:"), "{}", server.url());
    let devices = Program::remote(ropeway(), server.url()).args(["devices"]).run().success();
    assert!(devices.stdout.lines().any(|line| line.contains("ucx://") && line.contains(" UCX ")), "{}", devices.stdout);
    let doctor = Program::remote(ropeway(), server.url()).args(["doctor"]).run();
    assert!(doctor.stdout.contains("through UCX"), "{}", doctor.stdout);
    // Who comes to the same port as to another is served as there.
    let plain = format!("shm:off,tcp://{}", server.address());
    Program::remote(c_program("vector_add"), &plain).run().success();
}

#[test]
#[ignore = "for a build with the feature ucx: make ucx"]
fn who_has_no_library_is_told_what_to_install() {
    // In place of the library is a file that is none.
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("libucp.so.0"), "").unwrap();
    let without = |program: Program| program.env("LD_LIBRARY_PATH", folder.path());
    let server = Server::start_with(&["--listen", "ucx://127.0.0.1:0"], &[]);
    let told = refusal(without(Program::remote(c_program("listing"), server.url()))).stderr;
    assert!(told.contains(server.url()) && told.contains("ucx:// needs UCX") && told.contains("libucx0"), "{told}");
    let doctor = without(Program::remote(ropeway(), server.url()).args(["doctor"])).run();
    assert!(doctor.stdout.contains("libucx0") && doctor.stdout.contains("tcp://"), "{}", doctor.stdout);
    let refused = without(Program::here(ropeway()).args(["serve", "--listen", "ucx://127.0.0.1:0"])).run();
    assert!(!refused.status.success() && refused.stderr.contains("libucx0"), "{}", refused.stderr);
    // Everything else goes on without it.
    let server = Server::start_with(
        &["--listen", "tcp://127.0.0.1:0"],
        &[("LD_LIBRARY_PATH", folder.path().to_str().expect("a plain name"))],
    );
    without(Program::remote(c_program("vector_add"), server.url())).run().success();
}

#[test]
#[ignore = "for a build with the feature ucx: make ucx"]
fn who_has_no_transport_in_common_is_told_so() {
    let server = serve("tcp,self");
    let told = refusal(remote("listing", &server, "shm,self")).stderr;
    assert!(told.contains("UCX cannot reach the other side"), "{told}");
    remote("vector_add", &server, "tcp,self").run().success();
}

#[test]
#[ignore = "for a build with the feature ucx: make ucx"]
fn a_server_takes_only_what_it_was_asked_for() {
    let server = Server::start();
    let ucx = server.url().replace("tcp://", "ucx://");
    let told = refusal(Program::remote(c_program("listing"), &ucx)).stderr;
    assert!(told.contains("takes no sessions over UCX"), "{told}");
    let open = Program::here(ropeway()).args(["serve", "--listen", "ucx://0.0.0.0:0"]).run();
    assert!(!open.status.success() && open.stderr.contains("--plaintext-network"), "{}", open.stderr);
}

/// Programs that end at any time, in the midst of transfers of 32 MB and of small commands, leave a server as it was.
#[test]
#[ignore = "for a build with the feature ucx: make ucx"]
fn clients_are_killed_at_any_time() {
    for transports in TRANSPORTS {
        let server = serve(transports);
        kill_clients(&server, |program| through(&server, program, transports), 20, SOON);
        remote("vector_add", &server, transports).run().success();
    }
    assert_eq!(segments(), 0, "memory is left over");
}

#[test]
#[ignore = "for a build with the feature ucx: make ucx"]
fn workers_are_killed_at_any_time() {
    for transports in TRANSPORTS {
        let server = serve(transports);
        kill_workers(&server, |program| through(&server, program, transports), 20, SOON);
        remote("vector_add", &server, transports).run().success();
    }
}

/// Segments of System V memory that nobody has attached.
fn segments() -> usize {
    let list = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    list.lines().skip(1).filter(|line| line.split_whitespace().nth(6) == Some("0")).count()
}

/// A connection that has been welcomed and wants to go on over UCX.
fn welcomed(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(&hello_with(Purpose::Commands, features::UCX)).unwrap();
    assert_eq!(opening(&mut stream).unwrap().0.opening, Opening::Welcome);
    stream
}

/// What a stranger says in place of where its UCX is costs nobody but its own session anything.
#[test]
#[ignore = "for a build with the feature ucx: make ucx"]
fn strangers_end_alone() {
    let server = serve("tcp,self");
    let mut held = remote("held", &server, "tcp,self").start();
    assert_eq!(held.line(), "ready");
    let mut honest = welcomed(&server);
    let mut head = [0; 28];
    honest.read_exact(&mut head).unwrap();
    let len = u32::from_le_bytes(*head.last_chunk().unwrap());
    assert!(head.starts_with(b"ROPE-UCX") && len < 65_536);
    let mut address = vec![0; len as usize];
    honest.read_exact(&mut address).unwrap();
    let say = |head: &[u8], body: &[u8]| {
        let mut stream = welcomed(&server);
        // The worker may be done with it at any time.
        let _ = stream.write_all(&[head, body].concat());
        let _ = stream.read_to_end(&mut Vec::new());
    };
    say(&[0; 28], &[]);
    let long = [&head[..24], &u32::MAX.to_le_bytes()[..]].concat();
    say(&long, &address);
    // An address of another kind at each of its places: UCX trusts what it is told, and may crash.
    for at in (0..address.len()).step_by(address.len().div_ceil(12)) {
        let mut changed = address.clone();
        changed[at] ^= 0xA5;
        let mut stream = welcomed(&server);
        let _ = stream.write_all(&[&head[..], &changed].concat());
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    }
    drop(honest);
    held.say("");
    assert_eq!(held.line(), "1", "another session goes on");
    held.kill();
    let endpoint: Endpoint = format!("tcp://{}", server.address()).parse().unwrap();
    let silent = Link::connect(&endpoint, SOON).unwrap();
    silent.send_all(&mut [IoSlice::new(&[])]).unwrap();
    remote("vector_add", &server, "tcp,self").run().success();
}

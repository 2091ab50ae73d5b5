//! One side ends in mid-program: the other learns it in time, and nothing hangs.

use std::thread;
use std::time::{Duration, Instant};

use ropeway_tests::places::c_program;
use ropeway_tests::program::{Program, Running};
use ropeway_tests::proxy::{Fault, Proxy};
use ropeway_tests::server::Server;
use ropeway_tests::{interrupted, process, wait_for};

/// How soon everybody has to know.
const SOON: Duration = Duration::from_secs(2);

/// The ways of waiting for a device.
const MODES: [&str; 7] = ["finish", "events", "read", "write", "map", "remap", "build"];

fn start(mode: &str, url: &str) -> Running {
    let mut program = Program::remote(c_program("interrupted"), url).args([mode]).start();
    assert_eq!(program.line(), "ready", "{mode}");
    // Into the middle of its waiting, which lasts: nothing tells of it, and data may be on its way meanwhile.
    thread::sleep(Duration::from_millis(200));
    program
}

/// The program's waiting call returns an error in time, later ones at once, and the program ends by itself.
fn expect_errors(mode: &str, mut program: Running, since: Instant) {
    let ended = program.line();
    assert!(ended.starts_with("ended with -"), "{mode}: {ended}");
    assert!(since.elapsed() < SOON, "{mode}: only after {:?}", since.elapsed());
    let outcome = program.finish().success();
    assert_eq!(outcome.stdout, "finish 1\nread 1\nat once 1\n", "{mode}");
}

#[test]
fn the_worker_is_killed() {
    let server = Server::start();
    for mode in MODES {
        let program = start(mode, server.url());
        let worker = server.worker_of(program.pid());
        let since = Instant::now();
        process::kill(worker);
        expect_errors(mode, program, since);
    }
    // The server replaces its workers and says what happened.
    Program::remote(c_program("vector_add"), server.url()).run().success();
    server.expect_log("its worker failed");
}

#[test]
fn the_server_is_killed() {
    for mode in MODES {
        let mut server = Server::start();
        let program = start(mode, server.url());
        let workers = server.workers();
        let since = Instant::now();
        server.kill();
        expect_errors(mode, program, since);
        for worker in workers {
            wait_for("end of the worker", SOON, || (!process::is_alive(worker)).then_some(()));
        }
    }
}

#[test]
fn the_server_is_stopped() {
    let mut server = Server::start();
    let program = start("events", server.url());
    let since = Instant::now();
    assert!(server.stop().success(), "{}", server.log());
    expect_errors("events", program, since);
}

#[test]
fn the_link_is_cut() {
    let server = Server::start();
    let proxy = Proxy::to(server.address(), Fault::CutAfter(8 << 20));
    let program = Program::remote(c_program("interrupted"), proxy.url()).args(["read"]).run().success();
    assert!(program.stdout.contains("ended with -"), "{}", program.stdout);
    assert!(program.stdout.ends_with("finish 1\nread 1\nat once 1\n"), "{}", program.stdout);
    assert_eq!(program.stderr.matches("is lost: it closed the connection;").count(), 1, "{}", program.stderr);
}

#[test]
fn the_link_garbles() {
    let server = Server::start();
    let proxy = Proxy::to(server.address(), Fault::GarbleFrom(8 << 20));
    // From that byte on even bulk data may be wrong without anybody noticing; the next header cannot.
    let program = Program::remote(c_program("interrupted"), proxy.url()).args(["read"]).run().success();
    assert!(program.stdout.contains("ended with -"), "{}", program.stdout);
}

/// Nobody says that the cable was pulled; a server that gives no sign of life for 20 seconds is taken for lost.
#[test]
fn the_link_goes_silent() {
    let server = Server::start();
    let silenced = Proxy::to(server.address(), Fault::None);
    let mut programs: Vec<_> = ["finish", "read"].map(|mode| start(mode, silenced.url())).into();
    // One that waits as long, but for a server that lives, goes on waiting.
    let mut patient = start("events", server.url());
    silenced.freeze();
    let since = Instant::now();
    interrupted::expect_loss_by_silence(&mut programs, since);
    // One with more patience is still there after this time, which is what the test is about.
    thread::sleep(Duration::from_secs(25).saturating_sub(since.elapsed()));
    assert!(process::is_alive(patient.pid()));
    process::kill(server.worker_of(patient.pid()));
    assert!(patient.line().starts_with("ended with -"));
}

#[test]
fn the_link_is_slow() {
    let server = Server::start();
    let proxy = Proxy::to(server.address(), Fault::Delay(Duration::from_millis(20)));
    for name in ["vector_add", "events", "mapping"] {
        let native = Program::native(c_program(name)).run().success();
        let slow = Program::remote(c_program(name), proxy.url()).run().success();
        assert_eq!(slow.stdout, native.stdout);
    }
}

#[test]
fn the_client_is_killed() {
    let server = Server::start();
    let mut program = Program::remote(c_program("held"), server.url()).start();
    assert_eq!(program.line(), "ready");
    let worker = server.worker_of(program.pid());
    assert!(process::is_alive(worker));
    program.kill();
    wait_for("end of the worker", SOON, || (!process::is_alive(worker)).then_some(()));
    server.expect_log("session ends");
    Program::remote(c_program("vector_add"), server.url()).run().success();
}

/// A child that the program has forked keeps none of its connections, and needs to call nothing for that.
#[test]
fn a_client_is_killed_that_has_forked() {
    let runtime = tempfile::tempdir().expect("a temporary folder can be made");
    let servers = [(Some(Server::start()), ""), (Some(Server::start()), "shm:off,sockets:3,")];
    for (server, how) in servers.into_iter().chain([(Some(Server::start_unix()), ""), (None, "")]) {
        let url = &format!("{how}{}", server.as_ref().map_or("local:", Server::url));
        let mut program = Program::remote(c_program("fork_stays"), url).env("XDG_RUNTIME_DIR", runtime.path()).start();
        let child: u32 = program.line().parse().expect("the program says its child's process id");
        let child = Killed(child);
        program.say("");
        assert_eq!(program.line(), "right");
        let serves = match &server {
            Some(server) => server.worker_of(program.pid()),
            None => process::with_argument(&runtime.path().to_string_lossy())[0],
        };
        program.kill();
        wait_for("end of the server's part", SOON, || (!process::is_alive(serves)).then_some(()));
        assert!(process::is_alive(child.0), "{url}");
    }
}

/// A process that ends with the test.
struct Killed(u32);

impl Drop for Killed {
    fn drop(&mut self) {
        process::kill(self.0);
    }
}

#[test]
fn a_client_that_leaves_in_the_middle_of_a_transfer_is_gone_too() {
    let server = Server::start();
    for mode in ["read", "write"] {
        let program = start(mode, server.url());
        let worker = server.worker_of(program.pid());
        program.kill();
        wait_for("end of the worker", SOON, || (!process::is_alive(worker)).then_some(()));
    }
}

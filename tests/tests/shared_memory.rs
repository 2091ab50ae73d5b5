//! Links through memory that the client's process and the worker's both see.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use ropeway_protocol::handshake::{Hello, Opening, PREAMBLE_LEN, Preamble, Purpose, encode_opening, features};
use ropeway_tests::places::{c_program, ropeway};
use ropeway_tests::program::{Program, Running};
use ropeway_tests::proxy::{Fault, Proxy};
use ropeway_tests::server::Server;
use ropeway_tests::shared_memory::{held, mapped};
use ropeway_tests::turns::{added, at_random};
use ropeway_tests::{process, wait_for};

/// How soon everybody has to know that the other is gone.
const SOON: Duration = Duration::from_secs(2);

fn start(mode: &str, servers: &str) -> Running {
    let mut program = Program::remote(c_program("interrupted"), servers).args([mode]).start();
    assert_eq!(program.line(), "ready", "{mode}");
    program
}

#[test]
fn a_client_of_this_machine_has_it_unless_it_wants_none() {
    for server in [Server::start_unix(), Server::start()] {
        for (servers, expected) in [(server.url().to_owned(), 1), (format!("shm:off,{}", server.url()), 0)] {
            let program = start("events", &servers);
            let worker = server.worker_of(program.pid());
            assert_eq!((mapped(program.pid()), mapped(worker)), (expected, expected), "{servers}");
            assert_eq!((held(program.pid()), held(worker), held(server.pid())), (0, 0, 0), "a mapping needs none");
            program.kill();
        }
    }
}

/// Who stands between the two, as one who slows the link or counts what goes over it, goes on doing that.
#[test]
fn nobody_is_gone_round() {
    let server = Server::start();
    let proxy = Proxy::to(server.address(), Fault::Delay(Duration::ZERO));
    let program = start("events", proxy.url());
    assert_eq!((mapped(program.pid()), mapped(server.worker_of(program.pid()))), (0, 0));
    program.kill();
}

/// A client that finds no such place, as one at the other end of a forwarded port, says so by a byte, and is served.
#[test]
fn a_client_that_hands_in_nothing_is_served_through_its_socket() {
    let server = Server::start();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let hello = Hello {
        features: features::TAKES_NEARBY,
        purpose: Purpose::Commands,
        release: "0.1.0".into(),
        program: "test".into(),
        pid: std::process::id(),
        credential: vec![],
    };
    stream.write_all(&encode_opening(Opening::Hello, &hello)).unwrap();
    assert_eq!(opening(&mut stream), Opening::Nearby);
    stream.write_all(&[0]).unwrap();
    assert_eq!(opening(&mut stream), Opening::Welcome);
}

/// What a server answers.
fn opening(stream: &mut TcpStream) -> Opening {
    let mut head = [0; PREAMBLE_LEN];
    stream.read_exact(&mut head).unwrap();
    let preamble = Preamble::from_bytes(&head).unwrap();
    let mut body = vec![0; preamble.len as usize];
    stream.read_exact(&mut body).unwrap();
    assert!(preamble.opening != Opening::Refusal, "{}", String::from_utf8_lossy(&body));
    preamble.opening
}

#[test]
fn a_person_is_told_of_it() {
    let server = Server::start_unix();
    for (list, medium) in
        [(server.url().to_owned(), "shared memory"), (format!("shm:off,{}", server.url()), "Unix socket")]
    {
        let devices = Program::remote(ropeway(), &list).args(["devices"]).run().success();
        assert!(devices.stdout.contains(medium), "{}", devices.stdout);
        let doctor = Program::remote(ropeway(), &list).args(["doctor"]).run();
        assert!(doctor.stdout.contains(&format!("through {medium}")), "{}", doctor.stdout);
    }
}

/// Programs that end at any time, in the midst of transfers of 32 MB and of small commands, leave a server as it was.
#[test]
fn clients_are_killed_at_any_time() {
    let server = Server::start_unix();
    for round in 0..24_u64 {
        let program = start(["read", "write", "map", "finish"][round as usize % 4], server.url());
        let worker = server.worker_of(program.pid());
        // Not a condition: any moment will do.
        thread::sleep(Duration::from_micros(round * 1717 % 20_000));
        program.kill();
        wait_for("end of the worker", SOON, || (!process::is_alive(worker)).then_some(()));
    }
    assert_eq!((mapped(server.pid()), held(server.pid())), (0, 0));
    Program::remote(c_program("vector_add"), server.url()).run().success();
}

#[test]
fn workers_are_killed_at_any_time() {
    let server = Server::start_unix();
    for round in 0..24_u64 {
        let mode = ["read", "write", "map", "finish"][round as usize % 4];
        let mut program = start(mode, server.url());
        let worker = server.worker_of(program.pid());
        thread::sleep(Duration::from_micros(round * 1717 % 20_000));
        let since = Instant::now();
        process::kill(worker);
        let ended = program.line();
        assert!(ended.starts_with("ended with -"), "{mode}: {ended}");
        assert!(since.elapsed() < SOON, "{mode}: only after {:?}", since.elapsed());
        program.finish().success();
    }
    Program::remote(c_program("vector_add"), server.url()).run().success();
}

/// `in_place`, through memory that it shares with this server.
fn in_place(server: &Server) -> Program {
    Program::remote(c_program("in_place"), server.url())
}

/// Where no command is under way, who reads, writes or maps a buffer tells nobody.
#[test]
fn nothing_is_sent_for_what_the_program_sees() {
    let server = Server::start_unix();
    for mode in ["writes", "reads", "maps"] {
        let added = added(|| in_place(&server), mode);
        // What is released last of all may not be sent, and numbers of a session take more or fewer bytes.
        let bytes = added.bytes_sent.abs().max(added.bytes_received.abs());
        assert!(added.sent.abs() <= 1 && added.received == 0 && bytes < 100, "{mode}: {added:?}");
    }
}

#[test]
fn behind_a_kernel_only_its_end_is_asked_for() {
    let server = Server::start_unix();
    let added = added(|| in_place(&server), "launches");
    assert!((199..=201).contains(&added.sent) && added.received == 100, "{added:?}");
    assert!(added.bytes_sent + added.bytes_received < 100 * 200, "{added:?}");
}

/// Commands in each run of `in_place` at random.
const STEPS: u32 = 300;

#[test]
fn in_place_at_random_natively() {
    at_random(|| Program::native(c_program("in_place")), STEPS);
}

#[test]
fn in_place_at_random() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("unix:{}", folder.path().join("ropeway.sock").display());
    let three = Server::start_with(&["--listen", &url], &[("POCL_DEVICES", "pthread pthread pthread")]);
    for server in [Server::start_unix(), three] {
        at_random(|| in_place(&server), STEPS);
    }
}

//! Links through memory that the client's process and the worker's both see.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use ropeway_protocol::handshake::{Hello, Opening, PREAMBLE_LEN, Preamble, Purpose, encode_opening, features};
use ropeway_tests::places::{c_program, ropeway};
use ropeway_tests::program::{Program, Running};
use ropeway_tests::proxy::{Fault, Proxy};
use ropeway_tests::server::Server;
use ropeway_tests::{process, wait_for};

/// How soon everybody has to know that the other is gone.
const SOON: Duration = Duration::from_secs(2);

/// How often this process has such memory mapped.
fn mapped(pid: u32) -> usize {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines().filter(|line| line.contains("/memfd:ropeway-link")).count()
}

/// The descriptors of a process that are such memory, or connections: two names for what must not be left over.
fn held(pid: u32) -> usize {
    let folder = fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs");
    let names = folder.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    names.filter(|name| name.to_string_lossy().contains("memfd:ropeway-link")).count()
}

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
    stream.read_exact(&mut vec![0; preamble.len as usize]).unwrap();
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

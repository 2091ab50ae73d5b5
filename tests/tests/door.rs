//! Strangers at an encrypted server: none comes in, and nobody else notices.

use std::io::{IoSlice, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use ropeway_protocol::VERSION;
use ropeway_protocol::handshake::{Opening, PREAMBLE_LEN, Preamble, Purpose};
use ropeway_tests::encrypted::Encrypted;
use ropeway_tests::keyless;
use ropeway_tests::places::c_program;
use ropeway_tests::process::{is_alive, resident};
use ropeway_tests::program::{Program, Running};
use ropeway_tests::raw::hello;
use ropeway_tests::wait_for;
use ropeway_transport::tls::Identity;
use ropeway_transport::{Endpoint, Link, Pass, Sender as _};

/// How long a stranger waits for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Attempts, unless `ROPEWAY_ATTEMPTS` says how many.
const ATTEMPTS: usize = 3000;

/// How long a session may run beside all attempts.
const RUNNING: Duration = Duration::from_secs(3600);

/// Empty kernels whose median is that of a session without strangers.
const KERNELS: &str = "20000";

/// Sends bytes, and reads what comes until the server has closed.
fn blurt(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = Vec::new();
    // The server may be done with it at any time.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// The bytes that a client with a ticket sends until it has its welcome, in the pieces in which it sends them.
fn recorded(encrypted: &Encrypted, ticket: &str) -> Vec<Vec<u8>> {
    let (listener, to) = (TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(), encrypted.host().to_owned());
    let through = listener.local_addr().unwrap().to_string();
    let recording = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut server = TcpStream::connect(to).unwrap();
        let (mut back, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        thread::spawn(move || {
            let _ = std::io::copy(&mut back, &mut to_client);
            let _ = to_client.shutdown(Shutdown::Both);
        });
        let (mut pieces, mut piece) = (Vec::new(), vec![0; 1 << 16]);
        while let Ok(len @ 1..) = client.read(&mut piece) {
            pieces.push(piece[..len].to_vec());
            if server.write_all(&piece[..len]).is_err() {
                break;
            }
        }
        let _ = server.shutdown(Shutdown::Both);
        pieces
    });
    let through = ticket.replace(encrypted.host(), &through);
    Program::remote(c_program("vector_add"), &through).run().success();
    recording.join().unwrap()
}

/// How the server answers the hello of somebody with this key; `None`: not at all.
fn knock(endpoint: &Endpoint, identity: &Identity) -> Option<Opening> {
    knock_with(endpoint, identity, &hello(Purpose::Commands))
}

fn knock_with(endpoint: &Endpoint, identity: &Identity, hello: &[u8]) -> Option<Opening> {
    // In TLS 1.3, the client is done before it hears whether the server is.
    let link = Link::connect_as(endpoint, identity, PATIENCE).ok()?;
    link.send_all(&mut [IoSlice::new(hello)]).ok()?;
    let mut answer = [0; PREAMBLE_LEN];
    link.recv_exact_by(&mut answer, Instant::now() + PATIENCE).ok()?;
    Some(Preamble::from_bytes(&answer).unwrap().opening)
}

/// A hello of another version of the protocol.
fn hello_of_version(version: u16) -> Vec<u8> {
    let mut bytes = hello(Purpose::Commands);
    let preamble = Preamble::from_bytes(bytes.first_chunk().unwrap()).unwrap();
    bytes[..PREAMBLE_LEN].copy_from_slice(&Preamble { version, ..preamble }.to_bytes());
    bytes
}

/// How many empty kernels a session has run since the last line, and their median and longest duration in µs.
fn empties(session: &mut Running) -> [f64; 3] {
    let line = session.line();
    let numbers: Vec<f64> = line.split(' ').map(|number| number.parse().unwrap_or_else(|_| panic!("{line}"))).collect();
    numbers.try_into().unwrap()
}

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

#[test]
fn strangers_of_every_kind_stay_outside() {
    let encrypted = Encrypted::start();
    let ticket = encrypted.new_ticket("known", &[]);
    let (expired, revoked) = (encrypted.new_ticket("late", &["--expires", "1s"]), encrypted.new_ticket("revoked", &[]));
    assert!(encrypted.ticket(&["revoke", "revoked"]).status.success());
    let address: SocketAddr = encrypted.host().parse().unwrap();
    let flights = recorded(&encrypted, &ticket);
    let whole = flights.concat();
    assert!(whole.len() > 500);
    let as_known: Endpoint = ticket.parse().unwrap();
    let identity_of = |ticket: &str| match ticket.parse::<Endpoint>().unwrap().pass() {
        Some(Pass::Ticket(ticket)) => Identity::from_seed_text(&ticket.identity.seed_text()).unwrap(),
        _ => panic!("it is no ticket"),
    };
    let over = || !Program::remote(c_program("vector_add"), &expired).run().status.success();
    wait_for("the end of a ticket's time", PATIENCE, || over().then_some(()));
    let (known, late, gone) = (identity_of(&ticket), identity_of(&expired), identity_of(&revoked));

    // A TLS 1.2 client's greeting, and another protocol's.
    let old = b"\x16\x03\x01\x00\x2f\x01\x00\x00\x2b\x03\x03aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\x00\x00\x04\xc0\x2f\x00\x9c\x01\x00";
    let attempts = std::env::var("ROPEWAY_ATTEMPTS").map_or(ATTEMPTS, |text| text.parse().unwrap());
    let first = flights[0].len();
    let daemon = encrypted.server.pid();
    // A session that has work all the while.
    let mut session = Program::remote(c_program("empties"), &ticket).limit(RUNNING).start();
    session.say(KERNELS);
    let before = empties(&mut session);
    session.say("on");
    assert_eq!(session.line(), "on");
    let (begun, at_first) = (Instant::now(), (resident(daemon), descriptors(daemon)));
    let (mut memory, mut files) = at_first;
    for attempt in 0..attempts {
        let turn = attempt / 12;
        match attempt % 12 {
            0 => assert_eq!(knock(&as_known, &Identity::generate().unwrap()), None, "a key that nobody knows"),
            1 => assert_eq!(knock(&as_known, &gone), None, "a revoked ticket"),
            2 => assert_eq!(knock(&as_known, &late), Some(Opening::Refusal), "an expired ticket"),
            // A client's own bytes once more: its first flight gets an answer, and its second is of no use.
            3 => drop(blurt(address, &whole)),
            4 => drop(blurt(address, &whole[..turn % whole.len()])),
            5 => drop(blurt(address, old)),
            6 => drop(blurt(address, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")),
            7 => drop(blurt(address, &[])),
            8 => assert_eq!(keyless::knock(address, &hello(Purpose::Commands), PATIENCE), b"", "no key"),
            // Other versions of the protocol: a stranger's in plain text hears nothing, a client's the reason.
            9 if turn % 2 == 0 => assert_eq!(blurt(address, &hello_of_version(!VERSION)), b"", "another version"),
            9 => {
                let answer = knock_with(&as_known, &known, &hello_of_version(VERSION - 1));
                assert_eq!(answer, Some(Opening::Refusal), "an earlier version");
            }
            kind => {
                // Garbage at each byte of the handshake.
                let mut bytes = whole.clone();
                let at = turn % if kind == 10 { first } else { bytes.len() };
                bytes[at] ^= 1 << (turn % 8) | 1;
                blurt(address, &bytes);
            }
        }
        if attempt == attempts / 2 {
            (memory, files) = (resident(daemon), descriptors(daemon));
        }
    }
    let took = begun.elapsed();
    session.say("off");
    let meanwhile = empties(&mut session);
    assert!(meanwhile[0] > 0.0, "the session was served");
    session.finish().success();
    // Nobody came in but who was let in: the sessions of the recording, those whose time was over, and the one that ran.
    let log = encrypted.server.log();
    let ours = |line: &str| line.contains("vector_add") || line.contains("empties");
    let strangers = log.lines().filter(|line| line.contains("session begins") && !ours(line));
    assert_eq!(strangers.collect::<Vec<_>>(), [""; 0]);
    assert!(!log.contains("panicked"), "{log}");
    assert!(is_alive(daemon));
    // The last connections may still be on their way out.
    let now = (resident(daemon), descriptors(daemon));
    let [(_, median, longest), (kernels, median_meanwhile, longest_meanwhile)] =
        [before, meanwhile].map(|[count, median, longest]| (count, median, longest));
    println!(
        "{attempts} attempts in {:.1} s; daemon: {} kB and {} descriptors before, {} and {} at half, {} and {} after\n\
         an empty kernel and clFinish: {median} µs before (at most {longest}), {median_meanwhile} µs meanwhile (at most \
         {longest_meanwhile}, {kernels} of them)",
        took.as_secs_f64(),
        at_first.0 >> 10,
        at_first.1,
        memory >> 10,
        files,
        now.0 >> 10,
        now.1,
    );
    assert!(now.0 <= memory + (4 << 20), "{memory} bytes became {}", now.0);
    assert!(now.1 <= files + 8, "{files} descriptors became {}", now.1);
    Program::remote(c_program("vector_add"), &ticket).run().success();
}

#[test]
fn many_silent_connections_from_one_address_keep_nobody_else_out() {
    let encrypted = Encrypted::start();
    let ticket = encrypted.new_ticket("known", &[]);
    let address: SocketAddr = encrypted.host().parse().unwrap();
    let mut silent = Vec::new();
    for _ in 0..600 {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), 0)).into()).unwrap();
        socket.connect(&address.into()).unwrap();
        silent.push(socket);
    }
    encrypted.server.expect_log("too many others begin a handshake");
    Program::remote(c_program("vector_add"), &ticket).run().success();
    encrypted.server.expect_log("more connections were dropped in 10 s");
}

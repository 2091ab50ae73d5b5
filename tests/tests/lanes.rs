//! Links of several sockets: programs run over them as over one, and see each end.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use ropeway_protocol::handshake::{
    HandshakeError, Joined, LaneEnd, Opening, Purpose, Welcome, decode_welcome, features, lane_proof,
};
use ropeway_tests::encrypted::Encrypted;
use ropeway_tests::places::{c_program, ropeway};
use ropeway_tests::program::Program;
use ropeway_tests::proxy::{Fault, Proxy};
use ropeway_tests::raw::{hello_with, knock, opening};
use ropeway_tests::server::Server;
use ropeway_tests::{interrupted, process, wait_for};

/// How soon everybody has to know of an end.
const SOON: Duration = Duration::from_secs(2);

/// Bytes that go over one socket before it is the next one's turn.
const BLOCK: u64 = 256 << 10;

/// The servers, with links of so many sockets.
fn over(sockets: usize, url: &str) -> String {
    format!("shm:off,sockets:{sockets},{url}")
}

#[test]
fn programs_run_as_over_one_socket() {
    let plain = Server::start();
    let pinned = Server::start_with(&["--listen", "tcp://127.0.0.1:0", "--force-pinned"], &[]);
    let encrypted = Encrypted::start();
    let ticket = encrypted.new_ticket("several sockets", &[]);
    for name in ["transfers", "rects", "mapping", "images", "events", "svm", "threads"] {
        let native = Program::native(c_program(name)).run().success().stdout;
        for servers in [over(2, plain.url()), over(8, plain.url()), over(4, pinned.url()), over(3, &ticket)] {
            let remote = Program::remote(c_program(name), &servers).run().success();
            assert_eq!(remote.stdout, native, "{name} over {servers}");
        }
    }
}

/// Each carries as much as the others, in both directions, and the first connection nothing but its opening.
#[test]
fn each_socket_carries_as_much_as_the_others() {
    let server = Server::start();
    for sockets in [2, 5] {
        let proxy = Proxy::to(server.address(), Fault::None);
        Program::remote(c_program("transfers"), &over(sockets, proxy.url())).run().success();
        let passed = proxy.passed();
        assert_eq!(passed.len(), 1 + sockets);
        // A hello, and the welcome with all that can be asked of the devices.
        assert!(passed[0][0] < 1000 && passed[0][1] < 100_000, "{passed:?}");
        for way in 0..2 {
            let carried = passed[1..].iter().map(|bytes| bytes[way]);
            let (least, most) = (carried.clone().min().unwrap(), carried.clone().max().unwrap());
            assert!(most - least <= BLOCK + 1000 && carried.sum::<u64>() > 64 << 20, "{passed:?}");
        }
    }
}

#[test]
fn a_person_sees_them() {
    let server = Server::start();
    let encrypted = Encrypted::start();
    let ticket = encrypted.new_ticket("seen", &[]);
    let links = [
        (over(4, server.url()), "TCP, several sockets"),
        (over(1, server.url()), "TCP"),
        (over(2, &ticket), "TLS, several sockets"),
        (format!("sockets:4,{}", server.url()), "shared memory"),
    ];
    for (servers, link) in links {
        for (what, said) in [("devices", format!(" {link}  ")), ("doctor", format!("through {link},"))] {
            let told = Command::new(ropeway()).arg(what).env("ROPEWAY_SERVERS", &servers).output().unwrap();
            let told = String::from_utf8_lossy(&told.stdout).into_owned();
            assert!(told.contains(&said), "{servers}: {told}");
        }
    }
    let wrong = Program::remote(c_program("vector_add"), &over(9, server.url())).run();
    assert!(wrong.stderr.contains("a link has 1 to 8 sockets, and not '9'"), "{}", wrong.stderr);
}

#[test]
fn either_end_is_killed_at_any_time() {
    const ROUNDS: u64 = 16;
    let server = Server::start();
    let servers = over(3, server.url());
    let remote = |program| Program::remote(program, &servers);
    interrupted::kill_clients(&server, remote, ROUNDS, SOON);
    interrupted::kill_workers(&server, remote, ROUNDS, SOON);
    Program::remote(c_program("vector_add"), &servers).run().success();
}

#[test]
fn one_of_them_is_cut() {
    let server = Server::start();
    for mode in ["read", "write"] {
        let proxy = Proxy::to(server.address(), Fault::CutLane(4 << 20));
        let program = Program::remote(c_program("interrupted"), &over(3, proxy.url())).args([mode]).run().success();
        assert!(program.stdout.contains("ended with -"), "{mode}: {}", program.stdout);
        assert!(program.stdout.ends_with("finish 1\nread 1\nat once 1\n"), "{mode}: {}", program.stdout);
        assert_eq!(program.stderr.matches("is lost: ").count(), 1, "{mode}: {}", program.stderr);
    }
    wait_for("end of the sessions", SOON, || server.log().matches("session ends").count().ge(&2).then_some(()));
    Program::remote(c_program("vector_add"), &over(3, server.url())).run().success();
}

/// As with one socket: a server that gives no sign of life for 20 seconds is taken for lost.
#[test]
fn they_go_silent() {
    let server = Server::start();
    let silenced = Proxy::to(server.address(), Fault::None);
    let remote = |program| Program::remote(program, &over(3, silenced.url()));
    let mut programs = ["finish", "read"].map(|mode| interrupted::start(remote, mode));
    // Into the middle of their waiting.
    thread::sleep(Duration::from_millis(200));
    silenced.freeze();
    let since = Instant::now();
    interrupted::expect_loss_by_silence(&mut programs, since);
}

/// A session whose client says that it can do so much.
fn begin(address: &str, features: u64) -> (TcpStream, Welcome) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(&hello_with(Purpose::Commands, features)).unwrap();
    let (preamble, body) = opening(&mut stream).unwrap();
    assert_eq!(preamble.opening, Opening::Welcome);
    (stream, decode_welcome(preamble, &body).unwrap())
}

fn lane(welcome: &Welcome, secret: &[u8; 32], lane: (u8, u8)) -> Purpose {
    let (session, (number, of)) = (welcome.session, lane);
    Purpose::Lane { session, number, of, proof: lane_proof(secret, session, lane, LaneEnd::Client) }
}

#[test]
fn strangers_carry_nothing() {
    let server = Server::start();
    let (mut stream, welcome) = begin(server.address(), features::LANES);
    let secret = welcome.lanes_secret;
    // The worker closes what does not know the secret, without a word, and waits on for its client's.
    for wrong in [lane(&welcome, &[0; 32], (0, 2)), lane(&welcome, &secret, (0, 9)), lane(&welcome, &secret, (0, 1))] {
        assert!(knock(server.address(), wrong).is_err());
    }
    let unknown = Purpose::Lane { session: ropeway_protocol::ids::SessionId(1), number: 0, of: 2, proof: [0; 32] };
    match knock(server.address(), unknown) {
        Err(HandshakeError::Refused(why)) => assert!(why.contains("no such session"), "{why}"),
        other => panic!("{other:?}"),
    }
    for number in [1, 0] {
        let (_, Joined { proof }) = knock(server.address(), lane(&welcome, &secret, (number, 2))).unwrap();
        assert_eq!(proof, lane_proof(&secret, welcome.session, (number, 2), LaneEnd::Session));
    }
    // Both are closed again, and so the session ends.
    assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
    // Where nobody has asked for any, none is taken, and the session goes on.
    let (mut stream, welcome) = begin(server.address(), 0);
    assert!(knock(server.address(), lane(&welcome, &welcome.lanes_secret, (0, 2))).is_err());
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    // Who says that it makes some, and does not, has five seconds.
    let begun = Instant::now();
    let (mut stream, _) = begin(server.address(), features::LANES);
    assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
    assert!((4..15).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    server.expect_log("has not made its further sockets in time");
    Program::remote(c_program("vector_add"), &over(2, server.url())).run().success();
}

/// What an encrypted session sends goes over no socket in plain text, and over none of another client's.
#[test]
fn an_encrypted_session_has_encrypted_sockets_of_its_client() {
    let server = Encrypted::start_with(&["--listen", "tcp://127.0.0.1:0"]);
    let ticket = server.new_ticket("its client", &[]);
    let mut program = Program::remote(c_program("interrupted"), &ticket).args(["events"]).start();
    assert_eq!(program.line(), "ready");
    let log = server.server.log();
    let name = log.split("session ").find_map(|said| u64::from_str_radix(said.get(..16)?, 16).ok()).unwrap();
    let plain = log.lines().find_map(|line| line.strip_prefix("listening on tcp://")).unwrap().to_owned();
    let session = ropeway_protocol::ids::SessionId(name);
    match knock(&plain, Purpose::Lane { session, number: 0, of: 2, proof: [0; 32] }) {
        Err(HandshakeError::Refused(why)) => assert!(why.contains("not of this session"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert!(process::is_alive(program.pid()));
}

//! `vsock://`: servers and programs in a virtual machine, where a machine's own vsock (CID 1) leads to itself.

use std::io::{ErrorKind, IoSlice};
use std::time::{Duration, Instant};

use ropeway_protocol::handshake::Purpose;
use ropeway_tests::places::{self, c_program};
use ropeway_tests::program::{Outcome, Program};
use ropeway_tests::raw::hello;
use ropeway_tests::server::Server;
use ropeway_tests::{guest, notes, process};
use ropeway_transport::{Endpoint, Link, Sender as _};

/// More than the handshake's limit of five seconds.
const PATIENCE: Duration = Duration::from_secs(12);

#[test]
fn a_guest_runs_programs_over_vsock() {
    match guest::missing() {
        Some(why) => notes::skipped(why),
        None => println!("{}", guest::run("inside_")),
    }
}

/// A server on any port of the guest's vsock, and where programs of the guest find it.
fn server(args: &[&str]) -> (Server, String) {
    assert!(guest::is_here(), "only a guest may be connected to");
    let server = Server::start_with(&[&["--listen", "vsock://:0", "--warm", "1"], args].concat(), &[]);
    let url = server.url().replace("vsock://:", "vsock://1:");
    (server, url)
}

/// What the program says on standard error.
fn refusal(url: &str) -> String {
    let outcome = Program::remote(c_program("listing"), url).run();
    assert_eq!(outcome.stdout, "0 platforms\n", "it has a device");
    outcome.stderr
}

#[test]
#[ignore = "runs in a guest, which another test boots"]
fn inside_programs() {
    let (server, url) = server(&[]);
    let listed = Program::remote("clinfo", &url).args(["-l"]).run().success();
    assert_eq!(listed.listed(), 1, "{}", listed.stdout);
    let devices = Program::native(places::ropeway()).args(["devices", "--server", &url]).run().success();
    assert!(devices.stdout.contains(&url), "{}", devices.stdout);
    let added = Program::remote(c_program("vector_add"), &url).run().success();
    assert_eq!((added.stdout.as_str(), added.stderr.as_str()), ("1024 sums are right\n", ""));
    // Reads and writes of more than a vsock holds, and of more than one receive call may wait for.
    let native = Program::native(c_program("transfers")).run().success();
    assert_eq!(Program::remote(c_program("transfers"), &url).run().success().stdout, native.stdout);
    let random = Program::remote(c_program("random"), &url).args(["1", "2", "300"]).limit(Duration::from_secs(300));
    assert_eq!(random.run().success().stdout.matches("all right").count(), 2);
    assert!(server.log().contains("peer=vsock://1:"), "{}", server.log());
}

#[test]
#[ignore = "runs in a guest, which another test boots"]
fn inside_nobody_is_there() {
    let (mut server, url) = server(&[]);
    server.kill();
    let told = refusal(&url);
    assert!(told.contains(&url) && told.contains("connection refused"), "{told}");
    let told = refusal("vsock://77:7590");
    assert!(told.contains("vsock://77:7590") && told.contains("this machine has no virtual machine 77"), "{told}");
    let told = refusal("vsock://:7590");
    assert!(told.contains("does not say which virtual machine"), "{told}");
    let doctor = Program::native(places::ropeway()).args(["doctor", "--server", &url]).run();
    assert!(!doctor.status.success() && doctor.stdout.contains("vsock_loopback"), "{}", doctor.stdout);
}

#[test]
#[ignore = "runs in a guest, which another test boots"]
fn inside_who_is_lost_is_noticed_at_once() {
    let (server, url) = server(&[]);
    let mut program = Program::remote(c_program("held"), &url).start();
    assert_eq!(program.line(), "ready");
    program.say("");
    assert_eq!(program.line(), "1");
    let begin = Instant::now();
    process::kill(server.worker_of(program.pid()));
    program.say("");
    let outcome = program.finish();
    assert!(!outcome.status.success() && begin.elapsed() < PATIENCE, "{outcome:?}");
    assert!(outcome.stderr.contains(&url), "{}", outcome.stderr);
    // And the other way round.
    let program = Program::remote(c_program("held"), &url).start();
    let worker = server.worker_of(program.pid());
    program.kill();
    ropeway_tests::wait_for("end of the session", PATIENCE, || (!process::is_alive(worker)).then_some(()));
}

#[test]
#[ignore = "runs in a guest, which another test boots"]
fn inside_strangers_end_alone() {
    let (server, url) = server(&[]);
    let mut session = Program::remote(c_program("held"), &url).start();
    assert_eq!(session.line(), "ready");
    let memory = process::resident(server.pid());
    let endpoint: Endpoint = url.parse().unwrap();
    let connect = || Link::connect(&endpoint, PATIENCE).unwrap();
    let whole = hello(Purpose::Commands);
    let mut garbage: Vec<Vec<u8>> =
        vec![vec![0; 5000], vec![0xff; 70_000], b"GET / HTTP/1.1\r\n\r\n".to_vec(), vec![22, 3, 1]];
    garbage.extend((0..whole.len()).map(|at| {
        let mut changed = whole.clone();
        changed[at] ^= 0xa5;
        changed
    }));
    for bytes in garbage {
        let link = connect();
        // The server may be done with it at any time.
        let _ = link.send_all(&mut [IoSlice::new(&bytes)]);
        link.shutdown();
    }
    // Those that say nothing, or half, are let go; so are those that are too many.
    let begin = Instant::now();
    let silent: Vec<Link> = (0..300).map(|_| connect()).collect();
    for link in silent.iter().step_by(2) {
        let _ = link.send_all(&mut [IoSlice::new(&whole[..whole.len() / 2])]);
    }
    for link in &silent {
        let mut byte = [0; 64];
        loop {
            let left = PATIENCE.saturating_sub(begin.elapsed());
            match link.recv_exact_by(&mut byte, Instant::now() + left) {
                Ok(()) => {}
                Err(error) => {
                    assert_ne!(error.kind(), ErrorKind::TimedOut, "after {:?}", begin.elapsed());
                    break;
                }
            }
        }
    }
    session.say("");
    assert_eq!(session.line(), "1");
    Program::remote(c_program("vector_add"), &url).run().success();
    let grown = process::resident(server.pid()).saturating_sub(memory);
    assert!(grown < 4 << 20, "the server's memory grew by {grown} bytes");
}

#[test]
#[ignore = "runs in a guest, which another test boots"]
fn inside_servers_have_no_address_for_each_other() {
    let run = |urls: &[&str]| -> Outcome {
        let program = Program::remote(c_program("residency"), &urls.join(","));
        program.args(["alternate", "6", "1048576"]).env("ROPEWAY_STATS", "1").run().success()
    };
    let relayed = |outcome: &Outcome| -> u64 {
        let mut words = outcome.stderr.split_whitespace();
        words.find_map(|word| word.strip_prefix("bytes_relayed=")).expect("it was asked for").parse().unwrap()
    };
    let ((_first, one), (_second, other)) = (server(&[]), server(&[]));
    let apart = run(&[&one, &other]);
    assert!(relayed(&apart) > 0);
    assert!(
        apart.stderr.contains("has no address there") && apart.stderr.contains("--peer-address"),
        "{}",
        apart.stderr
    );
    let folder = tempfile::tempdir().unwrap();
    let unix = format!("unix:{}", folder.path().join("peers.sock").display());
    let (_third, third) = server(&["--listen", &unix, "--peer-address", &unix]);
    let together = run(&[&one, &third]);
    assert_eq!(relayed(&together), 0, "{}", together.stderr);
}

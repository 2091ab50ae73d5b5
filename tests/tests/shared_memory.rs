//! Links through memory that the client's process and the worker's both see.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use ropeway_protocol::handshake::{Opening, Purpose, features};
use ropeway_tests::interrupted::{self, kill_clients, kill_workers};
use ropeway_tests::natives::Native;
use ropeway_tests::places::{c_program, ropeway};
use ropeway_tests::process::resident;
use ropeway_tests::program::{Program, Running};
use ropeway_tests::proxy::{Fault, Proxy};
use ropeway_tests::raw::{hello_with, opening};
use ropeway_tests::server::Server;
use ropeway_tests::shared_memory::{held, mapped, pieces};
use ropeway_tests::turns::{added, at_random};
use ropeway_tests::wait_for;

/// How soon everybody has to know that the other is gone.
const SOON: Duration = Duration::from_secs(2);

fn start(mode: &str, servers: &str) -> Running {
    interrupted::start(|program| Program::remote(program, servers), mode)
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
    stream.write_all(&hello_with(Purpose::Commands, features::TAKES_NEARBY)).unwrap();
    assert_eq!(opening(&mut stream).unwrap().0.opening, Opening::Nearby);
    stream.write_all(&[0]).unwrap();
    assert_eq!(opening(&mut stream).unwrap().0.opening, Opening::Welcome);
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
    kill_clients(&server, |program| Program::remote(program, server.url()), 25, SOON);
    assert_eq!((mapped(server.pid()), held(server.pid())), (0, 0));
    Program::remote(c_program("vector_add"), server.url()).run().success();
}

#[test]
fn workers_are_killed_at_any_time() {
    let server = Server::start_unix();
    kill_workers(&server, |program| Program::remote(program, server.url()), 25, SOON);
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

/// Of devices with memory of their own, a transfer of a mebibyte takes no more than its command, and a read besides the word that it is
/// there: five commands and three reads a turn.
#[test]
fn small_transfers_of_other_devices_take_one_message_each() {
    let server = Server::start_with(&["--listen", "tcp://127.0.0.1:0", "--force-pinned"], &[]);
    let added = added(|| in_place(&server), "reads");
    assert!((499..=501).contains(&added.sent) && added.received == 300, "{added:?}");
    assert!(added.bytes_sent + added.bytes_received < 100 * 300, "{added:?}");
}

/// Where more is under way than there are slots, bytes go another way; all is right.
#[test]
fn in_place_at_random_on_other_devices() {
    let env = [("POCL_DEVICES", "pthread pthread pthread")];
    let server = Server::start_with(&["--listen", "tcp://127.0.0.1:0", "--force-pinned"], &env);
    at_random(|| in_place(&server), STEPS);
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

/// A program with shared virtual memory, through memory that it shares with this server.
fn svm(server: &Server) -> Program {
    Program::remote(c_program("svm_in_place"), server.url())
}

/// Where no command is under way, who maps shared virtual memory, by itself or by a buffer over it, or copies to it and from
/// it, tells nobody.
#[test]
fn nothing_is_sent_for_shared_virtual_memory_that_the_program_sees() {
    // Now and then an address is taken here or there, and the program asks for another. A hundred turns would cost more.
    const AGAIN: i64 = 20;
    for native in Native::chosen() {
        let server = Server::start_on_native(&native);
        for mode in ["maps", "parts", "copies"] {
            let added = added(|| svm(&server), mode);
            assert!(added.sent.abs() < AGAIN && added.received.abs() < AGAIN, "{} {mode}: {added:?}", native.name);
            assert!(added.bytes_sent.abs() + added.bytes_received.abs() < 1000, "{} {mode}: {added:?}", native.name);
        }
        // The launch, and the question for its end.
        let added = added(|| svm(&server), "launches");
        let has_cost = |count: i64, expected: i64| (count - expected).abs() < AGAIN;
        assert!(has_cost(added.sent, 200) && has_cost(added.received, 100), "{}: {added:?}", native.name);
        assert!(added.bytes_sent + added.bytes_received < 100 * 200, "{}: {added:?}", native.name);
    }
}

#[test]
fn shared_virtual_memory_at_random_natively() {
    for native in Native::chosen() {
        at_random(|| Program::on_native(&native, c_program("svm_in_place")), STEPS);
    }
}

#[test]
fn shared_virtual_memory_at_random() {
    for native in Native::chosen() {
        let server = Server::start_on_native(&native);
        at_random(|| svm(&server), STEPS);
        let apart = format!("shm:off,{}", server.url());
        at_random(|| Program::remote(c_program("svm_in_place"), &apart), STEPS);
    }
    let three = Server::start_with(&[], &[("POCL_DEVICES", "pthread pthread pthread")]);
    at_random(|| svm(&three), STEPS);
}

/// Memory that was freed, by any function and behind any commands, is nobody's any more.
#[test]
fn shared_virtual_memory_is_given_back() {
    /// Of freed memory, so much is kept for new one (bytes), and the rest of a worker is no larger.
    const KEPT: u64 = 256 << 20;
    for native in Native::chosen() {
        let server = Server::start_on_native(&native);
        let mut program = svm(&server).args(["renewed", "100"]).start();
        assert_eq!(program.line(), "freed");
        let worker = server.worker_of(program.pid());
        let more = || (pieces(program.pid()), pieces(worker));
        // The rings, and the part of the arena that was ever used, with what was not behind it.
        wait_for("the end of all that was mapped twice", SOON, || (more() == (3, 3)).then_some(()));
        assert!(resident(worker) < 2 * KEPT, "{}: {} bytes", native.name, resident(worker));
        program.say("");
        program.finish().success();
    }
}

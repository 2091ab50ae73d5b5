//! Shared memory devices of virtual machines: sessions that open over a socket and go on through memory that the guest
//! and its host see.

use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use ropeway_tests::interrupted::{kill_clients, kill_workers, start};
use ropeway_tests::ivshmem::{Guests, mapped, memory};
use ropeway_tests::places::{c_program, ropeway};
use ropeway_tests::program::{Program, Running};
use ropeway_tests::turns::{added, at_random};
use ropeway_tests::{process, wait_for};

/// How soon everybody has to know that the other is gone.
const SOON: Duration = Duration::from_secs(2);

/// Bytes in a MiB.
const MIB: u64 = 1 << 20;

/// Where the pieces begin that a program's worker and the program have of the memory; both have the same.
fn part(guests: &Guests, program: &Running) -> Vec<u64> {
    let worker = guests.server.worker_of(program.pid());
    let [mut ours, mut theirs] = [program.pid(), worker].map(|pid| mapped(pid, guests.memory.path()));
    // An arena that is used in part is mapped in two pieces.
    ours.sort_unstable();
    theirs.sort_unstable();
    assert_eq!(ours.first(), theirs.first());
    ours
}

/// A program that goes through the memory; a part is free again a moment after a session's end.
fn begin(guests: &Guests, mode: &str) -> Running {
    wait_for("a part that is free", Duration::from_secs(5), || {
        let program = start(|program| guests.remote(program), mode);
        if part(guests, &program).is_empty() {
            program.kill();
            return None;
        }
        Some(program)
    })
}

#[test]
fn programs_go_through_it() {
    let Some(guests) = Guests::start(1024 * MIB, 4) else { return };
    let remote = |name: &str| guests.remote(c_program(name));
    let native = Program::native(c_program("transfers")).run().success();
    let before = guests.guest().traffic();
    assert_eq!(remote("transfers").run().success().stdout, native.stdout);
    at_random(|| remote("in_place"), 300);
    at_random(|| remote("svm_in_place"), 300);
    // Hellos, welcomes and wake-ups.
    let went = (guests.guest().traffic() - before).bytes();
    assert!(went < 8 * MIB, "{went} bytes went over the network");
}

#[test]
fn nothing_is_sent_for_what_the_program_sees() {
    let Some(guests) = Guests::start(1024 * MIB, 4) else { return };
    for mode in ["writes", "reads", "maps"] {
        let added = added(|| guests.remote(c_program("in_place")), mode);
        let bytes = added.bytes_sent.abs().max(added.bytes_received.abs());
        assert!(added.sent.abs() <= 1 && added.received == 0 && bytes < 100, "{mode}: {added:?}");
    }
}

#[test]
fn a_person_is_told_of_it() {
    let Some(guests) = Guests::start(256 * MIB, 1) else { return };
    let url = guests.server.url();
    for (list, medium) in [(url.to_owned(), "ivshmem"), (format!("shm:off,{url}"), "TCP")] {
        let devices = guests.with_servers(ropeway(), &list).args(["devices"]).run().success();
        assert!(devices.stdout.contains(&format!(" {medium} ")), "{}", devices.stdout);
        let doctor = guests.with_servers(ropeway(), &list).args(["doctor"]).run();
        assert!(doctor.stdout.contains(&format!("through {medium}")), "{}", doctor.stdout);
    }
    // A program that does not see the device has the socket.
    let devices = Program::remote(ropeway(), url).args(["devices"]).on(guests.guest()).run().success();
    assert!(devices.stdout.contains(" TCP "), "{}", devices.stdout);
}

/// Each session has a part of its own; who finds none has the socket, until one is over.
#[test]
fn sessions_have_parts_of_their_own() {
    let Some(guests) = Guests::start(256 * MIB, 2) else { return };
    let begin = || start(|program| guests.remote(program), "write");
    let [one, other, third] = [begin(), begin(), begin()];
    let [first, second, none] = [&one, &other, &third].map(|program| part(&guests, program));
    assert!(!first.is_empty() && !second.is_empty() && none.is_empty(), "{first:?} {second:?} {none:?}");
    assert!(first[0].abs_diff(second[0]) >= 127 * MIB, "{first:?} {second:?}");
    other.kill();
    let next = self::begin(&guests, "read");
    assert_eq!(part(&guests, &next).first(), second.first());
    next.kill();
    third.kill();
    one.kill();
}

/// Contexts with more than there is room for, and many sessions one after the other.
#[test]
fn what_finds_no_room_goes_through_the_rings() {
    let Some(guests) = Guests::start(32 * MIB, 2) else { return };
    let native = Program::native(c_program("transfers")).run().success();
    for _ in 0..3 {
        assert_eq!(guests.remote(c_program("transfers")).run().success().stdout, native.stdout);
    }
    at_random(|| guests.remote(c_program("in_place")), 200);
}

#[test]
fn clients_are_killed_at_any_time() {
    let Some(guests) = Guests::start(1024 * MIB, 2) else { return };
    kill_clients(&guests.server, |program| guests.remote(program), 25, SOON);
    is_all_free(&guests);
}

#[test]
fn workers_are_killed_at_any_time() {
    let Some(guests) = Guests::start(1024 * MIB, 2) else { return };
    kill_workers(&guests.server, |program| guests.remote(program), 25, SOON);
    is_all_free(&guests);
}

/// The daemon has nothing mapped, and as many sessions as at first have parts.
fn is_all_free(guests: &Guests) {
    assert!(mapped(guests.server.pid(), guests.memory.path()).is_empty());
    let programs = [begin(guests, "finish"), begin(guests, "finish")];
    programs.into_iter().for_each(Running::kill);
}

/// A program that goes on without its server has memory of its own in that place, and others have the part.
#[test]
fn who_has_lost_its_server_lets_go() {
    let Some(guests) = Guests::start(256 * MIB, 1) else { return };
    let mut program = begin(&guests, "map");
    process::kill(guests.server.worker_of(program.pid()));
    assert!(program.line().starts_with("ended with -"));
    wait_for("the client lets go", SOON, || mapped(program.pid(), guests.memory.path()).is_empty().then_some(()));
    begin(&guests, "finish").kill();
    program.finish().success();
}

/// One that cannot, as it is stopped, keeps its part.
#[test]
fn who_may_still_write_there_keeps_its_part() {
    let Some(guests) = Guests::start(256 * MIB, 1) else { return };
    let program = start(|program| guests.remote(program), "finish");
    process::stop(program.pid());
    let worker = guests.server.worker_of(program.pid());
    process::kill(worker);
    wait_for("end of the worker", SOON, || (!process::is_alive(worker)).then_some(()));
    let next = start(|program| guests.remote(program), "finish");
    assert!(part(&guests, &next).is_empty());
    next.kill();
    process::resume(program.pid());
    begin(&guests, "finish").kill();
}

/// Another process of the guest that writes anything anywhere in a part harms that session, and nobody else.
#[test]
fn who_writes_anywhere_harms_only_that_session() {
    let Some(guests) = Guests::start(512 * MIB, 2) else { return };
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let mut beside = guests.remote(c_program("held")).start();
    assert_eq!(beside.line(), "ready");
    let kept = part(&guests, &beside)[0];
    for round in 0..12 {
        let mode = ["read", "write", "finish", "map"][round % 4];
        let program = begin(&guests, mode);
        let (pid, worker) = (program.pid(), guests.server.worker_of(program.pid()));
        let begin = part(&guests, &program)[0];
        assert_ne!(begin, kept);
        let until = Instant::now() + Duration::from_millis(500);
        while Instant::now() < until && process::is_alive(worker) {
            // The ends of the rings, the rings, and the beginning of the arena.
            let reach = [1 << 11, 2 << 20, 16 << 20][random() as usize % 3];
            let at = begin + random() % reach / 8 * 8;
            let value = if random().is_multiple_of(2) { random() } else { random() % 5 };
            guests.memory.as_file().write_all_at(&value.to_ne_bytes(), at).unwrap();
        }
        // Contents of buffers harm nobody; then both are still there.
        if process::is_alive(pid) {
            program.kill();
        }
        wait_for("end of the worker", Duration::from_secs(20), || (!process::is_alive(worker)).then_some(()));
    }
    beside.say("");
    assert_eq!(beside.line(), "1");
    beside.kill();
    is_all_free(&guests);
    let log = guests.server.log();
    assert!(!log.contains("panicked") && !log.contains("signal 11") && !log.contains("SIGSEGV"), "{log}");
}

#[test]
fn what_cannot_be_shared_is_told() {
    let told = |option: &str| {
        let args = ["serve", "--listen", "tcp://127.0.0.1:0", "--ivshmem", option];
        let outcome = Program::here(ropeway()).args(args).run();
        assert!(!outcome.status.success());
        outcome.stderr
    };
    let (short, whole) = (memory(4 * MIB), memory(64 * MIB));
    let (short, whole) = (short.path().display().to_string(), whole.path().display().to_string());
    assert!(told("/nowhere/memory").contains("cannot share /nowhere/memory with a virtual machine"));
    assert!(told("/dev/null").contains("it is no file"));
    assert!(told(&short).contains("16 MiB would do"), "{}", told(&short));
    assert!(told(&format!("{short},sessions=0")).contains("1 to 256 sessions"));
    let server =
        ropeway_tests::server::Server::start_with(&["--listen", "tcp://127.0.0.1:0", "--ivshmem", &whole], &[]);
    assert!(told(&whole).contains("another server uses it"));
    drop(server);
}

//! Commands at random over all devices of one context, ordered by events alone (`tests/c/random.c`): natively, and over
//! servers.
//!
//! `make random SEEDS=1000` runs so many seeds instead of the few of `make test`. `tests/c/random.departures` lists the
//! operations that native implementations get wrong, and has no line too many.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use ropeway_tests::encrypted::Encrypted;
use ropeway_tests::ivshmem::Guests;
use ropeway_tests::natives::Native;
use ropeway_tests::places::{c_program, root};
use ropeway_tests::program::{Outcome, Program};
use ropeway_tests::server::Server;

/// Commands of each seed.
const STEPS: &str = "600";

/// Seeds that one process runs, one after the other, if none fails.
const AT_ONCE: u64 = 5;

/// The first and the last seed: those of the environment, as "1000" or "17-40", or so many.
fn seeds(count: u64) -> (u64, u64) {
    let Ok(given) = std::env::var("ROPEWAY_SEEDS") else { return (1, count) };
    let number = |text: &str| {
        text.parse().unwrap_or_else(|_| panic!("ROPEWAY_SEEDS='{given}' is no number of seeds, and no range"))
    };
    given.split_once('-').map_or_else(|| (1, number(&given)), |(first, last)| (number(first), number(last)))
}

/// The failed ones of these seeds, and what the program said of each. It goes on after those that fail, or not.
fn failures(
    (mut first, last): (u64, u64),
    goes_on: bool,
    left_out: &[String],
    run: impl Fn(&dyn Fn(Program) -> Program) -> Outcome,
) -> Vec<String> {
    let mut failed = Vec::new();
    while first <= last && (goes_on || failed.is_empty()) {
        let end = last.min(first + AT_ONCE - 1);
        let outcome = run(&|program: Program| {
            let args = [&first.to_string(), &end.to_string(), STEPS, "without"];
            program.args(args).args(left_out).limit(Duration::from_secs(60 * (end - first + 1)))
        });
        let right = outcome.stdout.lines().filter(|line| line.ends_with(": all right")).count() as u64;
        if outcome.status.success() {
            assert_eq!(right, end - first + 1, "{}{}", outcome.stdout, outcome.stderr);
            first = end + 1;
        } else {
            let said = outcome.stdout.lines().last().filter(|line| !line.ends_with(": all right")).unwrap_or_default();
            failed.push(format!("seed {}: {}: {said}\n{}", first + right, outcome.status, outcome.stderr));
            first += right + 1;
        }
    }
    failed
}

/// Runs the seeds.
///
/// # Panics
/// When some fail, with what the program said of each.
fn run(count: u64, left_out: &[String], program: impl Fn() -> Program) {
    let seeds = seeds(count);
    let failed = failures(seeds, true, left_out, |with| with(program()).run());
    assert!(failed.is_empty(), "{} of the seeds up to {} failed:\n{}", failed.len(), seeds.1, failed.join("\n"));
}

/// The operations that this implementation gets wrong, as a program's own or as a server's.
fn departures(native: &Native, as_server: bool) -> Vec<String> {
    let list = fs::read_to_string(root().join("tests/c/random.departures")).expect("the list is there");
    let rows = list.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let [name, place, operation, _] = line.splitn(4, " | ").collect::<Vec<_>>()[..] else {
            panic!("not a row: '{line}'")
        };
        (name.to_owned(), place.to_owned(), operation.to_owned())
    });
    let here = rows.filter(|(name, place, _)| *name == native.name && (!as_server || place == "both"));
    here.map(|(.., operation)| operation).collect()
}

/// The program, natively on three devices where the implementation can have so many, or on the parts of its one.
fn natively(native: &Native) -> Program {
    Program::on_native(native, c_program("random")).env("POCL_DEVICES", "pthread pthread pthread")
}

fn start(count: usize, args: &[&str]) -> Vec<Server> {
    let args = [&["--listen", "tcp://127.0.0.1:0"], args].concat();
    (0..count).map(|_| Server::start_with(&args, &[])).collect()
}

fn over(servers: &[Server]) -> Program {
    over_links(&[], servers)
}

/// The program on these servers, by links as these words for `ROPEWAY_SERVERS` say.
fn over_links(how: &[&str], servers: &[Server]) -> Program {
    let words: Vec<_> = how.iter().copied().chain(servers.iter().map(Server::url)).collect();
    Program::remote(c_program("random"), &words.join(","))
}

/// A part of the departures is needed only if a seed fails with it.
#[test]
fn natively_on_each_implementation() {
    let mut needless = String::new();
    for native in Native::chosen() {
        let left_out = departures(&native, false);
        let wrong = failures((1, 8), true, &left_out, |with| with(natively(&native)).run());
        assert!(wrong.is_empty(), "on {}:\n{}", native.name, wrong.join("\n"));
        for operation in &left_out {
            let others: Vec<_> = left_out.iter().filter(|other| *other != operation).cloned().collect();
            if failures((1, 60), false, &others, |with| with(natively(&native)).may_crash().run()).is_empty() {
                let _ = writeln!(needless, "{} | ... | {operation}", native.name);
            }
        }
    }
    assert!(needless.is_empty(), "tests/c/random.departures does not need\n{needless}");
}

/// How each connection between the servers goes.
fn media(servers: &[Server]) -> BTreeSet<String> {
    let logs: Vec<_> = servers.iter().map(Server::log).collect();
    let said = logs.iter().flat_map(|log| log.lines()).filter_map(|line| line.split_once(" goes through "));
    said.map(|(_, medium)| medium.to_owned()).collect()
}

/// All of them go through this alone.
fn expect_medium(servers: &[Server], medium: &str) {
    assert_eq!(media(servers), BTreeSet::from([medium.to_owned()]));
}

/// Servers of one machine, which share memory with the program and with each other.
#[test]
fn on_three_servers() {
    let servers = start(3, &[]);
    run(25, &departures(&Native::pocl(), true), || over(&servers));
    expect_medium(&servers, "shared memory");
}

#[test]
fn on_three_servers_through_sockets() {
    let servers = start(3, &[]);
    run(10, &departures(&Native::pocl(), true), || over_links(&["shm:off"], &servers));
    expect_medium(&servers, "TCP");
}

/// Each link of the program's has three sockets, in plain text and encrypted.
#[test]
fn on_servers_over_several_sockets() {
    let servers = start(3, &[]);
    run(10, &departures(&Native::pocl(), true), || over_links(&["shm:off", "sockets:3"], &servers));
    let server = Encrypted::start_in(&[], &[("POCL_DEVICES", "pthread pthread pthread")]);
    let ticket = format!("sockets:4,{}", server.new_ticket("several sockets", &[]));
    run(5, &departures(&Native::pocl(), false), || Program::remote(c_program("random"), &ticket));
    for native in Native::others() {
        let servers = [(); 2].map(|()| Server::start_on_native(&native));
        run(5, &departures(&native, true), || over_links(&["shm:off", "sockets:2"], &servers));
    }
}

#[test]
fn on_three_servers_through_pinned_memory() {
    let servers = start(3, &["--force-pinned"]);
    run(5, &departures(&Native::pocl(), true), || over(&servers));
}

/// Three devices of a server of this machine that have, as far as it knows, memory of their own: through windows and slots.
#[test]
fn on_a_server_through_pinned_memory() {
    let env = [("POCL_DEVICES", "pthread pthread pthread")];
    let server = Server::start_with(&["--listen", "tcp://127.0.0.1:0", "--force-pinned"], &env);
    run(10, &departures(&Native::pocl(), false), || over(std::slice::from_ref(&server)));
}

#[test]
fn on_three_servers_through_the_client() {
    let servers = start(3, &[]);
    run(5, &departures(&Native::pocl(), true), || over(&servers).env("ROPEWAY_PEERS", "off"));
}

/// Three devices of a server of this machine, through shared memory.
#[test]
fn through_shared_memory() {
    let env = [("POCL_DEVICES", "pthread pthread pthread")];
    let folder = tempfile::tempdir().unwrap();
    let url = format!("unix:{}", folder.path().join("ropeway.sock").display());
    let server = Server::start_with(&["--listen", &url], &env);
    run(10, &departures(&Native::pocl(), false), || over(std::slice::from_ref(&server)));
}

/// Three devices of the host's, in a virtual machine, through the memory of a device.
#[test]
fn through_a_guests_memory() {
    let env = [("POCL_DEVICES", "pthread pthread pthread")];
    let Some(guests) = Guests::with(512 << 20, 2, &env) else { return };
    run(5, &departures(&Native::pocl(), false), || guests.remote(c_program("random")));
}

/// Three devices of a server that is reached over UCX, by each of the transports that any machine has.
#[test]
#[ignore = "for a build with the feature ucx: make ucx"]
fn over_ucx() {
    for transports in ["tcp,self", "shm,self"] {
        let env = [("POCL_DEVICES", "pthread pthread pthread"), ("UCX_TLS", transports)];
        let server = Server::start_with(&["--listen", "ucx://127.0.0.1:0"], &env);
        let program = || over(std::slice::from_ref(&server)).env("UCX_TLS", transports);
        run(5, &departures(&Native::pocl(), false), program);
    }
}

/// One server with three devices, and then beside another server. What the implementation gets wrong with devices of
/// its own, it does here.
#[test]
fn on_several_devices_of_a_server() {
    let env = [("POCL_DEVICES", "pthread pthread pthread")];
    let three = Server::start_with(&["--listen", "tcp://127.0.0.1:0"], &env);
    let left_out = departures(&Native::pocl(), false);
    run(5, &left_out, || over(std::slice::from_ref(&three)));
    let servers = [three, Server::start()];
    run(5, &left_out, || over(&servers));
}

/// Sessions that take turns on the devices of a server, each with commands that wait for all kinds of others.
#[test]
fn in_turns_by_weight() {
    let server = Encrypted::start_in(&[], &[("POCL_DEVICES", "pthread pthread pthread")]);
    let left_out = departures(&Native::pocl(), false);
    std::thread::scope(|scope| {
        for weight in [1, 2, 7_u64] {
            let ticket = server.new_ticket(&format!("weight {weight}"), &["--weight", &weight.to_string()]);
            let left_out = &left_out;
            scope.spawn(move || {
                let seeds = (100 * weight, 100 * weight + 9);
                let program = || Program::remote(c_program("random"), &ticket);
                let failed = failures(seeds, true, left_out, |with| with(program()).run());
                assert!(failed.is_empty(), "with a weight of {weight}:\n{}", failed.join("\n"));
            });
        }
    });
}

#[test]
fn on_three_servers_of_each_other_implementation() {
    for native in Native::others() {
        let servers: Vec<_> = (0..3).map(|_| Server::start_on_native(&native)).collect();
        run(8, &departures(&native, true), || over(&servers));
    }
}

#[test]
fn on_servers_of_different_implementations() {
    let natives = Native::chosen();
    if natives.len() == 1 {
        return ropeway_tests::notes::skipped("one implementation alone is no mixture: ROPEWAY_NATIVES names no other");
    }
    let servers: Vec<_> = natives.iter().map(Server::start_on_native).collect();
    let left_out: Vec<_> = natives.iter().flat_map(|native| departures(native, true)).collect();
    run(10, &left_out, || over(&servers));
}

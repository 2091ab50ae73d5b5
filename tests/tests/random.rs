//! Commands at random over all devices of one context, ordered by events alone (`tests/c/random.c`): natively, and over servers.
//!
//! `make random SEEDS=1000` runs so many seeds instead of the few of `make test`.

use std::fmt::Write as _;
use std::time::Duration;

use ropeway_tests::places::c_program;
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;

/// Commands of each seed.
const STEPS: &str = "600";

/// Seeds that one process runs, one after the other, if none fails.
const AT_ONCE: u64 = 5;

/// PoCL 3.1 crashes in these natively, and so does a worker on it.
const LEFT_OUT: &[&str] = &[
    // clEnqueueCopyBufferRect of a sub-buffer dereferences the sub-buffer's own memory, which it has not.
    "part-rects",
];

/// Natively it crashes in these besides: copies from a buffer whose size of contents is not on the same device.
const LEFT_OUT_NATIVELY: &[&str] = &["size"];

/// The first and the last seed: those of the environment, as "1000" or "17-40", or so many.
fn seeds(count: u64) -> (u64, u64) {
    let Ok(given) = std::env::var("ROPEWAY_SEEDS") else { return (1, count) };
    let number = |text: &str| {
        text.parse().unwrap_or_else(|_| panic!("ROPEWAY_SEEDS='{given}' is no number of seeds, and no range"))
    };
    given.split_once('-').map_or_else(|| (1, number(&given)), |(first, last)| (number(first), number(last)))
}

/// Runs the seeds and goes on after those that fail.
///
/// # Panics
/// When some have failed, with what the program said of each.
fn run(count: u64, left_out: &[&str], program: impl Fn() -> Program) {
    let (mut first, last) = seeds(count);
    let mut failed = String::new();
    let mut failures = 0;
    while first <= last {
        let end = last.min(first + AT_ONCE - 1);
        let args = [&first.to_string(), &end.to_string(), STEPS, "without"];
        let outcome = program().args(args).args(left_out).limit(Duration::from_secs(60 * (end - first + 1))).run();
        let right = outcome.stdout.lines().filter(|line| line.ends_with(": all right")).count() as u64;
        if outcome.status.success() {
            assert_eq!(right, end - first + 1, "{}{}", outcome.stdout, outcome.stderr);
            first = end + 1;
        } else {
            let said = outcome.stdout.lines().last().filter(|line| !line.ends_with(": all right")).unwrap_or_default();
            let _ = writeln!(failed, "seed {}: {}: {said}\n{}", first + right, outcome.status, outcome.stderr);
            failures += 1;
            first += right + 1;
        }
    }
    assert!(failures == 0, "{failures} of the seeds up to {last} failed:\n{failed}");
}

fn start(count: usize, args: &[&str]) -> Vec<Server> {
    let args = [&["--listen", "tcp://127.0.0.1:0"], args].concat();
    (0..count).map(|_| Server::start_with(&args, &[])).collect()
}

fn over(servers: &[Server]) -> Program {
    let urls: Vec<_> = servers.iter().map(Server::url).collect();
    Program::remote(c_program("random"), &urls.join(","))
}

const THREE_DEVICES: (&str, &str) = ("POCL_DEVICES", "pthread pthread pthread");

#[test]
fn natively_on_three_devices() {
    let left_out = [LEFT_OUT, LEFT_OUT_NATIVELY].concat();
    let (name, value) = THREE_DEVICES;
    run(10, &left_out, || Program::native(c_program("random")).env(name, value));
}

#[test]
fn on_three_servers() {
    let servers = start(3, &[]);
    run(25, LEFT_OUT, || over(&servers));
}

#[test]
fn on_three_servers_through_pinned_memory() {
    let servers = start(3, &["--force-pinned"]);
    run(5, LEFT_OUT, || over(&servers));
}

#[test]
fn on_three_servers_through_the_client() {
    let servers = start(3, &[]);
    run(5, LEFT_OUT, || over(&servers).env("ROPEWAY_PEERS", "off"));
}

/// One server with three devices, and one of them beside another server.
#[test]
fn on_several_devices_of_a_server() {
    let three = Server::start_with(&["--listen", "tcp://127.0.0.1:0"], &[THREE_DEVICES]);
    let left_out = [LEFT_OUT, LEFT_OUT_NATIVELY].concat();
    run(5, &left_out, || over(std::slice::from_ref(&three)));
    let servers = [three, Server::start()];
    run(5, &left_out, || over(&servers));
}

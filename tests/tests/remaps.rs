//! Maps for reading of what has not changed since it was last at the client: they move nothing, and see what they should.

use std::time::Duration;

use ropeway_tests::places::c_program;
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;
use ropeway_tests::stats::Stats;

/// What a hundred more maps of 1 MiB add: messages sent and received, and bytes received.
fn added(server: &Server, mode: &str) -> (i64, i64, i64) {
    // Where the program sees the buffers' memory, no map would ever move anything.
    let url = format!("shm:off,{}", server.url());
    let of = |count: &str| {
        let program = Program::remote(c_program("remaps"), &url).args([mode, count]);
        let stats = Stats::of(&program.env("ROPEWAY_STATS", "1").run().success().stderr);
        eprintln!("{mode} {count}: {stats:?}");
        stats
    };
    // The source goes over the first time only.
    of("1");
    let (few, many) = (of("10"), of("110"));
    let more = |count: fn(&Stats) -> u64| count(&many).cast_signed() - count(&few).cast_signed();
    (more(|s| s.messages_sent), more(|s| s.messages_received), more(|s| s.bytes_received))
}

#[test]
fn with_nothing_in_between_nothing_is_sent() {
    let (sent, received, bytes) = added(&Server::start(), "idle");
    // What is released last of all may not be sent, and numbers of a session take more or fewer bytes.
    assert!(sent.abs() <= 1 && received == 0 && bytes.abs() < 100, "{sent} {received} {bytes}");
}

#[test]
fn behind_a_kernel_that_writes_something_else_only_its_end_is_asked_for() {
    let (sent, received, bytes) = added(&Server::start(), "busy");
    // The launch; the map's marker, the wait for it, and the release of its event, the last of which may not be sent.
    assert!((399..=401).contains(&sent), "{sent}");
    assert_eq!(received, 100);
    assert!(bytes < 100 * 100, "{bytes}");
}

#[test]
fn what_a_kernel_may_have_written_is_read_again() {
    let (.., bytes) = added(&Server::start(), "changed");
    assert!(bytes > 100 << 20, "{bytes}");
}

#[test]
fn what_the_program_wrote_itself_is_not_read_again() {
    let (_, _, bytes) = added(&Server::start(), "written");
    assert!(bytes < 100 * 100, "{bytes}");
}

/// Runs so many seeds at random.
fn random(program: impl Fn() -> Program) {
    let last = std::env::var("ROPEWAY_SEEDS").map_or(6, |seeds| seeds.parse::<u64>().expect("a number of seeds"));
    for seed in 1..=last {
        let outcome =
            program().args(["random", &seed.to_string(), "400"]).limit(Duration::from_secs(60)).run().success();
        assert_eq!(outcome.stdout, format!("seed {seed}: all right\n"), "{}", outcome.stderr);
    }
}

#[test]
fn at_random_natively() {
    random(|| Program::native(c_program("remaps")));
}

#[test]
fn at_random_over_one_server() {
    let server = Server::start();
    random(|| Program::remote(c_program("remaps"), server.url()));
}

#[test]
fn at_random_over_two_servers() {
    let servers = [Server::start(), Server::start_unix()];
    let urls = format!("{},{}", servers[0].url(), servers[1].url());
    random(|| Program::remote(c_program("remaps"), &urls));
}

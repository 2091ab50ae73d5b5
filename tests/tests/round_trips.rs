//! How often a program waits for the network: exact counts, so that one more is noticed.

use ropeway_tests::places::c_program;
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;
use ropeway_tests::stats::Stats;

/// Connecting (TCP's own round trip) and the handshake.
const CONNECT: u64 = 2;

fn count(server: &Server, name: &str, args: &[&str]) -> Stats {
    // As over a network: on one machine, handing in memory to share takes one more.
    let url = format!("shm:off,{}", server.url());
    let program = Program::remote(c_program(name), &url).args(args).env("ROPEWAY_STATS", "1");
    let outcome = program.run().success();
    let stats = Stats::of(&outcome.stderr);
    eprintln!("{name} {args:?}: {stats:?}");
    stats
}

#[test]
fn a_program_that_does_nothing_only_connects() {
    let server = Server::start();
    assert_eq!(count(&server, "counted", &["idle"]).round_trips, CONNECT);
}

#[test]
fn vector_addition_takes_five_at_most() {
    let server = Server::start();
    // The first time the source goes over, which is one more: build, and build again with the source; then the read.
    assert_eq!(count(&server, "vector_add", &[]).round_trips, CONNECT + 3);
    // From then on: build and read.
    assert_eq!(count(&server, "vector_add", &[]).round_trips, CONNECT + 2);
}

#[test]
fn a_thousand_enqueues_take_none() {
    let server = Server::start();
    count(&server, "counted", &["enqueues"]);
    let stats = count(&server, "counted", &["enqueues"]);
    // The build before them and the read after them.
    assert_eq!(stats.round_trips, CONNECT + 2);
    // An argument and a launch each, and the few around them; many share a batch.
    assert!((2000..2050).contains(&stats.messages_sent), "{stats:?}");
    assert!(stats.batches < 1000, "{stats:?}");
}

#[test]
fn a_known_source_is_not_sent_again() {
    let server = Server::start();
    let first = count(&server, "counted", &["build"]);
    let second = count(&server, "counted", &["build"]);
    assert_eq!((first.round_trips, second.round_trips), (CONNECT + 2, CONNECT + 1));
    // The source is 100,000 bytes long.
    assert!(first.bytes_sent > 100_000 && second.bytes_sent < 2_000, "{first:?}\n{second:?}");
}

#[test]
fn a_source_known_to_another_server_of_the_same_cache_is_not_sent_again() {
    let server = Server::start();
    count(&server, "counted", &["build"]);
    let cache = server.home().join("cache").display().to_string();
    let later = Server::start_with(&["--listen", "tcp://127.0.0.1:0"], &[("XDG_CACHE_HOME", &cache)]);
    assert_eq!(count(&later, "counted", &["build"]).round_trips, CONNECT + 1);
}

#[test]
fn a_small_image_made_written_copied_filled_and_read_takes_one() {
    let server = Server::start();
    let (few, many) = (count(&server, "counted", &["images", "10"]), count(&server, "counted", &["images", "110"]));
    assert_eq!(many.messages_received - few.messages_received, 100);
    // An answer that is there before anybody waits for it is not counted, which happens to some of either on a busy
    // machine.
    assert!(many.round_trips - few.round_trips <= 110, "{few:?}\n{many:?}");
    // All six calls are messages; the first may go out by itself, the others go with the one that waits. The last of
    // all may come too late to be sent.
    assert!((599..=601).contains(&(many.messages_sent - few.messages_sent)), "{few:?}\n{many:?}");
    assert!(many.batches - few.batches <= 200, "{few:?}\n{many:?}");
}

#[test]
fn a_kernel_that_is_awaited_and_asked_for_its_times_takes_one_whatever_finishes_come_after_it() {
    let server = Server::start();
    count(&server, "counted", &["waits", "1"]);
    let (few, many) = (count(&server, "counted", &["waits", "10"]), count(&server, "counted", &["waits", "110"]));
    // The wait. An answer that is there before anybody waits for it is not counted.
    assert!(many.round_trips - few.round_trips <= 100, "{few:?}\n{many:?}");
    assert_eq!(many.messages_received - few.messages_received, 100, "{few:?}\n{many:?}");
    // The launch, the wait, the release of the event; a release that comes last of all may not be sent.
    assert!((299..=301).contains(&(many.messages_sent - few.messages_sent)), "{few:?}\n{many:?}");
}

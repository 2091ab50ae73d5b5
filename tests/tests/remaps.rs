//! Maps for reading of what has not changed since it was last at the client: they move nothing, and see what they should.

use ropeway_tests::places::c_program;
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;
use ropeway_tests::turns::{Added, added, at_random};

/// A program that maps 1 MiB so many times. Where it sees the buffers' memory, no map would ever move anything.
fn maps(mode: &str) -> Added {
    let server = Server::start();
    let url = format!("shm:off,{}", server.url());
    added(|| Program::remote(c_program("remaps"), &url), mode)
}

#[test]
fn with_nothing_in_between_nothing_is_sent() {
    let added = maps("idle");
    // What is released last of all may not be sent, and numbers of a session take more or fewer bytes.
    assert!(added.sent.abs() <= 1 && added.received == 0 && added.bytes_received.abs() < 100, "{added:?}");
}

#[test]
fn behind_a_kernel_that_writes_something_else_only_its_end_is_asked_for() {
    let added = maps("busy");
    // The launch; the map's marker, the wait for it, and the release of its event, the last of which may not be sent.
    assert!((399..=401).contains(&added.sent) && added.received == 100, "{added:?}");
    assert!(added.bytes_received < 100 * 100, "{added:?}");
}

#[test]
fn what_a_kernel_may_have_written_is_read_again() {
    let added = maps("changed");
    assert!(added.bytes_received > 100 << 20, "{added:?}");
}

#[test]
fn what_the_program_wrote_itself_is_not_read_again() {
    let added = maps("written");
    assert!(added.bytes_received < 100 * 100, "{added:?}");
}

/// Commands in each run at random.
const STEPS: u32 = 400;

#[test]
fn at_random_natively() {
    at_random(|| Program::native(c_program("remaps")), STEPS);
}

#[test]
fn at_random_over_one_server() {
    let server = Server::start();
    at_random(|| Program::remote(c_program("remaps"), server.url()), STEPS);
}

#[test]
fn at_random_over_two_servers() {
    let servers = [Server::start(), Server::start_unix()];
    let urls = format!("{},{}", servers[0].url(), servers[1].url());
    at_random(|| Program::remote(c_program("remaps"), &urls), STEPS);
}

//! Semaphores: what they hold back and let go, and that signals and waits are messages without an answer.

use std::fs;

use ropeway_tests::places::{c_program, root};
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;
use ropeway_tests::stats::Stats;

/// Not compared with PoCL 3.1, which does not have the extension.
#[test]
fn they_are_as_the_extension_says() {
    let expected = fs::read_to_string(root().join("tests/c/semaphores.expected")).unwrap();
    let server = Server::start();
    let outcome = Program::remote(c_program("semaphores"), server.url()).run().success();
    assert_eq!(outcome.stdout, expected, "left: through Ropeway, right: expected; {}", outcome.stderr);
}

#[test]
fn signals_and_waits_make_no_round_trip() {
    let server = Server::start();
    let round_trips = |turns: &str| {
        let program = Program::remote(c_program("semaphores"), server.url());
        let outcome = program.args(["turns", turns]).env("ROPEWAY_STATS", "1").run().success();
        Stats::of(&outcome.stderr).round_trips
    };
    // The first time the source goes over.
    round_trips("1");
    let (few, many) = (round_trips("10"), round_trips("300"));
    // An answer that is there before anybody waits for it is not counted.
    assert!(many.abs_diff(few) <= 2, "{few} and {many} round trips");
}

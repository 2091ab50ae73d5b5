//! Command buffers: what they compute, what they refuse, and that a replay is one message.

use std::fs;

use ropeway_tests::places::{c_program, root};
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;
use ropeway_tests::stats::Stats;

/// Not compared with PoCL 3.1, which has an older version of the extension.
#[test]
fn they_are_as_the_extension_says() {
    let expected = fs::read_to_string(root().join("tests/c/command_buffers.expected")).unwrap();
    let server = Server::start();
    let outcome = Program::remote(c_program("command_buffers"), server.url()).args(["check"]).run().success();
    assert_eq!(outcome.stdout, expected, "left: through Ropeway, right: expected; {}", outcome.stderr);
}

#[test]
fn a_hundred_recorded_kernels_are_replayed_with_one_message() {
    let server = Server::start();
    let sent = |replays: &str| {
        let program = Program::remote(c_program("command_buffers"), server.url());
        let outcome = program.args(["replays", replays]).env("ROPEWAY_STATS", "1").run().success();
        Stats::of(&outcome.stderr)
    };
    // The first time the source goes over.
    sent("1");
    let (few, many) = (sent("10"), sent("210"));
    // Five rounds of each.
    assert_eq!(many.messages_sent - few.messages_sent, 5 * 200, "{few:?}\n{many:?}");
    // An answer that is there before anybody waits for it is not counted.
    assert!(many.round_trips.abs_diff(few.round_trips) <= 2, "{few:?}\n{many:?}");
}

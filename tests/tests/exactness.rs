//! Events as a program sees them, held against the specification.

use std::fs;

use ropeway_tests::places::{c_program, root};
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;

/// Not compared with PoCL 3.1, which calls nobody back for a command that fails, and hangs where an event is waited for
/// that has failed already.
#[test]
fn events_are_as_the_specification_says() {
    let expected = fs::read_to_string(root().join("tests/c/exactness.expected")).unwrap();
    let server = Server::start();
    let outcome = Program::remote(c_program("exactness"), server.url()).run().success();
    assert_eq!(outcome.stdout, expected, "left: through Ropeway, right: expected; {}", outcome.stderr);
}

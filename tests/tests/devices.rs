//! Devices and their parts: what a program sees of them, and what runs on them.

use ropeway_tests::places::c_program;
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;

#[test]
fn parts_of_devices_are_as_natively() {
    let native = Program::native(c_program("devices")).run().success();
    let server = Server::start();
    let remote = Program::remote(c_program("devices"), server.url()).run().success();
    assert_eq!(remote.stdout, native.stdout, "left: through Ropeway, right: native; {}", remote.stderr);
    assert!(!remote.stdout.contains("WRONG") && remote.stdout.contains("both: run 1 1"), "{}", remote.stdout);
    // A context keeps its devices.
    let early = Program::remote(c_program("devices"), server.url()).args(["early"]).run().success();
    assert_eq!(early.stdout, native.stdout, "left: released early, right: native; {}", early.stderr);
}

//! A driver that keeps the server waiting in a native call, longer than a client waits for a silent server.

use ropeway_tests::places::{c_program, stub_vendors};
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;

#[test]
fn a_server_that_its_driver_keeps_waiting_is_not_lost() {
    let vendors = stub_vendors();
    let vendors = vendors.to_str().expect("a path in UTF-8");
    // A silent server is lost after 20 seconds.
    let env = [("OCL_ICD_VENDORS", vendors), ("STUB_BUFFER_SECONDS", "25")];
    let server = Server::start_with(&["--listen", "tcp://127.0.0.1:0", "--warm", "1"], &env);
    let outcome = Program::remote(c_program("kept_waiting"), server.url()).args(["25"]).run().success();
    assert_eq!(outcome.stdout, "still there\n");
    assert!(!outcome.stderr.contains("lost"), "{}", outcome.stderr);
}

//! Kernels and programs beyond the everyday: clones, built-in kernels, callbacks of builds, libraries.

use ropeway_tests::places::c_program;
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;

#[test]
fn clones_callbacks_and_libraries_are_as_natively() {
    let native = Program::native(c_program("kernels")).run().success();
    let server = Server::start();
    let remote = Program::remote(c_program("kernels"), server.url()).run().success();
    assert_eq!(remote.stdout, native.stdout, "left: through Ropeway, right: native; {}", remote.stderr);
    assert!(remote.stdout.contains("clone: 0 10 20 0") && remote.stdout.contains("linked: 6"), "{}", remote.stdout);
}

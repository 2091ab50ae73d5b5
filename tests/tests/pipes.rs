//! Pipes, of which PoCL 3.1 has none: what is refused natively is refused through Ropeway.

use ropeway_tests::places::c_program;
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;

#[test]
fn pipes_are_as_they_are_natively() {
    let native = Program::native(c_program("pipes")).run().success();
    let server = Server::start();
    let remote = Program::remote(c_program("pipes"), server.url()).run().success();
    assert_eq!(remote.stdout, native.stdout, "left: through Ropeway, right: native; {}", remote.stderr);
}

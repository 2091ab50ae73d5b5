//! Images and samplers: the same natively and through Ropeway.

use ropeway_tests::places::c_program;
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;

/// Runs `name` natively and through Ropeway: both print the same, and nothing that says that something is wrong.
fn same(name: &str) {
    let native = Program::native(c_program(name)).run().success();
    let server = Server::start();
    let remote = Program::remote(c_program(name), server.url()).run().success();
    assert_eq!(remote.stdout, native.stdout, "left: through Ropeway, right: native; {}", remote.stderr);
    assert_eq!(remote.stderr, native.stderr, "Ropeway says nothing when all goes well");
}

#[test]
fn images() {
    same("images");
}

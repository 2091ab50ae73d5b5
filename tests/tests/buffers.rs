//! Buffers to the end: rectangles, sub-buffers, maps, native kernels, and the errors of all functions on them.

use ropeway_tests::compare::same;
use ropeway_tests::places::c_program;
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;

#[test]
fn rectangles() {
    same("rects");
}

#[test]
fn sub_buffers() {
    same("sub_buffers");
}

/// Not compared with PoCL 3.1, which takes some of these arguments and crashes on others.
#[test]
fn errors_are_those_of_the_specification() {
    let server = Server::start();
    assert_eq!(Program::remote(c_program("buffer_errors"), server.url()).run().success().stdout, "done\n");
}

#[test]
fn maps() {
    same("maps");
}

#[test]
fn native_kernels() {
    same("native_kernel");
}

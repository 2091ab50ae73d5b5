//! The same program natively and through Ropeway.

use crate::natives::Native;
use crate::places::c_program;
use crate::program::{Outcome, Program};
use crate::server::Server;

/// The output of a C program through Ropeway, after a check that it is the same natively.
///
/// # Panics
/// When it does not, or fails.
pub fn same(name: &str) -> Outcome {
    same_on(&Native::pocl(), name)
}

/// The same on this native implementation.
///
/// # Panics
/// When it is not the same, or fails.
pub fn same_on(native: &Native, name: &str) -> Outcome {
    let server = Server::start_on_native(native);
    let native = Program::on_native(native, c_program(name)).run().success();
    let remote = Program::remote(c_program(name), server.url()).run().success();
    assert_eq!(remote.stdout, native.stdout, "left: through Ropeway, right: native; {}", remote.stderr);
    assert_eq!(remote.stderr, native.stderr, "Ropeway says nothing when all goes well");
    remote
}

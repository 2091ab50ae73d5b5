//! Kernels and programs beyond the everyday: clones, built-in kernels, callbacks of builds, libraries.

use ropeway_tests::compare::same;
use ropeway_tests::places::c_program;
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;

#[test]
fn clones_callbacks_and_libraries_are_as_natively() {
    let remote = same("kernels");
    assert!(remote.stdout.contains("clone: 0 10 20 0") && remote.stdout.contains("linked: 6"), "{}", remote.stdout);
}

/// The last line of `device_queues` on a device that has no queues of its own.
const HAS_NONE: i32 = 77;

/// PoCL has none; `natives.rs` runs the program where there are some.
#[test]
fn a_device_without_queues_of_its_own_gets_none() {
    let native = Program::native(c_program("device_queues")).run();
    let remote = Program::remote(c_program("device_queues"), Server::start().url()).run();
    assert_eq!((native.status.code(), remote.status.code()), (Some(HAS_NONE), Some(HAS_NONE)), "{}", remote.stderr);
    assert_eq!(remote.stdout, native.stdout);
}

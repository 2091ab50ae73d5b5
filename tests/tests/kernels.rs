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

/// What `device_queues` ends with on a device that has no queues of its own.
const SKIPPED: i32 = 77;

#[test]
fn kernels_enqueue_kernels() {
    let native = Program::native(c_program("device_queues")).run();
    if native.status.code() != Some(SKIPPED) {
        same("device_queues");
        return;
    }
    let remote = Program::remote(c_program("device_queues"), Server::start().url()).run();
    assert_eq!((remote.status.code(), &remote.stdout), (Some(SKIPPED), &native.stdout), "{}", remote.stderr);
    eprintln!("SKIPPED: the device has no queues of its own; neither has it through Ropeway");
}

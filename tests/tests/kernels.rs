//! Kernels and programs beyond the everyday: clones, built-in kernels, callbacks of builds, libraries.

use ropeway_tests::compare::same;

#[test]
fn clones_callbacks_and_libraries_are_as_natively() {
    let remote = same("kernels");
    assert!(remote.stdout.contains("clone: 0 10 20 0") && remote.stdout.contains("linked: 6"), "{}", remote.stdout);
}

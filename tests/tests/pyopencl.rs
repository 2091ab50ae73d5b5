//! PyOpenCL from PyPI: the smaller files of its own test-suite.

use ropeway_tests::pyopencl::same;

#[test]
fn wrapper() {
    same("test_wrapper.py", 40);
}

#[test]
fn clmath() {
    same("test_clmath.py", 25);
}

#[test]
fn clrandom() {
    same("test_clrandom.py", 10);
}

#[test]
fn copies_and_structs() {
    same("test_enqueue_copy.py", 3);
    same("test_arrays_in_structs.py", 1);
}

/// A file that a new version brings must have a test.
#[test]
fn every_file_has_a_test() {
    let sources =
        [include_str!("pyopencl.rs"), include_str!("pyopencl_algorithm.rs"), include_str!("pyopencl_array.rs")];
    let names = std::fs::read_dir(ropeway_tests::python::pyopencl_tests()).expect("the folder can be read");
    let names = names.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut files: Vec<_> = names.filter(|name| name.starts_with("test_") && name.ends_with(".py")).collect();
    assert!(files.len() > 5, "{files:?}");
    files.retain(|file| !sources.iter().any(|source| source.contains(&format!("same(\"{file}\""))));
    assert!(files.is_empty(), "no test for {files:?}");
}

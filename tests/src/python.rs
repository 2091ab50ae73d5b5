//! Python with PyOpenCL, in a virtual environment that `scripts/python.sh` has made.

use std::fs;
use std::path::PathBuf;

use crate::places;

/// The virtual environment's interpreter.
///
/// # Panics
/// When it is missing.
pub fn interpreter() -> PathBuf {
    let path = places::target().join("python/bin/python");
    assert!(path.exists(), "{} is missing; run scripts/python.sh first", path.display());
    path
}

/// The tests in PyOpenCL's source distribution.
///
/// # Panics
/// When they are missing.
pub fn pyopencl_tests() -> PathBuf {
    let sources = places::target().join("python/sources");
    let folders = fs::read_dir(&sources).unwrap_or_else(|_| panic!("no sources; run scripts/python.sh first"));
    let mut tests = folders.flatten().map(|entry| entry.path().join("test")).filter(|path| path.is_dir());
    tests.next().unwrap_or_else(|| panic!("no tests in {}; run scripts/python.sh again", sources.display()))
}

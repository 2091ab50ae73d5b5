//! PyOpenCL from PyPI: its own test-suite's arrays.

use ropeway_tests::pyopencl::same;

#[test]
fn array() {
    same("test_array.py", 150);
}

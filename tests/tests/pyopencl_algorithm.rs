//! PyOpenCL from PyPI: its own test-suite's algorithms (scans, reductions, sorting).

use ropeway_tests::pyopencl::same;

#[test]
fn algorithm() {
    same("test_algorithm.py", 50);
}

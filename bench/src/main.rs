//! Measures Ropeway beside native OpenCL and beside the raw network, in one run.
fn main() {}

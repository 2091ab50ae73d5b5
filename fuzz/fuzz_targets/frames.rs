//! Frames and handshakes of both directions.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ropeway_fuzz_targets::run("frames", data));

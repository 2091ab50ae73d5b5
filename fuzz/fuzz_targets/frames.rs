//! Frames and handshakes of both directions: see `ropeway_fuzz_targets::frames`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ropeway_fuzz_targets::frames(data));

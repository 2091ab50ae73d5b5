//! Links through shared memory, whose other end is hostile.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ropeway_fuzz_targets::run("rings", data));

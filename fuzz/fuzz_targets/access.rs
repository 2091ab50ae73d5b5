//! A server's access rules.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ropeway_fuzz_targets::run("access", data));

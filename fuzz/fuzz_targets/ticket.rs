//! Tickets and other addresses.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ropeway_fuzz_targets::run("ticket", data));

//! The server's encrypted port: handshakes, and records after them.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ropeway_fuzz_targets::run("tls", data));

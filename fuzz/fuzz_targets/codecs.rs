//! Codecs through the interface of their devices.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: ropeway_fuzz_targets::become_worker_if_asked(),
    |data: &[u8]| ropeway_fuzz_targets::run("codecs", data)
);

//! What is fuzzed: [`frames()`] decodes, [`session()`] serves.
//!
//! Each target takes bytes that somebody else invents: libFuzzer (`fuzz/fuzz_targets`) or the seeded generator of
//! `fuzz-brief`. A defect shows as a panic of the target.
#![forbid(unsafe_code)]

mod frames;
mod session;

pub use frames::frames;
pub use session::{become_worker_if_asked, rehearse, session};

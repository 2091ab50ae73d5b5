//! What is fuzzed: [`TARGETS`].
//!
//! Each target takes bytes that somebody else invents: libFuzzer (`fuzz/fuzz_targets`) or the seeded generator of
//! `fuzz-brief`. A defect shows as a panic of the target.
#![deny(unsafe_code)]

mod client;
mod codecs;
mod frames;
mod handshake;
#[allow(unsafe_code)]
mod nursery;
mod records;
mod rings;
mod session;
mod text;
mod worker;

use ropeway_generate::Entropy;

pub use session::rehearse;
pub use worker::become_worker_if_asked;

/// What is fuzzed.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// What does it.
    pub run: fn(&[u8]),
    /// Most bytes of an input that is made at random.
    pub longest: usize,
    /// The power to which a random part of 1 is raised, which is then that part of the longest.
    pub shortness: i32,
    /// Its share of the time of a brief run of all.
    pub share: f64,
    /// How many of its inputs are tried at the same time by one processor, because they wait for others.
    pub at_once: usize,
}

/// All that is fuzzed.
pub const TARGETS: [Target; 8] = [
    Target { name: "frames", run: frames::frames, longest: 600, shortness: 1, share: 0.1, at_once: 1 },
    Target { name: "tls", run: tls, longest: 600, shortness: 1, share: 0.15, at_once: 1 },
    Target { name: "ticket", run: text::ticket, longest: 200, shortness: 1, share: 0.05, at_once: 1 },
    Target { name: "access", run: text::access, longest: 600, shortness: 1, share: 0.05, at_once: 1 },
    Target { name: "session", run: session::session, longest: 3000, shortness: 1, share: 0.2, at_once: 1 },
    Target { name: "stub", run: session::stub, longest: 3000, shortness: 3, share: 0.2, at_once: 12 },
    Target { name: "codecs", run: codecs::codecs, longest: 400, shortness: 1, share: 0.15, at_once: 1 },
    Target { name: "rings", run: rings::rings, longest: 600, shortness: 1, share: 0.1, at_once: 1 },
];

/// The target of this name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}

/// Runs the target of this name.
///
/// # Panics
/// As the target does, or when there is none.
pub fn run(name: &str, data: &[u8]) {
    let target = target(name).unwrap_or_else(|| panic!("no target is called '{name}'"));
    (target.run)(data);
}

/// What comes at the server's encrypted port, before the handshake is over and after it.
fn tls(data: &[u8]) {
    let mut entropy = Entropy::new(data);
    match entropy.byte() {
        0..32 => handshake::garbage(&mut entropy),
        32..144 => handshake::handshake(&mut entropy),
        _ => records::records(&mut entropy),
    }
}

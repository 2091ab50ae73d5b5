//! Well-formed and damaged protocol traffic out of random bytes, for tests and fuzzing.
//!
//! [`value()`] makes any message (or other serde type) from random bytes, so that no message needs a generator of its
//! own; [`MESSAGES`] makes whole frames of every message; [`Echo`] decodes frames and encodes them again;
//! [`session`] holds whole conversations and [`Client`] makes them up; [`damage()`] breaks what is whole.
#![forbid(unsafe_code)]

mod client;
mod damage;
mod echo;
mod frames;
pub mod session;
mod value;

pub use client::Client;
pub use damage::damage;
pub use echo::{Echo, EchoError};
pub use frames::{Generator, MESSAGES, NOTES, PEER_MESSAGES, REPLIES, Reply};
pub use value::{Entropy, GenerateError, value};

/// `len` bytes that depend on `seed` alone.
pub fn seeded(seed: &str, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().update(seed.as_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

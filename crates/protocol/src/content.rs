//! Content-addressed program sources and binaries.

use serde::{Deserialize, Serialize};

/// The BLAKE3 hash of a program's source or binary: its name in the server's program cache.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ContentHash(pub [u8; 32]);

impl ContentHash {
    /// The hash of `content`.
    pub fn of(content: &[u8]) -> Self {
        Self(*blake3::hash(content).as_bytes())
    }

    /// 64 lower-case hexadecimal digits: the file name in the cache.
    pub fn hex(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }
}

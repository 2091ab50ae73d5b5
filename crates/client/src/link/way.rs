//! How a link is to go on behind its handshake, as the configuration says.

use std::str::FromStr;

use ropeway_transport::{Endpoint, LANES};

/// How a link goes on once both ends have greeted each other.
#[derive(Clone, Copy, Debug)]
pub struct Way<'a> {
    /// Where it leads to.
    pub endpoint: &'a Endpoint,
    /// Whether to share memory with a server of this machine.
    pub shares_memory: bool,
    /// How many sockets carry its bytes, if they do not go through memory.
    pub sockets: Sockets,
}

impl Way<'_> {
    /// Whether several sockets carry its bytes, if they do not go through memory: between machines only.
    pub(super) fn has_lanes(&self) -> bool {
        self.sockets.0 > 1 && matches!(self.endpoint, Endpoint::Tcp { .. } | Endpoint::Tls { .. })
    }
}

/// How many sockets carry a link's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sockets(pub(super) u8);

impl Default for Sockets {
    /// One.
    fn default() -> Self {
        Self(1)
    }
}

impl FromStr for Sockets {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let count = text.parse().ok().filter(|&count: &u8| count == 1 || LANES.contains(&count.into()));
        count.map(Self).ok_or_else(|| format!("a link has 1 to {} sockets, and not '{text}'", LANES.end()))
    }
}

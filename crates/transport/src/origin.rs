//! Where connections come from, as far as limits on strangers go.

use std::net::IpAddr;

use crate::Link;

/// Where a connection comes from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Origin {
    /// A process of this machine, over a Unix socket.
    Local,
    /// A virtual machine of this one, or the one that this one runs on, by its CID.
    Machine(u32),
    /// One address of version 4.
    Address([u8; 4]),
    /// The addresses of version 6 that one subscriber has at least: a network of 64 bits (RFC 6177).
    Network([u8; 8]),
}

impl Origin {
    /// Where this one comes from.
    pub fn of(link: &Link) -> Self {
        if let Some(address) = link.peer_machine() {
            return Self::Machine(address.cid);
        }
        match link.peer_address().map(|address| address.ip().to_canonical()) {
            None => Self::Local,
            Some(IpAddr::V4(address)) => Self::Address(address.octets()),
            Some(IpAddr::V6(address)) => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                Self::Network([a, b, c, d, e, f, g, h])
            }
        }
    }
}

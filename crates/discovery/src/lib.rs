//! Servers that announce themselves on the local network, and clients that look for them: DNS-SD over multicast DNS
//! (RFC 6762, RFC 6763), service `_ropeway._tcp`.
//!
//! Whoever is on the network can announce what they like: nothing here says whom to trust.
#![forbid(unsafe_code)]

mod announce;
mod look;

pub use announce::Announcer;
pub use look::{Found, look};

/// The service's type, with the domain.
pub const SERVICE: &str = "_ropeway._tcp.local.";

/// TXT: the name that the server's machine gives itself.
const HOST: &str = "host";

/// TXT: the server's release of Ropeway.
const RELEASE: &str = "release";

/// Why announcing or looking is not possible: a sentence for a person.
#[derive(Debug)]
pub struct DiscoveryError(mdns_sd::Error);

impl std::fmt::Display for DiscoveryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "multicast DNS does not work here: {}", self.0)
    }
}

impl std::error::Error for DiscoveryError {}

impl From<mdns_sd::Error> for DiscoveryError {
    fn from(error: mdns_sd::Error) -> Self {
        Self(error)
    }
}

/// Ends the background activity that answers and asks, and waits briefly for its end.
fn end(daemon: &mdns_sd::ServiceDaemon) {
    // An error means that it has ended already, which is as good.
    if let Ok(ended) = daemon.shutdown() {
        let _ = ended.recv_timeout(std::time::Duration::from_millis(500));
    }
}

//! Servers that announce themselves on the local network, and which of them are used.
//!
//! Anybody on a network can announce anything. A server is used only if its address is this machine's own (loopback), or if the
//! user has named its network or its name as trusted. A name is what a server says of itself: it chooses among servers on a network
//! whose machines are all trusted, and proves nothing.

use std::net::IpAddr;

use ropeway_discovery::{DiscoveryError, Found, look};
use ropeway_transport::Endpoint;

use crate::servers::config::{Config, Trust};

/// A server that was found.
#[derive(Clone, Debug)]
pub struct Sighting {
    /// What it says of itself.
    pub found: Found,
    /// Where it is connected, if there is a reason to trust it.
    pub trusted: Option<Endpoint>,
}

impl Sighting {
    fn new(found: Found, trusted: &[Trust]) -> Self {
        let names = [&*found.name, &*found.host];
        let is_trusted = |address: &&IpAddr| {
            address.to_canonical().is_loopback() || trusted.iter().any(|trust| trust.covers(**address, names))
        };
        let address = found.addresses.iter().find(is_trusted);
        let trusted = address.map(|address| Endpoint::Tcp { host: address.to_string(), port: found.port });
        Self { found, trusted }
    }

    /// Where it says that it is.
    pub fn address(&self) -> Endpoint {
        let announced = || Endpoint::Tcp {
            host: self.found.addresses.first().map(ToString::to_string).unwrap_or_default(),
            port: self.found.port,
        };
        self.trusted.clone().unwrap_or_else(announced)
    }
}

/// Looks for servers as long as the configuration says. Those of `config.servers` are left out.
///
/// # Errors
/// [`DiscoveryError`].
pub fn discover(config: &Config) -> Result<Vec<Sighting>, DiscoveryError> {
    let found = look(config.discover_time)?;
    let sightings = found.into_iter().map(|found| Sighting::new(found, &config.trusted));
    Ok(sightings.filter(|sighting| !config.servers.contains(&sighting.address())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sighting(addresses: &[&str], trusted: &[&str]) -> Option<String> {
        let found = Found {
            name: "gpu".into(),
            host: "node7".into(),
            release: String::new(),
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
            port: 7,
        };
        let trusted: Vec<Trust> = trusted.iter().map(|trust| trust.parse().unwrap()).collect();
        Sighting::new(found, &trusted).trusted.map(|endpoint| endpoint.to_string())
    }

    #[test]
    fn only_with_a_reason_and_only_at_the_address_that_it_is_for() {
        assert_eq!(sighting(&["10.0.0.1"], &[]), None);
        assert_eq!(sighting(&["127.0.0.1"], &[]).unwrap(), "tcp://127.0.0.1:7");
        assert_eq!(sighting(&["10.0.0.1", "192.168.1.1"], &["192.168.0.0/16"]).unwrap(), "tcp://192.168.1.1:7");
        assert_eq!(sighting(&["fd00::1"], &["NODE7"]).unwrap(), "tcp://[fd00::1]:7");
        assert_eq!(sighting(&["10.0.0.1"], &["other", "10.1.0.0/16"]), None);
    }
}

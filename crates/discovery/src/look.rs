//! Looking for servers.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use mdns_sd::{ResolvedService, ServiceDaemon, ServiceEvent};

use crate::{DiscoveryError, HOST, RELEASE, SERVICE, end};

/// More servers than this are not taken in: a network that has so many is a flood.
const MOST: usize = 256;

/// Longer texts than this are cut.
const MOST_LETTERS: usize = 200;

/// A server that announces itself. Every field is an unverified claim from the network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The name that it announces.
    pub name: String,
    /// The name that its machine gives itself; empty if it says nothing.
    pub host: String,
    /// The server's release of Ropeway; empty if not announced.
    pub release: String,
    /// Its addresses, those that are most likely of use first.
    pub addresses: Vec<IpAddr>,
    /// Its TCP port.
    pub port: u16,
}

/// Looks for servers for `time`. Nothing runs in the background after this returns.
///
/// # Errors
/// [`DiscoveryError`].
pub fn look(time: Duration) -> Result<Vec<Found>, DiscoveryError> {
    let deadline = Instant::now() + time;
    let daemon = ServiceDaemon::new()?;
    let found = listen(&daemon, deadline);
    end(&daemon);
    found
}

fn listen(daemon: &ServiceDaemon, deadline: Instant) -> Result<Vec<Found>, DiscoveryError> {
    let events = daemon.browse(SERVICE)?;
    let mut found: BTreeMap<String, Found> = BTreeMap::new();
    while let Ok(event) = events.recv_deadline(deadline) {
        match event {
            // The same service may be resolved again, with more addresses.
            ServiceEvent::ServiceResolved(service) if found.len() < MOST => {
                if let Some(server) = server(&service) {
                    found.insert(service.fullname.clone(), server);
                }
            }
            ServiceEvent::ServiceRemoved(_, name) => {
                found.remove(&name);
            }
            _ => {}
        }
    }
    Ok(found.into_values().collect())
}

fn server(service: &ResolvedService) -> Option<Found> {
    let name = service.fullname.strip_suffix(SERVICE)?.strip_suffix('.')?.replace("\\.", ".").replace("\\\\", "\\");
    let property = |key| text(service.txt_properties.get_property_val_str(key).unwrap_or_default());
    let mut addresses: Vec<IpAddr> = service.addresses.iter().map(|address| address.to_ip_addr()).collect();
    // A link-local address is of no use without the name of its link.
    addresses.retain(|address| !matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local()));
    addresses.sort_by_key(|address| (!address.is_loopback(), address.is_ipv6(), *address));
    addresses.dedup();
    let port = service.port;
    let usable = port != 0 && !addresses.is_empty();
    usable.then(|| Found { name: text(&name), host: property(HOST), release: property(RELEASE), addresses, port })
}

/// Returns text from the network in a form fit to be printed.
fn text(said: &str) -> String {
    said.chars().filter(|c| !c.is_control()).take(MOST_LETTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_say_is_cut_and_cannot_steer_a_terminal() {
        assert_eq!(text("gpu\u{1b}[2J\n1"), "gpu[2J1");
        assert_eq!(text(&"x".repeat(1000)).len(), MOST_LETTERS);
    }
}

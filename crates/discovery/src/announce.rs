//! Announcing a server.

use std::net::IpAddr;

use mdns_sd::{IfKind, IfPredicate, ServiceDaemon, ServiceInfo};
use ropeway_transport::Endpoint;

use crate::{DiscoveryError, HOST, RELEASE, SERVICE, end};

/// Answers clients that look for servers, for as long as it lives; says good-bye when dropped.
pub struct Announcer {
    daemon: ServiceDaemon,
}

impl Announcer {
    /// Announces a server called `name` on `host` that listens on these endpoints: each TCP port is announced on the
    /// interfaces by which it can be reached.
    ///
    /// # Errors
    /// [`DiscoveryError`].
    pub fn new<'a>(
        name: &str,
        host: &str,
        endpoints: impl IntoIterator<Item = &'a Endpoint>,
    ) -> Result<Self, DiscoveryError> {
        let this = Self { daemon: ServiceDaemon::new()? };
        let addresses = endpoints.into_iter().filter_map(|endpoint| match endpoint {
            // The endpoint of a listening socket is always an address.
            Endpoint::Tls { host, port, .. } | Endpoint::Tcp { host, port } => {
                Some((host.parse::<IpAddr>().ok()?, *port))
            }
            Endpoint::Ucx { .. } | Endpoint::Unix(_) | Endpoint::Vsock(_) | Endpoint::Ssh(_) | Endpoint::Local => None,
        });
        for (number, (address, port)) in addresses.enumerate() {
            let name = if number == 0 { name.to_owned() } else { format!("{name} {port}") };
            this.daemon.register(service(&name, host, address, port)?)?;
        }
        Ok(this)
    }
}

fn service(name: &str, host: &str, address: IpAddr, port: u16) -> Result<ServiceInfo, DiscoveryError> {
    let properties = [(HOST, host), (RELEASE, env!("CARGO_PKG_VERSION"))];
    // The service has a host name of its own: others may announce the machine's own name, with all of its addresses.
    let label: String = host.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(40).collect();
    let own = format!("ropeway-{label}-{port}.local.");
    if !address.is_unspecified() {
        let mut service = ServiceInfo::new(SERVICE, name, &own, address, port, &properties[..])?;
        service.set_interfaces(vec![IfKind::Addr(address)]);
        return Ok(service);
    }
    let mut service = ServiceInfo::new(SERVICE, name, &own, "", port, &properties[..])?.enable_addr_auto();
    // "::" takes connections over IPv4, too.
    let v6 = address.is_ipv6();
    let reachable = IfPredicate::new(move |interface| !interface.is_loopback() && (v6 || interface.ip().is_ipv4()));
    service.set_interfaces(vec![IfKind::Predicate(reachable)]);
    Ok(service)
}

impl Drop for Announcer {
    fn drop(&mut self) {
        end(&self.daemon);
    }
}

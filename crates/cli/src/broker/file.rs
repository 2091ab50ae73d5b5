//! The file by which a lease's servers become known to programs: a host file of tickets.

use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ropeway_lease::messages::LeasedServer;
use ropeway_transport::tls::{Identity, LeaseCertificate, PublicKey, Ticket};
use ropeway_transport::{Endpoint, Pass, private_file};

use crate::failure::Failure;

/// The servers of a lease as its holder reaches them, each with the proof that it is shown.
pub(super) fn endpoints(
    servers: &[LeasedServer],
    certificate: &str,
    identity: &Identity,
) -> Result<Vec<Endpoint>, Failure> {
    let wrong = || {
        Failure::new("the broker has given a lease that cannot be read; install the same release of Ropeway on both")
    };
    let der = URL_SAFE_NO_PAD.decode(certificate).map_err(|_| wrong())?;
    let lease = LeaseCertificate::from_der(&der).ok_or_else(wrong)?;
    let endpoint = |server: &LeasedServer| {
        let address: Endpoint = server.address.parse()?;
        let Endpoint::Tls { host, port, .. } = address else { return Err(wrong()) };
        let key = PublicKey::from_text(&server.key).ok_or_else(wrong)?;
        let ticket = Ticket { server: key, identity: identity.clone(), lease: Some(lease.clone()) };
        Ok(Endpoint::Tls { host, port, pass: Some(Pass::Ticket(ticket).into()) })
    };
    servers.iter().map(endpoint).collect()
}

/// Writes a host file that only this user can read, as a whole.
pub(super) fn write(path: &Path, endpoints: &[Endpoint]) -> io::Result<()> {
    private_file::replace(path, text(endpoints).as_bytes())
}

/// The same for one that is of no use without this process.
pub(super) fn write_for_now(path: &Path, endpoints: &[Endpoint]) -> io::Result<()> {
    private_file::replace_for_now(path, text(endpoints).as_bytes())
}

fn text(endpoints: &[Endpoint]) -> String {
    endpoints.iter().map(|endpoint| endpoint.with_secret() + "\n").collect()
}

/// The new proof of a lease, put into the host file of the old one.
pub(super) fn renew(path: &Path, certificate: &str) -> Result<(), Failure> {
    let wrong = |why: &str| Failure::new(format!("{} is not the file of a lease: {why}", path.display()));
    let der = URL_SAFE_NO_PAD.decode(certificate).ok();
    let lease =
        der.and_then(|der| LeaseCertificate::from_der(&der)).ok_or_else(|| wrong("the new proof cannot be read"))?;
    let text = private_file::read(path).map_err(|error| wrong(&error.to_string()))?;
    let mut endpoints = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let endpoint: Endpoint = line.parse()?;
        let Endpoint::Tls { host, port, pass } = endpoint else { return Err(wrong("a line is no ticket")) };
        let Some(Pass::Ticket(ticket)) = pass.as_deref() else { return Err(wrong("a line is no ticket")) };
        if ticket.identity.public() != lease.holder() {
            return Err(wrong("it is of another lease"));
        }
        let ticket = Ticket { lease: Some(lease.clone()), ..ticket.clone() };
        endpoints.push(Endpoint::Tls { host, port, pass: Some(Pass::Ticket(ticket).into()) });
    }
    Ok(write(path, &endpoints)?)
}

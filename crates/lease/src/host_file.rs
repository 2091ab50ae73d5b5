//! The file by which a lease's servers become known to programs: a host file of tickets.

use std::fmt;
use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ropeway_transport::tls::{Identity, LeaseCertificate, PublicKey, Ticket};
use ropeway_transport::{Endpoint, Pass, private_file};

use crate::messages::LeasedServer;

/// Why a lease cannot be written or read: one sentence for a person.
#[derive(Debug)]
pub struct HostFileError(String);

impl fmt::Display for HostFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for HostFileError {}

/// The servers of a lease as its holder reaches them, each with the proof that it is shown.
///
/// # Errors
/// The broker has said something that cannot be understood.
pub fn endpoints(
    servers: &[LeasedServer],
    certificate: &str,
    identity: &Identity,
) -> Result<Vec<Endpoint>, HostFileError> {
    let wrong = || {
        HostFileError(
            "the broker has given a lease that cannot be read; install the same release of Ropeway on both".to_owned(),
        )
    };
    let der = URL_SAFE_NO_PAD.decode(certificate).map_err(|_| wrong())?;
    let lease = LeaseCertificate::from_der(&der).ok_or_else(wrong)?;
    let endpoint = |server: &LeasedServer| {
        let address: Endpoint = server.address.parse().map_err(|_| wrong())?;
        let Endpoint::Tls { host, port, .. } = address else { return Err(wrong()) };
        let key = PublicKey::from_text(&server.key).ok_or_else(wrong)?;
        let ticket = Ticket { server: key, identity: identity.clone(), lease: Some(lease.clone()) };
        Ok(Endpoint::Tls { host, port, pass: Some(Pass::Ticket(ticket).into()) })
    };
    servers.iter().map(endpoint).collect()
}

/// Writes a host file that only this user can read, as a whole.
///
/// # Errors
/// The file system's.
pub fn write(path: &Path, endpoints: &[Endpoint]) -> io::Result<()> {
    private_file::replace(path, text(endpoints).as_bytes())
}

/// The same for one that is of no use without this process.
///
/// # Errors
/// The file system's.
pub fn write_for_now(path: &Path, endpoints: &[Endpoint]) -> io::Result<()> {
    private_file::replace_for_now(path, text(endpoints).as_bytes())
}

/// The lines of a host file.
pub fn text(endpoints: &[Endpoint]) -> String {
    endpoints.iter().map(|endpoint| endpoint.with_secret() + "\n").collect()
}

/// The new proof of a lease, put into the host file of the old one.
///
/// # Errors
/// The file cannot be read or written, or is not that of this lease.
pub fn renew(path: &Path, certificate: &str) -> Result<(), HostFileError> {
    let wrong = |why: String| HostFileError(format!("{} is not the file of a lease: {why}", path.display()));
    let text = private_file::read(path).map_err(|error| wrong(error.to_string()))?;
    let endpoints = renewed(&text, certificate).map_err(|error| wrong(error.0))?;
    write(path, &endpoints).map_err(|error| HostFileError(format!("cannot write {}: {error}", path.display())))
}

/// The servers of a host file's lease with its new proof.
///
/// # Errors
/// The text is not that of this lease.
pub fn renewed(text: &str, certificate: &str) -> Result<Vec<Endpoint>, HostFileError> {
    let wrong = |why: &str| HostFileError(why.to_owned());
    let der = URL_SAFE_NO_PAD.decode(certificate).ok();
    let lease =
        der.and_then(|der| LeaseCertificate::from_der(&der)).ok_or_else(|| wrong("the new proof cannot be read"))?;
    let mut endpoints = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let endpoint: Endpoint = line.parse().map_err(|_| wrong("a line is no ticket"))?;
        let Endpoint::Tls { host, port, pass } = endpoint else { return Err(wrong("a line is no ticket")) };
        let Some(Pass::Ticket(ticket)) = pass.as_deref() else { return Err(wrong("a line is no ticket")) };
        if ticket.identity.public() != lease.holder() {
            return Err(wrong("it is of another lease"));
        }
        let ticket = Ticket { lease: Some(lease.clone()), ..ticket.clone() };
        endpoints.push(Endpoint::Tls { host, port, pass: Some(Pass::Ticket(ticket).into()) });
    }
    Ok(endpoints)
}

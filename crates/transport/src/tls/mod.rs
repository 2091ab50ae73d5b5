//! TLS 1.3: the handshake by rustls, the records by [`Sealer`] and [`Opener`].
//!
//! A daemon does the handshake, for it alone has the server's private key; the process that serves the client gets the
//! connection's [`Secrets`]. Records are therefore not rustls's business, and can be sealed from where the
//! application's data lie and opened into where they belong.

mod accepting;
mod certificates;
mod der;
mod error;
#[cfg(feature = "fuzz")]
pub mod half;
mod handshake;
mod identity;
mod lease;
mod leases;
mod open_bulk;
mod opener;
mod revoked;
mod seal_bulk;
mod sealer;
mod secret;
mod ticket;

pub use accepting::{Accepting, Certified, Client, Door, accept};
pub use certificates::{CertificateFiles, Credentials};
pub use error::TlsError;
pub use handshake::{ClientAuth, connect, connect_certified, connect_with_lease};
pub use identity::{Identity, PublicKey};
#[cfg(feature = "lease-authority")]
pub use lease::issue as issue_lease;
pub use lease::{Lease, LeaseCertificate, MAX_LEASE};
pub use leases::Clock;
pub(crate) use open_bulk::Fill;
pub(crate) use opener::Opener;
pub(crate) use sealer::Sealer;
pub use secret::{Cipher, Secret, Secrets};
pub use ticket::Ticket;

/// Bytes of a record's header: type, version and length (RFC 8446, section 5.1).
const HEADER: usize = 5;

/// Most bytes of contents in a record.
const MAX_CONTENTS: usize = 1 << 14;

/// Bytes of a whole record with as much contents as there may be.
const SEALED: usize = HEADER + MAX_CONTENTS + OVERHEAD;

/// Bytes of a buffer for bulk data: records of 512 KiB of contents, and two that are not whole.
const WIDE_ROOM: usize = 34 * SEALED;

/// Contents from this length on are bulk: a [`crate::crew::Crew`] seals and opens them, where there is one.
const BULK: usize = 8 * MAX_CONTENTS;

/// Bytes that encryption adds: the type of the contents, and the tag.
const OVERHEAD: usize = 1 + TAG;

/// Bytes of a tag, the same for all three ciphers of TLS 1.3 that are used.
const TAG: usize = 16;

/// Types of records.
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;
const ALERT: u8 = 21;

/// The header of an encrypted record of `len` bytes after the header. It is authenticated with the record.
fn header(len: usize) -> [u8; HEADER] {
    let [high, low] = (len as u16).to_be_bytes();
    [APPLICATION_DATA, 3, 3, high, low]
}

#[cfg(all(test, feature = "lease-authority"))]
mod lease_tests;
#[cfg(test)]
mod tests;

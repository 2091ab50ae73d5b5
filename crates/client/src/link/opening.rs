//! What this process says first on a connection, and what it reads before there are frames.

use std::time::Instant;

use ropeway_protocol::handshake::{Hello, PREAMBLE_LEN, Preamble, Purpose};
use ropeway_transport::Link;

use super::error::OpenError;
use crate::base::program::program_name;
use crate::base::stats::{STATS, count};

/// The hello of a connection for this purpose, without a proof of identity and without shared memory devices.
pub(super) fn hello(features: u64, purpose: Purpose) -> Hello {
    Hello {
        features,
        purpose,
        release: env!("CARGO_PKG_VERSION").to_owned(),
        program: program_name(),
        pid: std::process::id(),
        credential: Vec::new(),
        devices: Vec::new(),
    }
}

/// Counts a hello of so many bytes, which was sent.
pub(super) fn count_hello(bytes: usize) {
    count(&STATS.messages_sent, 1);
    count(&STATS.batches, 1);
    count(&STATS.bytes_sent, bytes);
}

/// Reads one answer, before `deadline`.
///
/// # Errors
/// [`OpenError`].
pub(super) fn receive(link: &Link, deadline: Instant) -> Result<(Preamble, Vec<u8>), OpenError> {
    let mut preamble = [0; PREAMBLE_LEN];
    link.recv_exact_by(&mut preamble, deadline)?;
    let preamble = Preamble::from_bytes(&preamble)?;
    let mut body = vec![0; preamble.len as usize];
    link.recv_exact_by(&mut body, deadline)?;
    count(&STATS.messages_received, 1);
    count(&STATS.bytes_received, PREAMBLE_LEN + body.len());
    Ok((preamble, body))
}

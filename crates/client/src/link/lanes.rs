//! The further sockets of a link, where its configuration asks for several: made behind the welcome, all at the same time.

use std::io::{self, ErrorKind, IoSlice};
use std::thread;
use std::time::{Duration, Instant};

use ropeway_protocol::handshake::{
    Hello, LaneEnd, Opening, PREAMBLE_LEN, Preamble, Purpose, Welcome, decode_joined, encode_opening, lane_proof,
    proofs_equal,
};
use ropeway_protocol::limits::HANDSHAKE_SECONDS;
use ropeway_transport::{Endpoint, Link, Sender as _};

use super::error::OpenError;
use super::way::Way;
use crate::base::program::program_name;
use crate::base::stats::{STATS, count};
use crate::base::threads;

/// Makes the sockets that lead the same `way`, and goes on over them.
///
/// # Errors
/// [`OpenError`]: a sentence that says what to do, if one of them cannot be made.
pub(super) fn add_lanes(link: Link, way: &Way<'_>, welcome: &Welcome) -> Result<Link, OpenError> {
    // The worker waits for as long.
    let deadline = Instant::now() + Duration::from_secs(HANDSHAKE_SECONDS);
    let &Way { endpoint, sockets, .. } = way;
    let open = |number: u8| open_lane(endpoint, welcome, (number, sockets.0), deadline);
    let lanes: io::Result<Vec<Link>> = thread::scope(|scope| {
        let begun: Vec<_> = (0..sockets.0)
            .map(|number| {
                let named = thread::Builder::new().name("ropeway-lane".into());
                threads::start(|| named.spawn_scoped(scope, move || open(number)))
            })
            .collect();
        let panicked = |_| Err(io::Error::other("a thread has failed"));
        begun.into_iter().map(|lane| lane?.join().unwrap_or_else(panicked)).collect()
    });
    let lanes = lanes.map_err(|error| {
        let why = match error.kind() {
            ErrorKind::TimedOut | ErrorKind::WouldBlock => "nothing answers in time".to_owned(),
            _ => error.to_string(),
        };
        let text = format!("its further sockets cannot be made ({why}); sockets:1 goes with one");
        OpenError::Link(io::Error::new(ErrorKind::ConnectionRefused, text))
    })?;
    // One round trip for the connections, one for hello and answer.
    count(&STATS.round_trips, 2);
    Ok(link.go_on_over(lanes)?)
}

/// Makes one of them.
fn open_lane(endpoint: &Endpoint, welcome: &Welcome, lane: (u8, u8), deadline: Instant) -> io::Result<Link> {
    let left = || deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    let link = Link::connect(endpoint, left())?;
    let (secret, session, (number, of)) = (&welcome.lanes_secret, welcome.session, lane);
    let proof = lane_proof(secret, session, lane, LaneEnd::Client);
    let hello = Hello {
        features: 0,
        purpose: Purpose::Lane { session, number, of, proof },
        release: env!("CARGO_PKG_VERSION").to_owned(),
        program: program_name(),
        pid: std::process::id(),
        credential: Vec::new(),
        devices: Vec::new(),
    };
    let hello = encode_opening(Opening::Hello, &hello);
    link.send_all(&mut [IoSlice::new(&hello)])?;
    let mut preamble = [0; PREAMBLE_LEN];
    link.recv_exact_by(&mut preamble, deadline)?;
    let preamble = Preamble::from_bytes(&preamble).map_err(io::Error::other)?;
    let mut body = vec![0; preamble.len as usize];
    link.recv_exact_by(&mut body, deadline)?;
    let joined = decode_joined(preamble, &body).map_err(io::Error::other)?;
    if !proofs_equal(&joined.proof, &lane_proof(secret, session, lane, LaneEnd::Session)) {
        return Err(io::Error::other("another server answers there"));
    }
    count(&STATS.messages_sent, 1);
    count(&STATS.messages_received, 1);
    count(&STATS.bytes_sent, hello.len());
    count(&STATS.bytes_received, PREAMBLE_LEN + body.len());
    Ok(link)
}

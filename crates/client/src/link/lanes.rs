//! The further sockets of a link, where its configuration asks for several: made behind the welcome, all at the same time.

use std::io::{self, ErrorKind, IoSlice};
use std::thread;
use std::time::{Duration, Instant};

use ropeway_protocol::handshake::{
    LaneEnd, Opening, Purpose, Welcome, decode_joined, encode_opening, lane_proof, proofs_equal,
};
use ropeway_protocol::limits::HANDSHAKE_SECONDS;
use ropeway_transport::{Endpoint, Link, Sender as _};

use super::error::OpenError;
use super::opening::{count_hello, hello, receive};
use super::way::Way;
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
    let lanes: Result<Vec<Link>, OpenError> = thread::scope(|scope| {
        let begun: Vec<_> = (0..sockets.0)
            .map(|number| {
                let named = thread::Builder::new().name("ropeway-lane".into());
                threads::start(|| named.spawn_scoped(scope, move || open(number)))
            })
            .collect();
        let panicked = |_| Err(io::Error::other("a thread has failed").into());
        begun.into_iter().map(|lane| lane?.join().unwrap_or_else(panicked)).collect()
    });
    let lanes = lanes.map_err(|error| {
        let text = format!("its further sockets cannot be made ({error}); sockets:1 goes with one");
        OpenError::Link(io::Error::new(ErrorKind::ConnectionRefused, text))
    })?;
    // One round trip for the connections, one for hello and answer.
    count(&STATS.round_trips, 2);
    Ok(link.go_on_over(lanes)?)
}

/// Makes one of them.
fn open_lane(endpoint: &Endpoint, welcome: &Welcome, lane: (u8, u8), deadline: Instant) -> Result<Link, OpenError> {
    let left = || deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    let link = Link::connect(endpoint, left())?;
    let (secret, session, (number, of)) = (&welcome.lanes_secret, welcome.session, lane);
    let proof = lane_proof(secret, session, lane, LaneEnd::Client);
    let hello = encode_opening(Opening::Hello, &hello(0, Purpose::Lane { session, number, of, proof }));
    link.send_all(&mut [IoSlice::new(&hello)])?;
    count_hello(hello.len());
    let (preamble, body) = receive(&link, deadline)?;
    let joined = decode_joined(preamble, &body)?;
    if !proofs_equal(&joined.proof, &lane_proof(secret, session, lane, LaneEnd::Session)) {
        return Err(io::Error::other("another server answers there").into());
    }
    Ok(link)
}

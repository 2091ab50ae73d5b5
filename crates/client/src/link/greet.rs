//! The handshake: says hello, and waits for the server's welcome, also where the server first says that the client has
//! to wait.

use std::io::IoSlice;
use std::time::{Duration, Instant};

use ropeway_protocol::handshake::{
    Answer, HandshakeError, Hello, Opening, Part, Purpose, Waiting, Welcome, decode_reply, encode_opening, features,
};
use ropeway_protocol::limits;
use ropeway_transport::{Endpoint, Link, PartPlace, Room, Sender};

use super::error::OpenError;
use super::lanes::add_lanes;
use super::opening::{count_hello, hello, receive};
use super::peers::group_key;
use super::way::Way;
use crate::base::stats::{STATS, count};

/// After waiting this long, the client says so on standard error.
const FIRST_NOTICE: Duration = Duration::from_secs(3);

/// And then this often.
const NOTICES: Duration = Duration::from_secs(30);

/// What a link's bytes go through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Through {
    /// Its socket, or several.
    Socket,
    /// Memory of both processes, where they are on one machine; else the socket.
    Memory,
    /// UCX.
    Ucx,
}

impl Through {
    fn of(way: &Way<'_>) -> Self {
        match way.endpoint {
            Endpoint::Ucx { .. } => Self::Ucx,
            _ if way.shares_memory => Self::Memory,
            _ => Self::Socket,
        }
    }
}

/// Says hello on `link`, agrees on the `way` it goes on, and waits for the welcome: until `deadline` where the server says nothing; where it says that
/// the client has to wait, as long as it says so every few seconds, [`limits::MAX_WAITING_SECONDS`] at most. `server`
/// is the server's name for notices on standard error.
///
/// # Errors
/// [`OpenError`].
pub fn greet(mut link: Link, way: &Way<'_>, server: &str, deadline: Instant) -> Result<(Link, Welcome), OpenError> {
    let (through, has_lanes) = (Through::of(way), way.has_lanes());
    let nearby = if link.may_be_nearby() { features::TAKES_NEARBY } else { 0 };
    let features = match through {
        Through::Ucx => features::UCX,
        Through::Memory => features::SHARES_WITH_PEERS | nearby,
        Through::Socket => 0,
    } | if has_lanes { features::LANES } else { 0 };
    let hello = Hello {
        // The server lets in whoever shows this key as one of the session's peers.
        credential: match link.is_encrypted() {
            true => group_key().map(|key| key.bytes().to_vec()).unwrap_or_default(),
            false => Vec::new(),
        },
        devices: if through == Through::Memory { link.look_for_devices() } else { Vec::new() },
        ..hello(features, Purpose::Commands)
    };
    let bytes = encode_opening(Opening::Hello, &hello);
    match through {
        Through::Memory => link.offer_memory(&bytes, Room::WithArena)?,
        Through::Socket | Through::Ucx => link.send_all(&mut [IoSlice::new(&bytes)])?,
    }
    count_hello(bytes.len());

    let mut deadline = deadline;
    let mut patience = Patience::new(Instant::now());
    loop {
        let (preamble, body) = receive(&link, deadline)?;
        match decode_reply(preamble, &body)? {
            Answer::Welcome(welcome) if through == Through::Ucx => {
                count(&STATS.round_trips, 1);
                return Ok((link.go_over_to_ucx(deadline)?, *welcome));
            }
            Answer::Welcome(welcome) => {
                let link = link.take_up_memory()?;
                let goes_over_lanes = has_lanes && link.is_socket_alone();
                let link = if goes_over_lanes { add_lanes(link, way, &welcome)? } else { link };
                return Ok((link, *welcome));
            }
            Answer::Nearby(nearby) => {
                link.hand_in_memory(&nearby.name, &nearby.token, Room::WithArena)?;
                count(&STATS.messages_sent, 1);
                count(&STATS.round_trips, 1);
            }
            Answer::Part(Part { device, at, len, mark }) => {
                link.take_part(&device, PartPlace { at, len, mark })?;
            }
            Answer::Waiting(waiting) => {
                let now = Instant::now();
                deadline = patience.deadline(now).ok_or(HandshakeError::TooBusy)?;
                if patience.notice_is_due(now) {
                    crate::warning!("waiting for the server {server}: {}", Because(&waiting));
                }
            }
        }
    }
}

/// How long a client waits for a server that says that it lives, and when the client says so.
struct Patience {
    end: Instant,
    next_notice: Instant,
}

impl Patience {
    fn new(now: Instant) -> Self {
        // The server's own limit is the same, and its words say more: they have time to arrive.
        let end = now + Duration::from_secs(limits::MAX_WAITING_SECONDS + limits::WAITING_SILENCE_SECONDS);
        Self { end, next_notice: now + FIRST_NOTICE }
    }

    /// Until when the next answer has to be there; `None` when the client has waited for long enough.
    fn deadline(&self, now: Instant) -> Option<Instant> {
        (now < self.end).then(|| now + Duration::from_secs(limits::WAITING_SILENCE_SECONDS))
    }

    fn notice_is_due(&mut self, now: Instant) -> bool {
        let due = now >= self.next_notice;
        if due {
            self.next_notice = now + NOTICES;
        }
        due
    }
}

/// Why the client waits, for a person.
struct Because<'a>(&'a Waiting);

impl std::fmt::Display for Because<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.before {
            0 => {}
            1 => f.write_str("1 client is before this one; ")?,
            before => write!(f, "{before} clients are before this one; ")?,
        }
        // The server's words go to a terminal.
        let printable = self.0.reason.chars().filter(|letter| !letter.is_control());
        f.write_str(&printable.collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_has_an_end_and_speaks_now_and_then() {
        let begin = Instant::now();
        let mut patience = Patience::new(begin);
        let second = Duration::from_secs(1);
        let silence = Duration::from_secs(limits::WAITING_SILENCE_SECONDS);
        assert_eq!(patience.deadline(begin + second), Some(begin + second + silence));
        let end = u32::try_from(limits::MAX_WAITING_SECONDS + limits::WAITING_SILENCE_SECONDS).unwrap();
        assert_eq!(patience.deadline(begin + second * end), None);
        let notices: Vec<u32> = (0..70).filter(|at| patience.notice_is_due(begin + second * *at)).collect();
        assert_eq!(notices, [3, 33, 63]);
    }

    #[test]
    fn a_person_reads_why() {
        let waiting = |before| Waiting { before, reason: "2 workers\x1b are being started".into() };
        assert_eq!(Because(&waiting(0)).to_string(), "2 workers are being started");
        assert_eq!(Because(&waiting(1)).to_string(), "1 client is before this one; 2 workers are being started");
        assert_eq!(Because(&waiting(7)).to_string(), "7 clients are before this one; 2 workers are being started");
    }
}

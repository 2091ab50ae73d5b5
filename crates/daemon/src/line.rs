//! The line of clients that wait for a worker: first come, first served. Each is told regularly that it waits, and for
//! what.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use ropeway_lease::grant::LeaseId;
use ropeway_protocol::handshake::{Opening, Waiting, encode_opening};
use ropeway_protocol::limits;
use ropeway_transport::tls::PublicKey;

use crate::pool::{Client, Guest};

/// The time from one sign of life to the next.
const BEAT: Duration = Duration::from_secs(limits::WAITING_SECONDS);

/// The longest that a client waits.
pub(crate) const MOST: Duration = Duration::from_secs(limits::MAX_WAITING_SECONDS);

/// Longest reason, in characters: a [`Waiting`] is no longer than a hello.
const MAX_REASON: usize = 500;

/// The line.
pub(crate) struct Line {
    waiting: VecDeque<Place>,
    next_beat: Instant,
}

/// A client in the line.
struct Place {
    client: Box<Client>,
    since: Instant,
}

impl Line {
    /// An empty line.
    pub(crate) fn new(now: Instant) -> Self {
        Self { waiting: VecDeque::new(), next_beat: now }
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds `client` to the end of the line, and tells it so.
    ///
    /// # Errors
    /// The client, whose connection is of no use.
    pub(crate) fn join(&mut self, client: Box<Client>, reason: &str, now: Instant) -> Result<(), Box<Client>> {
        if self.is_empty() {
            self.next_beat = now + BEAT;
        }
        if !tell(&client, self.waiting.len(), reason) {
            return Err(client);
        }
        self.waiting.push_back(Place { client, since: now });
        Ok(())
    }

    /// Serves clients from the front of the line until `serve` gives one back.
    pub(crate) fn serve(&mut self, mut serve: impl FnMut(Box<Client>) -> Result<(), Box<Client>>) {
        while let Some(Place { client, since }) = self.waiting.pop_front() {
            if let Err(client) = serve(client) {
                self.waiting.push_front(Place { client, since });
                return;
            }
        }
    }

    /// The leases of those who wait, as often as each has some.
    pub(crate) fn leases(&self) -> impl Iterator<Item = LeaseId> {
        self.waiting.iter().filter_map(|place| place.client.guest.as_ref().and_then(|guest| guest.lease))
    }

    /// How many clients with this key wait.
    pub(crate) fn waiting_of(&self, key: &PublicKey) -> usize {
        self.waiting.iter().filter(|place| place.client.guest.as_ref().is_some_and(|guest| guest.key == *key)).count()
    }

    /// Removes and returns the clients that may not be here any more, each with the reason that `reason` gives.
    pub(crate) fn dismiss(&mut self, reason: impl Fn(&Guest) -> Option<String>) -> Vec<(Box<Client>, String)> {
        let mut dismissed = Vec::new();
        for place in std::mem::take(&mut self.waiting) {
            match place.client.guest.as_ref().and_then(&reason) {
                Some(why) => dismissed.push((place.client, why)),
                None => self.waiting.push_back(place),
            }
        }
        dismissed
    }

    /// Empties the line, and returns its clients.
    pub(crate) fn dissolve(&mut self) -> impl Iterator<Item = Box<Client>> + use<> {
        std::mem::take(&mut self.waiting).into_iter().map(|place| place.client)
    }

    /// Removes a client that has gone.
    pub(crate) fn leave(&mut self, number: u64) -> Option<Box<Client>> {
        let at = self.waiting.iter().position(|place| place.client.number == number)?;
        self.waiting.remove(at).map(|place| place.client)
    }

    /// Removes and returns the clients that have waited for [`MOST`].
    pub(crate) fn expired(&mut self, now: Instant) -> Vec<Client> {
        let late = self.waiting.partition_point(|place| now >= place.since + MOST);
        self.waiting.drain(..late).map(|place| *place.client).collect()
    }

    /// Sends every client a sign of life when it is due; removes and returns those whose connections no longer work.
    pub(crate) fn beat(&mut self, reason: impl FnOnce() -> String, now: Instant) -> Vec<Client> {
        if self.is_empty() || now < self.next_beat {
            return Vec::new();
        }
        self.next_beat = now + BEAT;
        let reason = reason();
        let mut lost = Vec::new();
        for (before, place) in std::mem::take(&mut self.waiting).into_iter().enumerate() {
            if tell(&place.client, before, &reason) {
                self.waiting.push_back(place);
            } else {
                lost.push(*place.client);
            }
        }
        lost
    }

    /// Returns when the line has something to do even if no socket becomes ready.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.waiting.front().map(|first| self.next_beat.min(first.since + MOST))
    }

    /// The clients' connections, by the clients' numbers.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = (u64, BorrowedFd<'_>)> {
        self.waiting.iter().map(|place| (place.client.number, place.client.link.as_fd()))
    }
}

/// Tells a client that it waits; returns whether its connection can still be used.
fn tell(client: &Client, before: usize, reason: &str) -> bool {
    let before = u32::try_from(before).unwrap_or(u32::MAX);
    let frame =
        encode_opening(Opening::Waiting, &Waiting { before, reason: reason.chars().take(MAX_REASON).collect() });
    match client.link.try_send(&frame) {
        // The client has not read the last messages yet, and will find them when it does.
        Ok(0) => !client.link.is_encrypted(),
        // After half a frame, the client would not understand anything else.
        Ok(sent) => sent == frame.len(),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use ropeway_protocol::handshake::{Answer, Hello, PREAMBLE_LEN, Preamble, Purpose, decode_reply};
    use ropeway_transport::Link;

    use super::*;
    use crate::audit::Who;

    fn client(number: u64) -> (Box<Client>, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let hello = Hello {
            features: 0,
            purpose: Purpose::Commands,
            release: "0".into(),
            program: "test".into(),
            pid: 1,
            credential: vec![],
            devices: Vec::new(),
        };
        let link = Link::from_fd(OwnedFd::from(ours)).unwrap();
        (
            Box::new(Client {
                link,
                who: Who { address: "test".into(), ..Who::default() },
                key: None,
                guest: None,
                hello: Box::new(hello),
                part: None,
                number,
            }),
            theirs,
        )
    }

    fn heard(stream: &mut UnixStream) -> (u32, String) {
        let mut head = [0; PREAMBLE_LEN];
        stream.read_exact(&mut head).unwrap();
        let preamble = Preamble::from_bytes(&head).unwrap();
        let mut body = vec![0; preamble.len as usize];
        stream.read_exact(&mut body).unwrap();
        let Ok(Answer::Waiting(waiting)) = decode_reply(preamble, &body) else { panic!("it is not told to wait") };
        (waiting.before, waiting.reason)
    }

    #[test]
    fn first_come_first_served_and_told_meanwhile() {
        let now = Instant::now();
        let mut line = Line::new(now);
        let mut streams = Vec::new();
        for number in 1..=4 {
            let (client, stream) = client(number);
            assert!(line.join(client, "so", now).is_ok());
            streams.push(stream);
        }
        let told = streams.iter_mut().map(heard).collect::<Vec<_>>();
        assert_eq!(told, (0..4).map(|before| (before, "so".to_owned())).collect::<Vec<_>>());
        // The second leaves; those behind it move up.
        assert_eq!(line.leave(2).map(|client| client.number), Some(2));
        assert!(line.leave(2).is_none());
        assert!(line.beat(|| unreachable!("it is not due"), now).is_empty());
        assert_eq!(line.deadline(), Some(now + BEAT));
        assert!(line.beat(|| "on".into(), now + BEAT).is_empty());
        assert_eq!(heard(&mut streams[3]), (2, "on".into()));
        let mut served = Vec::new();
        line.serve(|client| {
            if served.len() == 2 {
                return Err(client);
            }
            served.push(client.number);
            Ok(())
        });
        assert_eq!((served, line.len()), (vec![1, 3], 1));
        assert!(line.expired(now + MOST - BEAT).is_empty());
        assert_eq!(line.expired(now + MOST).len(), 1);
        assert!(line.is_empty() && line.deadline().is_none());
    }

    #[test]
    fn who_does_not_listen_is_not_waited_for() {
        let now = Instant::now();
        let mut line = Line::new(now);
        let (gone, stream) = client(1);
        drop(stream);
        assert!(line.join(gone, "so", now).is_err());
        let (client, stream) = client(2);
        assert!(line.join(client, "so", now).is_ok());
        drop(stream);
        assert_eq!(line.beat(|| "on".into(), now + BEAT).len(), 1);
        assert!(line.is_empty());
    }
}

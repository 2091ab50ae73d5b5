//! Whether the server's program is alive.
//!
//! One rule for all who wait for a server, within a frame or between two, for bytes from it or for room to send: where
//! nothing has come for [`SILENCE`], the server is asked for a sign of life (a ping); where nothing has come for
//! [`LIMIT`], it is lost. A busy server reports by itself that it is busy. Time counts only while somebody waits and
//! checks, at each [`GLANCE`]: a program that was itself stopped does not blame the server.
//!
//! Whether the server's *machine* is up is for the transport to detect, and it does so sooner.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use ropeway_transport::GLANCE;

use crate::base::sync::lock;

/// A server of which nothing has come for so long is asked for a sign of life.
const SILENCE: Duration = Duration::from_secs(5);

/// A server of which nothing has come for so long is lost: as looks are a [`GLANCE`] apart, and the first only sees
/// what has come since, that takes 20 to 23 s.
const LIMIT: Duration = Duration::from_secs(18);

/// The observations of the waiting threads.
#[derive(Debug)]
pub(super) struct Liveness(Mutex<Seen>);

#[derive(Debug)]
struct Seen {
    /// When somebody looked last.
    looked: Instant,
    /// How long nothing has come, as far as somebody was waiting.
    quiet: Duration,
    /// The observation at that time.
    link: Traffic,
    ping: Asked,
}

/// How much has gone over a link.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Traffic {
    /// Bytes received.
    pub(super) received: u64,
    /// Bytes given to the socket.
    pub(super) sent: u64,
    /// The sent bytes that the other end has taken.
    pub(super) taken: u64,
    /// Nothing waits to be given to the socket.
    pub(super) is_idle: bool,
}

/// Whether a sign of life was asked for since the last byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asked {
    No,
    /// It has not been given to the socket, as far as is known.
    Waiting,
    /// The ping has been given to the socket and ends at this byte of all that is sent.
    Sent(u64),
}

/// The outcome of a look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// The server is alive, or may be.
    Waits,
    /// It is to be asked.
    Ask,
    /// It is lost.
    Silent,
}

impl Default for Liveness {
    fn default() -> Self {
        let (link, ping) = (Traffic::default(), Asked::No);
        Self(Mutex::new(Seen { looked: Instant::now(), quiet: Duration::ZERO, link, ping }))
    }
}

impl Seen {
    fn look(&mut self, link: Traffic, can_ask: bool, now: Instant) -> Verdict {
        let before = std::mem::replace(&mut self.link, link);
        let since = now.saturating_duration_since(std::mem::replace(&mut self.looked, now));
        if link.received != before.received {
            (self.quiet, self.ping) = (Duration::ZERO, Asked::No);
            return Verdict::Waits;
        }
        // A longer time is one in which nobody waited, or in which this process did not run.
        self.quiet += since.min(2 * GLANCE);
        if self.ping == Asked::Waiting && link.is_idle {
            self.ping = Asked::Sent(link.sent);
        }
        // On a slow link, the ping may be queued behind much data. Once the ping has arrived, only an answer counts.
        let is_on_its_way = match self.ping {
            Asked::No => !can_ask,
            Asked::Waiting => true,
            Asked::Sent(end) => link.taken < end,
        };
        if is_on_its_way && link.taken > before.taken {
            self.quiet = self.quiet.min(SILENCE);
        }
        if self.quiet >= LIMIT {
            return Verdict::Silent;
        }
        if can_ask && self.quiet >= SILENCE && self.ping == Asked::No {
            self.ping = Asked::Waiting;
            return Verdict::Ask;
        }
        Verdict::Waits
    }
}

impl Liveness {
    /// Records that a waiting thread has seen nothing come for a [`GLANCE`]. `can_ask`: the thread can have the server
    /// asked.
    pub(super) fn look(&self, link: Traffic, can_ask: bool) -> Verdict {
        lock(&self.0).look(link, can_ask, Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Watched {
        seen: Seen,
        link: Traffic,
        can_ask: bool,
        now: Instant,
    }

    impl Watched {
        fn new() -> Self {
            let now = Instant::now();
            let link = Traffic { received: 100, sent: 100, taken: 100, is_idle: true };
            Self { seen: Seen { looked: now, quiet: Duration::ZERO, link, ping: Asked::No }, link, can_ask: true, now }
        }

        fn look(&mut self) -> Verdict {
            self.look_after(GLANCE)
        }

        fn look_after(&mut self, time: Duration) -> Verdict {
            self.now += time;
            let verdict = self.seen.look(self.link, self.can_ask, self.now);
            if verdict == Verdict::Ask {
                self.link.sent += 20;
            }
            verdict
        }

        fn seconds_until(&mut self, wanted: Verdict) -> u64 {
            let begin = self.now;
            while self.look() != wanted {
                assert!(self.now - begin < Duration::from_secs(1000), "{wanted:?} does not come");
            }
            (self.now - begin).as_secs()
        }
    }

    #[test]
    fn a_silent_server_is_asked_and_then_lost() {
        let mut watched = Watched::new();
        assert_eq!(watched.seconds_until(Verdict::Ask), 6);
        watched.link.taken = watched.link.sent;
        assert_eq!(watched.seconds_until(Verdict::Silent), 12);
    }

    #[test]
    fn any_byte_is_a_sign_of_life() {
        let mut watched = Watched::new();
        for _ in 0..10 {
            watched.seconds_until(Verdict::Ask);
            watched.look();
            watched.link.received += 1;
            assert_eq!(watched.look(), Verdict::Waits);
        }
    }

    #[test]
    fn time_in_which_nobody_looks_does_not_count() {
        let mut watched = Watched::new();
        assert_eq!(watched.look_after(Duration::from_secs(3600)), Verdict::Waits);
        watched.seconds_until(Verdict::Ask);
        assert_eq!(watched.look_after(Duration::from_secs(60)), Verdict::Waits);
    }

    #[test]
    fn a_question_that_is_on_its_way_is_waited_for() {
        let mut watched = Watched::new();
        watched.link.sent = 10_000;
        watched.seconds_until(Verdict::Ask);
        for _ in 0..90 {
            watched.link.taken += 100;
            assert_eq!(watched.look(), Verdict::Waits, "a slow link");
        }
        // The ping has arrived; that more bytes reach the other machine says nothing about the server.
        watched.link.taken = 10_020;
        watched.look();
        let begin = watched.now;
        while watched.look() != Verdict::Silent {
            watched.link.sent += 10;
            watched.link.taken += 10;
        }
        assert!(watched.now - begin <= LIMIT, "{:?}", watched.now - begin);
    }

    #[test]
    fn a_server_that_takes_nothing_is_lost_even_where_no_question_gets_through() {
        let mut watched = Watched::new();
        (watched.link.sent, watched.link.is_idle, watched.can_ask) = (10_000, false, false);
        assert_eq!(watched.seconds_until(Verdict::Silent), 18);
    }
}

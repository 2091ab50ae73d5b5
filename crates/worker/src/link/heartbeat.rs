//! Heartbeats for a client whose commands take long to process.
//!
//! The leader answers nothing while it is in a native call, and a driver may keep it there, for example while another
//! thread compiles. A client gives up a server that is silent for long. So the watchdog sends a heartbeat in the
//! leader's place.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ropeway_protocol::messages::Completed;
use ropeway_protocol::types::Completions;

use crate::link::outgoing::Outgoing;

/// How long the leader must be at work before the client gets a heartbeat, and the interval between heartbeats.
pub const HEARTBEAT: Duration = Duration::from_millis(2500);

/// Most heartbeats in a row, after which the session counts as hung: ten minutes.
const MOST: u32 = 240;

/// Whether the leader is at work; an odd number means that it is.
#[derive(Default)]
pub struct Leading(AtomicU64);

/// Marks the leader as at work while it lives.
pub struct Busy<'a>(&'a Leading);

impl Leading {
    /// Marks the leader as at work.
    pub fn busy(&self) -> Busy<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Busy(self)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The watchdog's last view of the leader.
pub struct Watchdog {
    seen: u64,
    since: Instant,
    given: u32,
}

impl Watchdog {
    /// Makes a watchdog's view that has seen nothing yet.
    pub fn new() -> Self {
        Self { seen: 0, since: Instant::now(), given: 0 }
    }

    /// Looks at the leader, and returns whether a heartbeat is due.
    fn is_due(&mut self, leading: &Leading, now: Instant) -> bool {
        let at = leading.0.load(Ordering::Relaxed);
        if at != self.seen || at.is_multiple_of(2) {
            *self = Self { seen: at, since: now, given: 0 };
            return false;
        }
        if now.saturating_duration_since(self.since) < HEARTBEAT || self.given >= MOST {
            return false;
        }
        (self.since, self.given) = (now, self.given + 1);
        true
    }

    /// Looks at the leader, and sends a heartbeat if one is due: a note of no completions.
    ///
    /// # Errors
    /// The socket's error.
    pub fn look(&mut self, leading: &Leading, outgoing: &Outgoing) -> std::io::Result<()> {
        if !self.is_due(leading, Instant::now()) {
            return Ok(());
        }
        let mut sending = outgoing.lock();
        sending.note(&Completed { completions: Completions::default() });
        sending.send()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_leader_that_stays_away_is_stood_in_for() {
        let (leading, mut watchdog, begin) = (Leading::default(), Watchdog::new(), Instant::now());
        let mut due = |leading: &Leading, pulses: u32| watchdog.is_due(leading, begin + HEARTBEAT * pulses);
        assert!(!due(&leading, 1) && !due(&leading, 2));
        let busy = leading.busy();
        assert!(!due(&leading, 3));
        assert!(due(&leading, 4) && due(&leading, 5) && !due(&leading, 5));
        drop(busy);
        assert!(!due(&leading, 6));
        let _busy = leading.busy();
        assert!(!due(&leading, 7));
        let given = (8..1000).filter(|&pulses| due(&leading, pulses)).count();
        assert_eq!(given, MOST as usize);
    }
}

//! The broker's time, by which leases are valid.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A clock that agreed with the machine's when the broker was started, and goes on evenly whatever is done to that one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    since: Instant,
    at: SystemTime,
}

impl Clock {
    /// Begins now.
    pub(super) fn start() -> Self {
        Self { since: Instant::now(), at: SystemTime::now() }
    }

    /// The time.
    pub(super) fn now(self) -> SystemTime {
        self.at + self.since.elapsed()
    }

    /// The same in milliseconds since 1970.
    pub(super) fn now_ms(self) -> u64 {
        self.now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
    }
}

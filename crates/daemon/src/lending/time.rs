//! The time by which leases are valid: the broker's, once it has been heard.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The broker's time as far as it is known; before, this machine's.
#[derive(Debug, Default)]
pub(crate) struct BrokerTime(Mutex<Option<(Instant, u64)>>);

impl BrokerTime {
    /// Takes in when the broker said which time it is, in milliseconds since 1970.
    pub(super) fn hear(&self, said: (Instant, u64)) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(said);
    }

    /// The time. Whatever is done to this machine's clock after the broker was heard does not count.
    pub(crate) fn now(&self) -> SystemTime {
        match *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((heard, ms)) => UNIX_EPOCH + Duration::from_millis(ms) + heard.elapsed(),
            None => SystemTime::now(),
        }
    }
}

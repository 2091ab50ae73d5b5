//! For how long a broker leads its pool.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The right of a broker to decide for its pool, which is over for good once it has ended.
#[derive(Clone, Debug)]
pub struct Tenure(Option<Arc<Mutex<State>>>);

#[derive(Debug)]
struct State {
    /// When it ends, by [`now`].
    until: Duration,
    is_over: bool,
}

/// The time since the machine was started. It goes on while the machine sleeps, and nobody sets it.
pub(super) fn now() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.cast_unsigned(), now.tv_nsec as u32)
}

impl Tenure {
    /// That of a pool's only broker.
    pub fn endless() -> Self {
        Self(None)
    }

    /// One that ends at this time if it is not made longer.
    pub(super) fn until(until: Duration) -> Self {
        Self(Some(Arc::new(Mutex::new(State { until, is_over: false }))))
    }

    /// Makes it longer; returns whether it had not ended.
    pub(super) fn extend(&self, until: Duration) -> bool {
        let Some(mut state) = self.state() else { return true };
        if !state.is_over {
            state.until = until;
        }
        !state.is_over
    }

    /// Whether the broker leads.
    pub fn holds(&self) -> bool {
        self.state().is_none_or(|state| !state.is_over)
    }

    /// How long it lasts from now if it is not made longer; `None`: for ever.
    pub fn left(&self) -> Option<Duration> {
        let state = self.state()?;
        Some(if state.is_over { Duration::ZERO } else { state.until.saturating_sub(now()) })
    }

    /// Ends it.
    pub fn end(&self) {
        if let Some(mut state) = self.state() {
            state.is_over = true;
        }
    }

    /// Its state at this time.
    fn state(&self) -> Option<MutexGuard<'_, State>> {
        let mut state = self.0.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_over |= now() >= state.until;
        Some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_ended_does_not_begin_again() {
        let second = Duration::from_secs(1);
        let tenure = Tenure::until(now() + 60 * second);
        assert!(tenure.holds() && tenure.left().unwrap() > 50 * second);
        assert!(tenure.extend(now() + 120 * second) && tenure.left().unwrap() > 110 * second);
        let other = tenure.clone();
        other.end();
        assert!(!tenure.holds() && !tenure.extend(now() + second) && tenure.left() == Some(Duration::ZERO));
        let late = Tenure::until(now());
        assert!(!late.extend(now() + second) && !late.holds());
        assert!(Tenure::endless().holds() && Tenure::endless().left().is_none());
    }
}

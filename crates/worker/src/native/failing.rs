//! User events that may fail, and what must not happen while one does.
//!
//! With PoCL 3.1, two events must not fail at the same time, in two threads, if a command waits for both (it is ended
//! twice, and the process aborted), nor may a command start to wait for one that fails just then (it never ends). So
//! events fail one at a time ([`one_fails`]), and none does while a command with a wait list is looked up and enqueued
//! ([`none_fails`]).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

/// How long an event that is to fail waits for commands that are being enqueued: should the implementation hold one up
/// until that very event has ended, the wait has an end.
const LONGEST_ENQUEUE: Duration = Duration::from_secs(1);

/// Held shared while a command is enqueued, and by one alone while an event fails.
static FAILING: RwLock<()> = RwLock::new(());

/// User events of the client that are not set. There is one session in a process.
static UNSET: AtomicUsize = AtomicUsize::new(0);

/// Counts a user event that the client has made.
pub fn user_event_made() {
    UNSET.fetch_add(1, Ordering::Relaxed);
}

/// Counts a user event that the client has set. Call this after the event has had its effect.
pub fn user_event_set() {
    UNSET.fetch_sub(1, Ordering::Relaxed);
}

/// Whether there is one that is not set, and so may fail.
pub(super) fn any_unset() -> bool {
    UNSET.load(Ordering::Relaxed) > 0
}

/// As long as the value lives, no event fails. `None` where none can: while the client has no user event that is not set.
pub fn none_fails() -> Option<RwLockReadGuard<'static, ()>> {
    any_unset().then(|| FAILING.read().unwrap_or_else(PoisonError::into_inner))
}

/// Lets an event fail, by `set`, while no other does and no command is enqueued.
pub(super) fn one_fails<T>(set: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let alone = loop {
        match FAILING.try_write() {
            Ok(alone) => break Some(alone),
            Err(TryLockError::Poisoned(error)) => break Some(error.into_inner()),
            Err(TryLockError::WouldBlock) if begun.elapsed() > LONGEST_ENQUEUE => break None,
            Err(TryLockError::WouldBlock) => thread::yield_now(),
        }
    };
    let result = set();
    drop(alone);
    result
}

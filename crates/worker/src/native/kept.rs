//! Native events that are kept although nobody asked for them.
//!
//! When an event fails, PoCL 3.1 fails what waits for it, one command after the other, and aborts the process where the event of one of
//! them is referred to by nobody. So as long as the client has a user event that it may set to an error, every command has an event,
//! which is kept until it has ended.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::Event;

/// Events held before the first look for those that have ended.
const FIRST_LOOK: usize = 256;

/// User events of the client that are not set. There is one session in a process.
static UNSET: AtomicUsize = AtomicUsize::new(0);

static KEPT: Mutex<Kept> = Mutex::new(Kept { events: Vec::new(), look_at: FIRST_LOOK });

struct Kept {
    events: Vec<Event>,
    /// How many there are when those that have ended are dropped.
    look_at: usize,
}

/// The client has made a user event.
pub fn user_event_made() {
    UNSET.fetch_add(1, Ordering::Relaxed);
}

/// The client has set one. Call it after that has had its effect.
pub fn user_event_set() {
    UNSET.fetch_sub(1, Ordering::Relaxed);
}

/// Whether commands that are enqueued now must have events.
pub(super) fn keeping() -> bool {
    UNSET.load(Ordering::Relaxed) > 0
}

/// Keeps `event` until it has ended.
pub(super) fn keep(event: Event) {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.events.push(event);
    if kept.events.len() >= kept.look_at {
        kept.events.retain(|event| !event.ended());
        // So that each is looked at a few times at the most.
        kept.look_at = FIRST_LOOK.max(2 * kept.events.len());
    }
}

//! Native events that are kept although the client asked for none.
//!
//! When an event fails, PoCL 3.1 fails the commands that wait for it, one after the other, and aborts the process if
//! nobody holds a reference to the event of one of them. So while the client has a user event that it may set to an
//! error, every command has an event, which is kept until it has ended.

use std::sync::{Mutex, PoisonError};

use super::Event;

/// Events held before the first look for those that have ended.
const FIRST_LOOK: usize = 256;

static KEPT: Mutex<Kept> = Mutex::new(Kept { events: Vec::new(), look_at: FIRST_LOOK });

struct Kept {
    events: Vec<Event>,
    /// The number of kept events at which those that have ended are dropped.
    look_at: usize,
}

/// Keeps `event` until it has ended.
pub(super) fn keep(event: Event) {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.events.push(event);
    if kept.events.len() >= kept.look_at {
        kept.events.retain(|event| !event.ended());
        // This way each event is looked at only a few times.
        kept.look_at = FIRST_LOOK.max(2 * kept.events.len());
    }
}

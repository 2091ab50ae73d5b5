//! The slots of a memory that a peer sees, from which it takes what is sent to it.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::base::lock::lock;

/// How many there are: enough that this side's device, the peer's device and the messages between them overlap.
pub const SLOTS: usize = 16;

/// How often a thread that waits for a slot looks whether the peer is there.
const LOOK: Duration = Duration::from_millis(500);

/// Which slots are in use.
#[derive(Debug)]
pub struct Slots {
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Slots that this side fills, or that the peer has.
    used: [bool; SLOTS],
    /// Those of them that the peer has.
    lent: [bool; SLOTS],
    over: bool,
}

/// A slot that is in use. It is free again when this is dropped, unless the peer has it by then.
#[derive(Debug)]
pub struct Slot<'a> {
    slots: &'a Slots,
    /// Its number.
    pub number: usize,
    is_lent: bool,
}

impl Default for Slots {
    fn default() -> Self {
        Self { state: Mutex::default(), freed: Condvar::new() }
    }
}

impl Slots {
    /// A free one, if there is any.
    pub fn take(&self) -> Option<Slot<'_>> {
        self.take_of(&mut lock(&self.state))
    }

    fn take_of(&self, state: &mut State) -> Option<Slot<'_>> {
        let number = state.used.iter().position(|used| !used).filter(|_| !state.over)?;
        state.used[number] = true;
        Some(Slot { slots: self, number, is_lent: false })
    }

    /// Waits for a free one; `None` where there will be none, as the connection is over or does not work.
    pub fn wait(&self, works: impl Fn() -> bool) -> Option<Slot<'_>> {
        let mut state = lock(&self.state);
        loop {
            let slot = self.take_of(&mut state);
            if slot.is_some() || state.over || !works() {
                return slot;
            }
            state = self.freed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The peer has taken what was in a slot; returns whether it had that slot.
    pub fn taken(&self, number: usize) -> bool {
        let mut state = lock(&self.state);
        let had = state.lent.get_mut(number).is_some_and(std::mem::take);
        if had {
            state.used[number] = false;
            self.freed.notify_one();
        }
        had
    }

    /// The connection is over: nobody waits any more.
    pub fn end(&self) {
        lock(&self.state).over = true;
        self.freed.notify_all();
    }
}

impl Slot<'_> {
    /// The peer has it from now on.
    pub fn lend(mut self) {
        self.is_lent = true;
        lock(&self.slots.state).lent[self.number] = true;
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        if !self.is_lent {
            lock(&self.slots.state).used[self.number] = false;
            self.slots.freed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_free_once_the_peer_has_taken_what_was_in_it() {
        let slots = Slots::default();
        let all: Vec<_> = std::iter::from_fn(|| slots.take()).collect();
        assert_eq!(all.len(), SLOTS);
        assert!(slots.wait(|| false).is_none());
        assert!(!slots.taken(3), "the peer does not have it");
        for slot in all {
            if slot.number % 2 == 1 {
                slot.lend();
            }
        }
        assert_eq!(std::iter::from_fn(|| slots.take().map(Slot::lend)).count(), SLOTS / 2, "those that were not lent");
        assert!(slots.taken(3) && !slots.taken(3), "once");
        assert!(!slots.taken(SLOTS) && !slots.taken(usize::MAX));
        assert_eq!(slots.wait(|| true).map(|slot| slot.number), Some(3));
    }

    #[test]
    fn nobody_waits_for_a_connection_that_is_over() {
        let slots = Slots::default();
        let all: Vec<_> = std::iter::from_fn(|| slots.take()).collect();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| slots.wait(|| true).is_none());
            slots.end();
            assert!(waits.join().unwrap());
        });
        drop(all);
        assert!(slots.take().is_none());
    }
}

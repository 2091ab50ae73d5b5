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
    /// Free ones that lie side by side, as many as there are but no more than `most`; none where none is free.
    pub fn take(&self, most: usize) -> Vec<Slot<'_>> {
        self.take_of(&mut lock(&self.state), most)
    }

    fn take_of(&self, state: &mut State, most: usize) -> Vec<Slot<'_>> {
        if state.over {
            return Vec::new();
        }
        let free_from = |first: usize| state.used[first..].iter().take(most).take_while(|used| !**used).count();
        // The first of the longest.
        let longest = (0..SLOTS).map(|first| (free_from(first), first)).rev().max_by_key(|(count, _)| *count);
        let (count, first) = longest.unwrap_or_default();
        state.used[first..first + count].fill(true);
        (first..first + count).map(|number| Slot { slots: self, number, is_lent: false }).collect()
    }

    /// As [`Self::take`], but waits until one is free; none where none will be, as the connection is over or does not work.
    pub fn wait(&self, most: usize, works: impl Fn() -> bool) -> Vec<Slot<'_>> {
        let mut state = lock(&self.state);
        loop {
            let slots = self.take_of(&mut state, most);
            if !slots.is_empty() || state.over || !works() {
                return slots;
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
        let all = slots.take(SLOTS);
        assert_eq!(all.len(), SLOTS);
        assert!(slots.wait(1, || false).is_empty());
        assert!(!slots.taken(3), "the peer does not have it");
        for slot in all {
            if slot.number % 2 == 1 {
                slot.lend();
            }
        }
        let unlent = || slots.take(SLOTS).pop().map(Slot::lend);
        assert_eq!(std::iter::from_fn(unlent).count(), SLOTS / 2, "those that were not lent");
        assert!(slots.taken(3) && !slots.taken(3), "once");
        assert!(!slots.taken(SLOTS) && !slots.taken(usize::MAX));
        assert_eq!(slots.wait(2, || true).into_iter().map(|slot| slot.number).collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn slots_that_lie_side_by_side_are_taken_together() {
        let slots = Slots::default();
        let numbers =
            |most| -> Vec<usize> { slots.take(most).into_iter().map(|slot| (slot.number, slot.lend()).0).collect() };
        assert_eq!(numbers(4), [0, 1, 2, 3]);
        assert_eq!(numbers(1), [4]);
        assert_eq!(numbers(SLOTS), (5..SLOTS).collect::<Vec<_>>());
        for free in [1, 7, 8, 12, 13, 14] {
            assert!(slots.taken(free));
        }
        assert_eq!(numbers(4), [12, 13, 14], "the most that there are");
        assert_eq!(numbers(1), [1], "the first of those that are as good");
        assert_eq!(numbers(4), [7, 8]);
        assert!(numbers(4).is_empty());
    }

    #[test]
    fn nobody_waits_for_a_connection_that_is_over() {
        let slots = Slots::default();
        let all = slots.take(SLOTS);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| slots.wait(1, || true).is_empty());
            slots.end();
            assert!(waits.join().unwrap());
        });
        drop(all);
        assert!(slots.take(1).is_empty());
    }
}

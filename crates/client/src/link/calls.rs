//! Pending replies, by the numbers of their calls.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use rustc_hash::FxBuildHasher;

use crate::base::modelled::atomic::{AtomicU32, Ordering};
use crate::base::modelled::{Mutex, lock};

/// The calls of a link whose answers are still to come, by their numbers.
#[derive(Debug)]
pub(super) struct Calls {
    next: AtomicU32,
    slots: Mutex<HashMap<u32, Slot, FxBuildHasher>>,
}

/// The place for a call's answer.
#[derive(Debug)]
pub(super) enum Slot {
    /// The answer has not come. `tells_ends`: the answer reports the ends of commands, and is a
    /// [`ropeway_protocol::types::Waited`].
    Waiting { tells_ends: bool },
    /// Any bytes will do: nobody waits for this very answer.
    Unawaited,
    /// The answer has come, and the ends that it reported have been processed.
    Answered(Vec<u8>),
}

impl Default for Calls {
    fn default() -> Self {
        Self { next: AtomicU32::new(1), slots: Mutex::default() }
    }
}

impl Calls {
    /// A number for a call that no other call has whose answer is still to come.
    pub(super) fn add(&self, slot: Slot) -> u32 {
        let mut slots = lock(&self.slots);
        loop {
            // 0 means no call, and a call that waits for long may still be pending when the numbers have wrapped
            // around.
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number != 0
                && let Entry::Vacant(place) = slots.entry(number)
            {
                place.insert(slot);
                return number;
            }
        }
    }

    /// Whether somebody waits for this call's answer, and if so, whether that tells of the ends of commands.
    pub(super) fn is_expected(&self, number: u32) -> Option<bool> {
        match lock(&self.slots).entry(number) {
            Entry::Occupied(place) => match place.get() {
                Slot::Waiting { tells_ends } => Some(*tells_ends),
                Slot::Unawaited => {
                    place.remove();
                    None
                }
                Slot::Answered(_) => None,
            },
            Entry::Vacant(_) => None,
        }
    }

    /// A call that was expected is answered.
    pub(super) fn answer(&self, number: u32, answer: Vec<u8>) {
        if let Some(slot) = lock(&self.slots).get_mut(&number) {
            *slot = Slot::Answered(answer);
        }
    }

    /// The answer, if it has come.
    pub(super) fn take(&self, number: u32) -> Option<Vec<u8>> {
        match lock(&self.slots).get_mut(&number) {
            Some(Slot::Answered(body)) => Some(std::mem::take(body)),
            _ => None,
        }
    }

    /// Nobody waits for the answer any more.
    pub(super) fn remove(&self, number: u32) {
        lock(&self.slots).remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_calls_under_way_are_not_given_again() {
        let calls = Calls::default();
        let add = || calls.add(Slot::Waiting { tells_ends: false });
        assert_eq!([add(), add()], [1, 2]);
        // As after four thousand million more.
        calls.next.store(u32::MAX, Ordering::Relaxed);
        calls.remove(2);
        assert_eq!([add(), add(), add()], [u32::MAX, 2, 3]);
    }

    #[test]
    fn an_answer_that_nobody_awaits_is_gone() {
        let calls = Calls::default();
        let number = calls.add(Slot::Unawaited);
        assert_eq!([number, number + 1].map(|number| calls.is_expected(number)), [None, None]);
        assert!(lock(&calls.slots).is_empty());
    }
}

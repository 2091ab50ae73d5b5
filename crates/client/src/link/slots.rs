//! Slots of a context: memory that the server's device reaches fast, which this process fills and empties, so that small transfers need
//! no more than their command.

use std::sync::Arc;

use ropeway_protocol::slots;
use ropeway_transport::Arena;

use crate::base::host::{HostSource, HostTarget, copy_in, copy_out};
use crate::base::modelled::atomic::Ordering;
use crate::base::modelled::{Mutex, lock};

/// The slots of a context.
#[derive(Debug)]
pub(crate) struct Slots {
    arena: Arc<Arena>,
    at: u64,
    /// Those that this process uses.
    taken: Mutex<[bool; slots::COUNT as usize]>,
}

/// A slot, which is this process's to fill or to empty until it is dropped; then it is the server's, if that was lent it.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Arc<Slots>,
    number: u32,
}

impl Slots {
    /// Those that begin here. `None` where there is no room for them.
    pub(crate) fn new(arena: &Arc<Arena>, at: u64) -> Option<Arc<Self>> {
        let is_there = at.is_multiple_of(4) && arena.has(at, slots::ALL as usize);
        is_there.then(|| Arc::new(Self { arena: Arc::clone(arena), at, taken: Mutex::default() }))
    }

    /// Takes one that nobody uses.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Slot> {
        let mut taken = lock(&self.taken);
        let is_free = |number: &u32| !taken[*number as usize] && self.is_given_back(*number);
        let number = (0..slots::COUNT).find(is_free)?;
        taken[number as usize] = true;
        Some(Slot { slots: Arc::clone(self), number })
    }

    /// Whether no command of the server's uses it.
    fn is_given_back(&self, slot: u32) -> bool {
        // What has been read from the slot was read before the next bytes come there.
        self.arena.number(self.at + slots::number(slot)).is_some_and(|number| number.load(Ordering::Acquire) == 0)
    }
}

impl Slot {
    /// Lends it to the server for a command that is about to be sent; returns its name in messages.
    pub(crate) fn lend(&self) -> u32 {
        if let Some(number) = self.slots.arena.number(self.slots.at + slots::number(self.number)) {
            number.store(1, Ordering::Release);
        }
        self.number
    }

    /// Copies the first bytes of it from here. Returns whether there is room for them.
    #[must_use]
    pub(crate) fn fill(&self, source: &dyn HostSource) -> bool {
        source.size() as u64 <= slots::SIZE && copy_in(&self.slots.arena, self.place(), source)
    }

    /// Copies its first bytes to here. Returns whether there are as many.
    #[must_use]
    pub(crate) fn empty(&self, target: &mut dyn HostTarget) -> bool {
        target.size() as u64 <= slots::SIZE && copy_out(&self.slots.arena, self.place(), target)
    }

    fn place(&self) -> u64 {
        self.slots.at + slots::place(self.number)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        lock(&self.slots.taken)[self.number as usize] = false;
    }
}

//! Slots of a context, through which small transfers go between the client and devices with memory of their own: the client copies
//! into one and the device out of it, or the other way round, by one command.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use ropeway_abi as cl;
use ropeway_protocol::slots;
use ropeway_protocol::types::Status;

use super::{Context, Event, Memory, Part, PinnedRange, Queue, SharedStorage, StagedRead, Waits};
use crate::base::lock::lock;

/// The slots of a context.
#[derive(Debug)]
pub struct Slots {
    range: Arc<PinnedRange>,
    /// Those that commands use, with these commands' events.
    used: Mutex<Vec<(u32, Event)>>,
}

impl Slots {
    /// Slots in `storage`. Copies go over the queues that they are enqueued on; `queue` is used for none.
    ///
    /// # Errors
    /// The status of the native call; CL_MEM_OBJECT_ALLOCATION_FAILURE where there is no memory for them.
    pub fn new(context: &Context, queue: &Arc<Queue>, storage: &Arc<SharedStorage>) -> Result<Self, Status> {
        let range = Arc::new(PinnedRange::taken(context, queue, storage, slots::ALL)?);
        let all = Self { range, used: Mutex::default() };
        // The memory may have been another buffer's.
        (0..slots::COUNT).for_each(|slot| all.give_back(slot));
        Ok(all)
    }

    /// Where they begin in the arena.
    pub fn place(&self) -> u64 {
        self.range.range().start
    }

    /// Whether a command may use so many bytes of a slot: there is such a one, and no other command uses it.
    pub fn are_free(&self, slot: u32, size: u64) -> bool {
        self.look();
        slot < slots::COUNT && size <= slots::SIZE && !lock(&self.used).iter().any(|(used, _)| *used == slot)
    }

    /// Gives slots back to the client whose commands have ended.
    pub fn look(&self) {
        lock(&self.used).retain(|(slot, event)| {
            let ended = event.ended();
            if ended {
                self.give_back(*slot);
            }
            !ended
        });
    }

    /// Gives a slot back that no command uses.
    pub fn give_back(&self, slot: u32) {
        if let Some(number) = self.range.number(slots::number(slot)) {
            number.store(0, Ordering::Release);
        }
    }

    /// Enqueues a write of a slot's first bytes.
    ///
    /// # Errors
    /// The status of the native call; CL_INVALID_VALUE where the part leaves the object, or has more bytes than a slot.
    pub fn write(
        &self,
        queue: &Queue,
        (memory, part): (&Memory, &Part),
        slot: u32,
        waits: &Waits<'_>,
    ) -> Result<Event, Status> {
        let from = self.address(slot, part)?;
        // SAFETY: the range has so many bytes there; `used` keeps the command's event, and so the range, until it has ended.
        let event = unsafe { queue.write(memory, part, from, waits, true) }?.ok_or(cl::CL_OUT_OF_RESOURCES)?;
        lock(&self.used).push((slot, event.clone()));
        Ok(event)
    }

    /// Enqueues a read into a slot.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn read(
        &self,
        queue: &Queue,
        (memory, part): (&Memory, &Part),
        slot: u32,
        waits: &Waits<'_>,
    ) -> Result<StagedRead, Status> {
        let into = self.address(slot, part)?;
        // SAFETY: as in `write`.
        let event = unsafe { queue.read(memory, part, into, waits) }?;
        lock(&self.used).push((slot, event.clone()));
        Ok(StagedRead::in_slot(event))
    }

    fn address(&self, slot: u32, part: &Part) -> Result<*mut u8, Status> {
        if slot >= slots::COUNT || part.size() > slots::SIZE {
            return Err(cl::CL_INVALID_VALUE);
        }
        self.range.address(self.place() + slots::place(slot), std::slice::from_ref(part))
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        self.look();
        if !lock(&self.used).is_empty() {
            // Commands still use the memory: leak it rather than free it.
            std::mem::forget(self.range.clone());
        }
    }
}

//! Reading and writing buffers without a message: they are in memory that this process sees, and no command is under way
//! that may use them.

use std::sync::Arc;

use ropeway_protocol::slots;
use ropeway_transport::Arena;

use crate::base::host::{HostSource, HostTarget, copy_in, copy_out};
use crate::base::status::Result;
use crate::commands::command::{Enqueued, Order};
use crate::link::slots::Slot;
use crate::objects::part::Part;
use crate::objects::queue::Queue;

/// Most bytes that a thread copies itself for a command that it is not to wait for.
const MOST_UNAWAITED: usize = 8 << 20;

/// Bytes of a buffer that this process may use now.
pub(super) struct Reach<'a> {
    arena: &'a Arc<Arena>,
    at: u64,
}

impl Queue {
    /// Returns `size` bytes of a memory object, for a command that would be enqueued now, if this process sees them and
    /// no command that is enqueued may use them. Asks the server where the object is, once, if the command would take a
    /// round trip itself.
    pub(super) fn in_reach<'a>(
        &self,
        part: &Part<'a>,
        size: usize,
        (blocking, order): (bool, &Order<'_>),
        is_worth_asking: bool,
    ) -> Option<Reach<'a>> {
        let Part::Bytes(memory, offset) = *part else { return None };
        let (storage, begin) = memory.storage();
        // First of all, as most links share no memory, and what follows takes locks.
        if !(storage.is_located() || is_worth_asking && storage.may_be_located()) {
            return None;
        }
        // An event of a command that was none would have no times.
        let has_times = order.wants_event && self.is_profiling();
        let is_whole = memory.content_size().is_none() && storage.content_size().is_none();
        if has_times || size > MOST_UNAWAITED && !blocking || !is_whole {
            return None;
        }
        let is_quiet = || {
            let have_gone_well = order.waits.iter().all(|event| event.is_over() && !event.has_failed());
            have_gone_well && self.context().at_client().is_quiet() && !self.connection().look_whether_lost()
        };
        if !is_quiet() {
            return None;
        }
        let (arena, at) = storage.located()?;
        Some(Reach { arena, at: at + begin as u64 + offset as u64 })
    }

    /// Ends a command whose bytes have been copied: its event, if it is wanted, is a marker's.
    pub(super) fn was_done(self: &Arc<Self>, blocking: bool, order: Order<'_>, command: u32) -> Result<Enqueued> {
        if order.wants_event { self.enqueue_empty(blocking, order, command) } else { Ok(None) }
    }
}

/// Fewer bytes travel with the command: other messages do not wait long for so few, and a slot is for one transfer at a time.
pub(super) const LEAST_IN_SLOT: usize = 32 << 10;

impl Queue {
    /// A slot for these bytes of a memory object, if they are to go through one and one is free.
    pub(super) fn slot_for(&self, part: &Part<'_>, size: usize) -> Option<Slot> {
        let Part::Bytes(memory, _) = *part else { return None };
        let fits = (LEAST_IN_SLOT..=slots::SIZE as usize).contains(&size);
        if !fits || !memory.storage().0.is_elsewhere() {
            return None;
        }
        self.home().slots()?.take()
    }
}

impl Reach<'_> {
    /// Fills the bytes from the application's memory. Returns whether it did.
    pub(super) fn write(&self, source: &dyn HostSource) -> bool {
        copy_in(self.arena, self.at, source)
    }

    /// Fills the application's memory from the bytes. Returns whether it did.
    pub(super) fn read(&self, target: &mut dyn HostTarget) -> bool {
        copy_out(self.arena, self.at, target)
    }
}

//! Transfers through slots that the client fills and empties.

use std::sync::Arc;

use ropeway_abi as cl;
use ropeway_protocol::CallId;
use ropeway_protocol::messages::{OpenSlots, ReadSlot, WriteSlot};

use super::transfers::ReadInto;
use crate::base::error::End;
use crate::native::Slots;
use crate::objects::Memory;
use crate::session::Session;
use crate::session::job::Job;

impl Session {
    pub(super) fn open_slots(&mut self, m: OpenSlots, call: CallId<u64>) -> Result<(), End> {
        let context = self.context(m.context)?;
        let slots = self.common.shared.as_ref().and_then(|storage| context.open_slots(storage));
        let place = slots.map(Slots::place).ok_or(cl::CL_INVALID_OPERATION);
        self.job = Some(Job::Answer(place, call));
        Ok(())
    }

    pub(super) fn write_slot(&mut self, m: WriteSlot) -> Result<(), End> {
        let (memory, part) = self.buffer_bytes(m.buffer, m.offset, m.size)?;
        let slots = free(&memory, m.slot, m.size)?;
        let (total, mut is_used) = (self.objects(), false);
        let outcome = self.queue_states.enqueue(total, &m.command, |queue_state, waits, wanted| {
            let written = queue_state.native().and_then(|queue| {
                let native = memory.native.as_ref().map_err(|status| *status)?;
                slots.write(queue, (native, &part), m.slot, waits)
            });
            is_used = written.is_ok();
            Ok(written.map(|event| wanted.then_some(event)))
        });
        if !is_used {
            slots.give_back(m.slot);
        }
        outcome
    }

    pub(super) fn read_slot(&mut self, m: ReadSlot) -> Result<(), End> {
        let (memory, part) = self.buffer_bytes(m.buffer, m.offset, m.size)?;
        free(&memory, m.slot, m.size)?;
        self.read_into(&m.command, m.transfer, (memory, part), ReadInto::Slot(m.slot))
    }
}

/// The slots of a memory object's context, of which one is to be used.
///
/// # Errors
/// There are none, or not this one, or it is in use, or has less room.
fn free(memory: &Arc<Memory>, slot: u32, size: u64) -> Result<&Slots, End> {
    let slots = memory.context.slots().filter(|slots| slots.are_free(slot, size));
    slots.ok_or_else(|| End::refused(format_args!("{size} bytes in slot {slot}, which is not free")))
}

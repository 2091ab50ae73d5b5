//! Reading and writing memory objects of whatever kind.

use std::sync::Arc;

use ropeway_abi as cl;
use ropeway_protocol::Tail;
use ropeway_protocol::ids::TransferId;
use ropeway_protocol::limits::MAX_EAGER;
use ropeway_protocol::messages::{
    ReadBuffer, ReadBufferRect, ReadImage, TransferFailed, WriteBuffer, WriteBufferRect, WriteBufferRectTransfer,
    WriteBufferTransfer, WriteImage, WriteImageTransfer,
};
use ropeway_protocol::types::Command;

use crate::base::error::End;
use crate::native::{Part, Place, Slots, StagedRead};
use crate::objects::Direction;
use crate::objects::{Cell, Memory, OwedRead};
use crate::queue_states::{claim, gather};
use crate::session::{Deferred, Session};

/// Where the bytes of a read go.
#[derive(Clone, Copy)]
pub(super) enum ReadInto {
    /// Into memory of the worker's, from where they are sent.
    Memory,
    /// Into this slot.
    Slot(u32),
}

impl Session {
    pub(super) fn write_buffer(&mut self, m: WriteBuffer, tail: &mut dyn Tail) -> Result<(), End> {
        let place = self.buffer_bytes(m.buffer, m.offset, tail.remaining() as u64)?;
        self.write(&m.command, place, tail)
    }

    pub(super) fn write_buffer_transfer(&mut self, m: WriteBufferTransfer) -> Result<(), End> {
        let place = self.buffer_bytes(m.buffer, m.offset, m.size)?;
        self.rendezvous(&m.command, m.transfer, Direction::In, place)
    }

    pub(super) fn read_buffer(&mut self, m: ReadBuffer) -> Result<(), End> {
        let place = self.buffer_bytes(m.buffer, m.offset, m.size)?;
        self.read(&m.command, m.transfer, place)
    }

    pub(super) fn write_buffer_rect(&mut self, m: WriteBufferRect, tail: &mut dyn Tail) -> Result<(), End> {
        let place = self.buffer_rect(m.buffer, m.rect)?;
        self.write(&m.command, place, tail)
    }

    pub(super) fn write_buffer_rect_transfer(&mut self, m: WriteBufferRectTransfer) -> Result<(), End> {
        let place = self.buffer_rect(m.buffer, m.rect)?;
        self.rendezvous(&m.command, m.transfer, Direction::In, place)
    }

    pub(super) fn read_buffer_rect(&mut self, m: ReadBufferRect) -> Result<(), End> {
        let place = self.buffer_rect(m.buffer, m.rect)?;
        self.read(&m.command, m.transfer, place)
    }

    pub(super) fn write_image(&mut self, m: WriteImage, tail: &mut dyn Tail) -> Result<(), End> {
        let place = self.image_part(m.image, m.part)?;
        self.write(&m.command, place, tail)
    }

    pub(super) fn write_image_transfer(&mut self, m: WriteImageTransfer) -> Result<(), End> {
        let place = self.image_part(m.image, m.part)?;
        self.rendezvous(&m.command, m.transfer, Direction::In, place)
    }

    pub(super) fn read_image(&mut self, m: ReadImage) -> Result<(), End> {
        let place = self.image_part(m.image, m.part)?;
        self.read(&m.command, m.transfer, place)
    }

    /// Writes the tail into part of a memory object, which the caller has found to be in it.
    ///
    /// # Errors
    /// Something named does not exist, or the tail is not as long as the part.
    fn write(
        &mut self,
        command: &Command,
        (memory, part): (Arc<Memory>, Part),
        tail: &mut dyn Tail,
    ) -> Result<(), End> {
        let total = self.objects();
        let size = tail.remaining();
        if size > MAX_EAGER {
            return Err(End::refused(format_args!("{size} bytes in one write are over the limit of {MAX_EAGER}")));
        }
        if size as u64 != part.size() {
            return Err(End::refused(format_args!("{size} bytes for {} in a write", part.size())));
        }
        self.queue_states.reclaim(&self.common.reporter.staged);
        // The client may have found none free.
        memory.context.slots().into_iter().for_each(Slots::look);
        self.queue_states.enqueue(total, command, |queue_state, waits, event| {
            let (Ok(queue), Ok(native)) = (&queue_state.queue.native, &memory.native) else {
                return Ok(Err(queue_state
                    .native()
                    .err()
                    .or(memory.native.as_ref().err().copied())
                    .unwrap_or_default()));
            };
            Ok(queue_state.staging.write(queue, (native, &part), tail, waits, event)?)
        })
    }

    /// Reads part of a memory object, which the caller has found to be in it.
    ///
    /// # Errors
    /// Something named does not exist.
    pub(super) fn read(
        &mut self,
        command: &Command,
        transfer: TransferId,
        (memory, part): (Arc<Memory>, Part),
    ) -> Result<(), End> {
        if part.size() > MAX_EAGER as u64 {
            return self.rendezvous(command, transfer, Direction::Out, (memory, part));
        }
        self.read_into(command, transfer, (memory, part), ReadInto::Memory)
    }

    /// As [`Session::read`], for a part that fits there.
    ///
    /// # Errors
    /// As [`Session::read`].
    pub(super) fn read_into(
        &mut self,
        command: &Command,
        transfer: TransferId,
        (memory, part): (Arc<Memory>, Part),
        into: ReadInto,
    ) -> Result<(), End> {
        let total = self.objects();
        let queue = self.queue_states.queue_state(command.queue)?.queue.clone();
        let size = if let ReadInto::Memory = into { part.size() as usize } else { 0 };
        let staged = self.common.reporter.staged.take(size);
        let outcome = match gather(&self.queue_states.events, &command.waits, &self.queue_states.failures)? {
            Err(status) => Err(status),
            Ok(_) if !staged => Err(cl::CL_OUT_OF_HOST_MEMORY),
            Ok(waits) => self.common.limits.allow_event(total, command.event).and_then(|()| {
                let native = queue.native.as_ref().map_err(|status| *status)?;
                let place = (&**memory.native.as_ref().map_err(|status| *status)?, &part);
                match (into, memory.context.slots()) {
                    (ReadInto::Memory, _) => {
                        StagedRead::enqueue(native, place, &waits, Place::of(&part, queue.context.pool())?)
                    }
                    (ReadInto::Slot(slot), Some(slots)) => slots.read(native, place, slot, &waits),
                    (ReadInto::Slot(_), None) => Err(cl::CL_INVALID_OPERATION),
                }
            }),
        };
        let read = match outcome {
            Ok(read) => read,
            Err(status) => {
                if staged {
                    self.common.reporter.staged.give_back(size);
                }
                if let (ReadInto::Slot(slot), Some(slots)) = (into, memory.context.slots()) {
                    slots.give_back(slot);
                }
                self.common.client.outgoing.leave(&TransferFailed { transfer, status });
                // For a command without an event, the failed transfer itself reports the error.
                return match command.event {
                    Some(_) => self.queue_states.fail(total, command.event, status, &queue),
                    None => Ok(()),
                };
            }
        };
        let event = read.event().clone();
        let owed = OwedRead { transfer, read };
        let cell = Arc::new(Cell::new(command.event, Some(event), Some(queue.clone()), Some(owed)));
        queue.push(cell.clone());
        self.queue_states.touch(&queue);
        if let Some(id) = command.event {
            claim(total, &mut self.queue_states.events, id, cell.clone())?;
        }
        self.defer(Deferred::Read(cell));
        Ok(())
    }
}

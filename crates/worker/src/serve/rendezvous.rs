//! Large transfers: how they begin, and how their bytes come.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ropeway_abi as cl;
use ropeway_protocol::Tail;
use ropeway_protocol::ids::{MemoryId, TransferId};
use ropeway_protocol::messages::{TransferCopied, TransferData, TransferFailed};
use ropeway_protocol::types::Command;

use crate::base::error::End;
use crate::native::{Part, Slots};
use crate::objects::contents::Contents;
use crate::objects::{Direction, Memory};
use crate::queue_states::claim;
use crate::rendezvous::incoming::Incoming;
use crate::rendezvous::transfer::Rendezvous;
use crate::session::job::Job;
use crate::session::{Deferred, Session};

impl Session {
    /// Enqueues a gated transfer of part of a memory object, which the caller has found to be in it.
    ///
    /// # Errors
    /// Something named does not exist.
    pub fn rendezvous(
        &mut self,
        command: &Command,
        transfer: TransferId,
        direction: Direction,
        place: (Arc<Memory>, Part),
    ) -> Result<(), End> {
        self.rendezvous_within(command, transfer, direction, place, None)
    }

    /// As [`Session::rendezvous`]; to the client no more goes than `contents` says.
    ///
    /// # Errors
    /// As [`Session::rendezvous`].
    pub fn rendezvous_within(
        &mut self,
        command: &Command,
        transfer: TransferId,
        direction: Direction,
        (memory, part): (Arc<Memory>, Part),
        contents: Option<Contents>,
    ) -> Result<(), End> {
        let total = self.objects();
        // The client may have found none free.
        memory.context.slots().into_iter().for_each(Slots::look);
        let mut rendezvous = Rendezvous::new(transfer, direction, memory, part);
        rendezvous.contents = contents;
        rendezvous.storage.clone_from(&self.common.shared);
        let queue = self.queue_states.queue_state(command.queue)?.queue.clone();
        let outcome = match self.common.limits.allow_event(total, command.event) {
            Ok(()) => rendezvous.enqueue(&mut self.queue_states, command)?,
            Err(status) => Err(status),
        };
        if let Err(status) = outcome {
            self.common.client.outgoing.leave(&TransferFailed { transfer, status });
            return self.queue_states.fail(total, command.event, status, &queue);
        }
        match (command.event, &rendezvous.cell) {
            (Some(id), Some(cell)) => {
                queue.push(cell.clone());
                claim(total, &mut self.queue_states.events, id, cell.clone())?;
            }
            _ => drop(queue.line.turn()),
        }
        self.queue_states.touch(&queue);
        let rendezvous = Arc::new(rendezvous);
        if direction == Direction::In || self.common.shared.is_some() {
            self.incoming.expect(total, rendezvous.clone(), None)?;
        }
        if rendezvous.may_begin.as_ref().is_none_or(|event| event.ended()) {
            self.demote(|_| false);
            self.common.unasked.fetch_add(1, Ordering::AcqRel);
            self.job = Some(Job::Begin(rendezvous));
        } else {
            self.defer(Deferred::Rendezvous(rendezvous));
        }
        Ok(())
    }

    /// Takes the bytes of a transfer that is under way.
    ///
    /// # Errors
    /// The transfer does not exist, the bytes are not its next ones, or the link broke.
    pub fn transfer_data(&mut self, m: TransferData, tail: &mut dyn Tail) -> Result<(), End> {
        let Some(incoming) = self.incoming.receive(m.transfer, m.offset, tail)? else { return Ok(()) };
        self.have_come(incoming);
        Ok(())
    }

    /// The client has copied bytes of a transfer, to or from memory that it sees.
    ///
    /// # Errors
    /// The transfer does not exist, or the client was not to copy anything.
    pub fn transfer_copied(&mut self, m: TransferCopied) -> Result<(), End> {
        let incoming = self.incoming.copied(m.transfer, &self.common.client)?;
        if incoming.initial.is_some() {
            self.have_come(incoming);
        } else {
            self.demote(|_| false);
            self.job = Some(Job::Copied(incoming.rendezvous));
        }
        Ok(())
    }

    /// All bytes of a transfer are there.
    fn have_come(&mut self, Incoming { rendezvous, initial, .. }: Incoming) {
        match initial {
            None => {
                self.demote(|_| false);
                self.job = Some(Job::Land(rendezvous));
            }
            Some(id) => {
                // No event signals that the buffer has its first contents, so they must be there before later commands
                // run.
                if let Err(status) = rendezvous.settle()
                    && let Some(memory) = self.memory.get_mut(&id)
                {
                    let Memory { kind, charged, .. } = **memory;
                    *memory = Arc::new(Memory { native: Err(status), context: memory.context.clone(), kind, charged });
                }
            }
        }
    }

    /// Prepares for the first contents of a memory object, which are about to come.
    ///
    /// # Errors
    /// The transfer's name is taken.
    pub fn await_contents(&mut self, id: MemoryId, memory: &Arc<Memory>, transfer: TransferId) -> Result<(), End> {
        let whole = memory.whole().filter(|whole| whole.size() != 0);
        let whole = whole.ok_or_else(|| End::refused(cl::CL_INVALID_BUFFER_SIZE))?;
        let rendezvous = Rendezvous::new(transfer, Direction::In, memory.clone(), whole);
        if let Err(status) = rendezvous.open() {
            rendezvous.discard(status);
        }
        self.incoming.expect(self.objects(), Arc::new(rendezvous), Some(id))
    }
}

//! Reading and writing memory objects.

use std::sync::Arc;

use ropeway_abi::CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
use ropeway_protocol::ids::TransferId;
use ropeway_protocol::limits::MAX_EAGER;
use ropeway_protocol::messages::{Marker, ReadContent};
use ropeway_protocol::types::Command;
use smallvec::SmallVec;

use crate::base::host::{HostSource, HostTarget, gather};
use crate::base::ids::new_id;
use crate::base::status::Result;
use crate::commands::command::{Enqueued, Order, Ordered};
use crate::commands::direct::LEAST_IN_SLOT;
use crate::link::completion::Completion;
use crate::link::ordering::EarlyEvent;
use crate::link::slots::Slot;
use crate::link::transfers::{Incoming, Outgoing, Ticket};
use crate::objects::access::{Access, Use};
pub use crate::objects::part::Part;
use crate::objects::queue::Queue;
use crate::planning::prepare::{Arriving, CONTENT_SIZE, Prepared};

impl Queue {
    /// Writes the whole of `source` into part of a memory object; `command` is the event's CL_COMMAND_*.
    ///
    /// The bytes are taken when the command's turn comes: at once, where nothing can change them before that, else when
    /// the server asks for them. If `blocking`, they have been taken when this returns.
    ///
    /// # Errors
    /// The command's error if blocking, [`crate::SERVER_LOST`].
    pub fn enqueue_write(
        self: &Arc<Self>,
        part: Part<'_>,
        source: Box<dyn HostSource>,
        blocking: bool,
        order: Order<'_>,
        command: u32,
    ) -> Result<Enqueued> {
        // A blocking write fails if an event that it waits for has failed; this is mostly known here, as it is for user
        // events.
        if blocking && order.waits.iter().any(|event| event.has_failed()) {
            return Err(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
        }
        let connection = self.connection();
        let size = source.size();
        let is_worth_asking = size > MAX_EAGER || blocking && size >= LEAST_IN_SLOT;
        let reach = self.in_reach(&part, size, (blocking, &order), is_worth_asking);
        // A read that is under way may still be filling the memory.
        if reach.is_some_and(|reach| !connection.transfers().fill(&*source) && reach.write(&*source)) {
            drop(source);
            return self.was_done(blocking, order, command);
        }
        let slot = self.slot_for(&part, size);
        let uses = [part.touched(Access::Write, size)];
        let ordered = self.order(order, command, false, &uses)?;
        let Ordered { mut wire, event, guard: _guard, enqueuing: _enqueuing, prepared } = ordered;
        let early = if blocking { connection.early_event(self.live()) } else { None };
        let own = wire.event;
        let early_id = early.as_ref().map(EarlyEvent::id);
        wire.event = own.or(early_id);
        let sent = |prepared, own: Option<_>, early: Option<_>| -> Result<()> {
            if let (Some(own), Some(early)) = (own, early) {
                // Its event may be released at any time; this one stands for it.
                let waits = std::iter::once(own).collect();
                connection.post(&Marker { command: Command { queue: self.id(), event: Some(early), waits } })?;
            }
            drop(prepared);
            Ok(())
        };
        let elsewhere: Vec<_> = match self.context().spans_homes() {
            true => {
                let transfers = self.context().connections().map(|connection| connection.transfers());
                transfers.filter(|transfers| transfers.fill(&*source)).cloned().collect()
            }
            false => Vec::new(),
        };
        let may_change =
            connection.has_unset_user_events() || !elsewhere.is_empty() || connection.transfers().fill(&*source);
        // Bytes that do not change until the command's turn comes are taken now.
        if let Some(slot) = slot.filter(|slot| !may_change && slot.fill(&*source)) {
            part.post_write_slot(self.home(), wire, size, &slot)?;
            sent(prepared, own, early_id)?;
        } else if size <= MAX_EAGER && !may_change {
            part.post_write(self.home(), wire, &gather(&*source, 0, size))?;
            sent(prepared, own, early_id)?;
        } else {
            let transfer = TransferId(new_id());
            let ticket = Ticket::new(None, Some(Arc::clone(self.open_transfers())));
            connection.offer_outgoing(transfer, Outgoing::new(source, Arc::clone(&ticket), elsewhere));
            part.post_write_transfer(self.home(), wire, size, transfer)?;
            sent(prepared, own, early_id)?;
            if blocking {
                self.await_end(&ticket)?;
            }
        }
        if let Some(early) = early {
            early.note()?;
        }
        Ok(event)
    }

    /// Fills the whole of `target` from part of a memory object; `command` is the event's CL_COMMAND_*. If `blocking`,
    /// it is filled when this returns.
    ///
    /// # Errors
    /// The command's error if blocking, [`crate::SERVER_LOST`].
    pub fn enqueue_read(
        self: &Arc<Self>,
        part: Part<'_>,
        mut target: Box<dyn HostTarget>,
        blocking: bool,
        order: Order<'_>,
        command: u32,
    ) -> Result<Enqueued> {
        let connection = self.connection();
        let size = target.size();
        let reach = self.in_reach(&part, size, (blocking, &order), blocking || size > MAX_EAGER);
        if reach.is_some_and(|reach| reach.read(&mut *target)) {
            drop(target);
            return self.was_done(blocking, order, command);
        }
        let limit = match part {
            Part::Bytes(memory, offset) => memory.content_limit(self.home(), size).map(|limit| (memory, offset, limit)),
            _ => None,
        };
        let slot = if limit.is_none() { self.slot_for(&part, size) } else { None };
        let mut uses: SmallVec<[_; 2]> = std::iter::once(part.touched(Access::Read, size)).collect();
        // The content-size buffer must be there first.
        uses.extend(limit.as_ref().map(|(_, _, limit)| Use::bytes(limit, Access::Read, 0, CONTENT_SIZE as usize)));
        let Ordered { wire, event, guard: _guard, enqueuing, prepared } = self.order(order, command, true, &uses)?;
        let lent = slot.as_ref().map(Slot::lend);
        let transfer = TransferId(new_id());
        let told = event.clone().map(|event| event as Arc<dyn Completion>);
        let ticket = Ticket::new(told, Some(Arc::clone(self.open_transfers())));
        connection.expect_incoming(transfer, Incoming::new(target, Arc::clone(&ticket)).through(slot));
        match &limit {
            Some((memory, offset, limit)) => {
                let (buffer, content) = (memory.id(self.home()), limit.id(self.home()));
                let (offset, size) = (*offset as u64, size as u64);
                connection.post(&ReadContent { command: wire, buffer, offset, size, content, transfer })?;
            }
            None => part.post_read(self.home(), wire, (size, lent), transfer)?,
        }
        let arriving = prepared.map(Prepared::sent);
        let number = enqueuing.number();
        drop(enqueuing);
        if blocking {
            let ended = self.await_end(&ticket);
            ended.inspect_err(|_| arriving.iter().for_each(Arriving::find_out))?;
            if self.is_in_order() {
                self.progress().note_ended(number);
            }
        }
        Ok(event)
    }

    /// Waits for the end of a transfer; its command's error is the error.
    fn await_end(&self, ticket: &Ticket) -> Result<()> {
        match self.wait(|| ticket.ended())? {
            0 => Ok(()),
            status => Err(status),
        }
    }
}

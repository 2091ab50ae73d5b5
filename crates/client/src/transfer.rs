//! Reading and writing buffers.

use std::sync::Arc;

use ropeway_abi::{CL_COMMAND_READ_BUFFER, CL_COMMAND_WRITE_BUFFER, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST};
use ropeway_protocol::ids::TransferId;
use ropeway_protocol::limits::MAX_EAGER;
use ropeway_protocol::messages::{Marker, ReadBuffer, WriteBuffer, WriteBufferTransfer};
use ropeway_protocol::types::Command;

use crate::Result;
use crate::command::{Enqueued, Order};
use crate::connection::{Incoming, Outgoing, Ticket};
use crate::host::{HostSource, HostTarget};
use crate::memory::Memory;
use crate::queue::Queue;

impl Queue {
    /// Writes the whole of `source` into `buffer` at `offset` (clEnqueueWriteBuffer).
    ///
    /// The bytes are taken as they are when the command's turn comes: at once, where nothing can change them before that, else when the
    /// server asks for them. If `blocking`, they have been taken when this returns.
    ///
    /// # Errors
    /// The command's error if blocking, [`crate::SERVER_LOST`].
    pub fn enqueue_write(
        self: &Arc<Self>,
        buffer: &Memory,
        offset: usize,
        source: Box<dyn HostSource>,
        blocking: bool,
        order: Order<'_>,
    ) -> Result<Enqueued> {
        self.enqueue_write_as(buffer, offset, source, blocking, order, CL_COMMAND_WRITE_BUFFER)
    }

    pub(crate) fn enqueue_write_as(
        self: &Arc<Self>,
        buffer: &Memory,
        offset: usize,
        source: Box<dyn HostSource>,
        blocking: bool,
        order: Order<'_>,
        command: u32,
    ) -> Result<Enqueued> {
        // A blocking write says so where what it waits for has failed; mostly it is known here, as user events are.
        if blocking && order.waits.iter().any(|event| event.has_failed()) {
            return Err(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
        }
        let connection = self.connection();
        let bytes = source.bytes();
        let (mut wire, event) = self.order(order, command, false);
        let (buffer, offset) = (buffer.id(), offset as u64);
        let early = if blocking { connection.early_event(self.live()) } else { None };
        wire.event = wire.event.or(early);
        let may_change = connection.has_unset_user_events() || connection.incoming_overlaps(bytes);
        if bytes.len() <= MAX_EAGER && !may_change {
            connection.post_with_tail(&WriteBuffer { command: wire, buffer, offset }, bytes)?;
        } else {
            let transfer = TransferId(connection.new_id());
            let size = bytes.len() as u64;
            let ticket = Ticket::new(None, Some(Arc::clone(self.open_transfers())));
            connection.offer_outgoing(transfer, Outgoing::new(source, Arc::clone(&ticket)));
            connection.post(&WriteBufferTransfer { command: wire, buffer, offset, size, transfer })?;
            if blocking {
                match connection.wait(|| ticket.ended())? {
                    0 => {}
                    status => return Err(status),
                }
            }
        }
        if let Some(early) = early {
            if let Some(event) = &event {
                // The application may release its own event at any time; this one stands for it.
                let waits = [event.id()].into_iter().collect();
                connection.post(&Marker { command: Command { queue: self.id(), event: Some(early), waits } })?;
            }
            connection.note_early(self.live(), early)?;
        }
        Ok(event)
    }

    /// Fills the whole of `target` from `buffer` at `offset` (clEnqueueReadBuffer). If `blocking`, it is filled when this returns.
    ///
    /// # Errors
    /// The command's error if blocking, [`crate::SERVER_LOST`].
    pub fn enqueue_read(
        self: &Arc<Self>,
        buffer: &Memory,
        offset: usize,
        target: Box<dyn HostTarget>,
        blocking: bool,
        order: Order<'_>,
    ) -> Result<Enqueued> {
        self.enqueue_read_as(buffer, offset, target, blocking, order, CL_COMMAND_READ_BUFFER)
    }

    pub(crate) fn enqueue_read_as(
        self: &Arc<Self>,
        buffer: &Memory,
        offset: usize,
        mut target: Box<dyn HostTarget>,
        blocking: bool,
        order: Order<'_>,
        command: u32,
    ) -> Result<Enqueued> {
        let connection = self.connection();
        let size = target.bytes().len() as u64;
        let (wire, event) = self.order(order, command, true);
        let transfer = TransferId(connection.new_id());
        let ticket = Ticket::new(event.clone(), Some(Arc::clone(self.open_transfers())));
        connection.expect_incoming(transfer, Incoming::new(target, Arc::clone(&ticket)));
        connection.post(&ReadBuffer { command: wire, buffer: buffer.id(), offset: offset as u64, size, transfer })?;
        if blocking {
            match connection.wait(|| ticket.ended())? {
                0 => {}
                status => return Err(status),
            }
        }
        Ok(event)
    }
}

//! Bulk bytes over a connection: what is sent when the server asks for it, and what it sends.

use std::sync::Arc;

use ropeway_protocol::Tail;
use ropeway_protocol::ids::TransferId;
use ropeway_protocol::limits::CHUNK;
use ropeway_protocol::messages::TransferData;

use super::connection::Connection;
use super::outbox::Pushed;
use super::transfers::{Incoming, Outgoing, Ticket, Transfers};
use crate::base::host::{HostSource, gather, scatter};
use crate::base::status::{Result, SERVER_LOST, Status};

impl Connection {
    /// Expects the bytes of a read.
    pub(crate) fn expect_incoming(&self, id: TransferId, incoming: Incoming) {
        self.background_io.expect();
        self.transfers.expect(id, incoming);
    }

    /// Keeps the bytes of a write until the server asks for them.
    pub(crate) fn offer_outgoing(&self, id: TransferId, outgoing: Outgoing) {
        self.background_io.expect();
        self.transfers.offer(id, outgoing);
    }

    /// Its transfers that are not over.
    pub(crate) fn transfers(&self) -> &Arc<Transfers> {
        &self.transfers
    }

    /// The server asks for a write's bytes.
    pub(super) fn transfer_ready(&self, id: TransferId) {
        self.transfers.asked_for(id);
    }

    /// Sends one chunk of the bytes that the server asked for. Returns false if there was nothing to send or, for the
    /// background I/O thread, if another thread is sending.
    pub(crate) fn send_chunk(&self) -> bool {
        let Some((id, mut outgoing, using)) = self.transfers.take_ready() else { return false };
        let chunk = gather(&*outgoing.source, outgoing.sent, CHUNK);
        let message = TransferData { transfer: id, offset: outgoing.sent as u64 };
        let posted = self.post_bytes(&message, &chunk);
        let sent = outgoing.sent + chunk.len();
        // The memory must be released before anything that may lose the server.
        drop((chunk, using));
        if matches!(posted, Ok(Pushed::Busy)) {
            self.transfers.put_ready(id, outgoing);
            return false;
        }
        outgoing.sent = sent;
        let is_last = sent == outgoing.source.size();
        match self.was_posted(posted).and_then(|()| if is_last { self.flush() } else { Ok(()) }) {
            Err(status) => self.end_outgoing(outgoing, status),
            Ok(()) if is_last => self.end_outgoing(outgoing, 0),
            Ok(()) => self.transfers.put_ready(id, outgoing),
        }
        true
    }

    /// Sends `source` whole, as the bytes of transfer `id`, without being asked.
    pub(crate) fn send_transfer(&self, id: TransferId, source: &dyn HostSource) -> Result<()> {
        for offset in (0..source.size()).step_by(CHUNK) {
            let chunk = gather(source, offset, CHUNK);
            self.post_with_tail(&TransferData { transfer: id, offset: offset as u64 }, &chunk)?;
        }
        Ok(())
    }

    /// Receives bytes of a read from the link, straight into the application's memory.
    pub(super) fn receive_data(&self, id: TransferId, offset: u64, tail: &mut dyn Tail) {
        let Some(mut incoming) = self.transfers.take_incoming(id) else { return };
        let (len, received) = (tail.remaining(), incoming.received);
        let is_next = offset == received as u64;
        match if is_next { scatter(&mut *incoming.target, received, tail) } else { Ok(false) } {
            Ok(true) => {}
            Ok(false) => {
                let ticket = incoming.give_back();
                self.lose("it sent other bytes than it was asked for".to_owned());
                return self.end_transfer(&ticket, SERVER_LOST);
            }
            // The thread that reads the link reports the error.
            Err(_) => return self.transfers.end_with_loss(incoming),
        }
        incoming.received += len;
        if incoming.received < incoming.size {
            self.transfers.put_back(id, incoming);
        } else {
            self.end_transfer(&incoming.give_back(), 0);
        }
    }

    /// Ends a read that brings fewer bytes than it has room for: `size` in all.
    pub(super) fn transfer_ends(&self, id: TransferId, size: u64) {
        let Some(incoming) = self.transfers.take_incoming(id) else { return };
        let may_end = size == incoming.received as u64 && incoming.received < incoming.size;
        let ticket = incoming.give_back();
        if may_end {
            return self.end_transfer(&ticket, 0);
        }
        self.lose("it ended a read where it does not end".to_owned());
        self.end_transfer(&ticket, SERVER_LOST);
    }

    /// Ends a transfer that has failed.
    pub(crate) fn transfer_failed(&self, id: TransferId, status: Status) {
        let incoming = self.transfers.take_incoming(id);
        let outgoing = self.transfers.take_offered(id);
        if let Some(incoming) = incoming {
            self.end_transfer(&incoming.give_back(), status.min(-1));
        }
        if let Some(outgoing) = outgoing {
            self.end_outgoing(outgoing, status.min(-1));
        }
    }

    fn end_outgoing(&self, outgoing: Outgoing, status: Status) {
        let ticket = Arc::clone(&outgoing.ticket);
        // The memory is given back before anybody learns that it is.
        drop(outgoing);
        self.transfers.note_sent();
        self.end_transfer(&ticket, status);
    }

    pub(super) fn end_transfer(&self, ticket: &Ticket, status: Status) {
        self.background_io.settled();
        ticket.end(status);
        self.channel.wake();
    }
}

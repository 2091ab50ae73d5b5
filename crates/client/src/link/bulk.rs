//! Bulk bytes over a connection: what is sent when the server asks for it, and what it sends.

use std::sync::Arc;

use ropeway_protocol::Tail;
use ropeway_protocol::ids::TransferId;
use ropeway_protocol::limits;
use ropeway_protocol::messages::TransferData;

use super::connection::Connection;
use super::outbox::Pushed;
use super::transfers::{Incoming, Outgoing, Ticket, Transfers};
use crate::base::host::{HostSource, gather, scatter};
use crate::base::status::{Result, SERVER_LOST, Status};

/// Bytes of a write that are sent at once. In a model a few are as good as many, and leave room for what happens
/// between two chunks.
const CHUNK: usize = if cfg!(all(test, feature = "model")) { 4 } else { limits::CHUNK };

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

    /// Sends, or copies, one chunk of the bytes that the server asked for. Returns false if there was nothing to send or,
    /// for the background I/O thread, if another thread is sending.
    pub(crate) fn send_chunk(&self) -> bool {
        let Some((id, mut sending)) = self.transfers.take_ready() else { return false };
        if let Some(piece) = sending.piece {
            self.copy_chunk(id, sending, piece);
            return true;
        }
        let chunk = gather(&*sending.source, sending.sent, CHUNK);
        let message = TransferData { transfer: id, offset: sending.sent as u64 };
        let posted = self.post_bytes(&message, &chunk);
        if matches!(posted, Ok(Pushed::Busy)) {
            drop(chunk);
            self.transfers.put_ready(id, sending);
            return false;
        }
        let sent = sending.sent + chunk.len();
        drop(chunk);
        sending.sent = sent;
        // The memory must be put back or given up before anything that may lose the server, which waits for that.
        if posted.is_ok() && sent < sending.source.size() {
            self.transfers.put_ready(id, sending);
            // If this fails, all transfers have ended with the loss of the server.
            let _ = self.was_posted(posted);
            return true;
        }
        let ticket = sending.give_back();
        let result = self.was_posted(posted).and_then(|()| self.flush());
        self.end_outgoing(&ticket, result.err().unwrap_or(0));
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
        let Some((ticket, received, room)) = self.transfers.withdraw(id) else { return };
        if size == received as u64 && received < room {
            return self.end_transfer(&ticket, 0);
        }
        self.lose("it ended a read where it does not end".to_owned());
        self.end_transfer(&ticket, SERVER_LOST);
    }

    /// Ends a transfer that has failed.
    pub(crate) fn transfer_failed(&self, id: TransferId, status: Status) {
        if let Some((ticket, ..)) = self.transfers.withdraw(id) {
            self.end_transfer(&ticket, status.min(-1));
        }
        if let Some(outgoing) = self.transfers.take_offered(id) {
            self.end_outgoing(&outgoing.give_back(), status.min(-1));
        }
    }

    /// Ends a write whose memory has been given back.
    pub(super) fn end_outgoing(&self, ticket: &Ticket, status: Status) {
        self.end_transfer(ticket, status);
        // Only now: where nothing is unsent, a thread that reads waits for nothing but bytes.
        self.transfers.note_sent();
    }

    pub(super) fn end_transfer(&self, ticket: &Ticket, status: Status) {
        self.background_io.settled();
        ticket.end(status);
        self.channel.wake();
    }
}

//! Bulk bytes that do not travel: the server's buffer is in memory that this process sees, and is copied in and out here.

use std::sync::Arc;

use ropeway_protocol::ids::TransferId;
use ropeway_protocol::messages::{TransferCopied, TransferInPlace};
use ropeway_protocol::{Tail, TailError};
use ropeway_transport::Arena;

use super::connection::Connection;
use super::transfers::{Piece, Sending};
use crate::base::host::gather;
use crate::base::status::{Result, SERVER_LOST};

/// Bytes of a write that are copied at once: then others have their turn.
const CHUNK: usize = 2 << 20;

/// Bytes in memory that the server sees, to be copied from there.
struct Lent<'a> {
    arena: &'a Arena,
    at: u64,
    remaining: usize,
}

impl Tail for Lent<'_> {
    fn remaining(&self) -> usize {
        self.remaining
    }

    fn read_exact(&mut self, into: &mut [u8]) -> std::result::Result<(), TailError> {
        if into.len() > self.remaining || !self.arena.copy_out(self.at, into) {
            return Err(TailError);
        }
        self.at += into.len() as u64;
        self.remaining -= into.len();
        Ok(())
    }
}

impl Connection {
    /// Memory that the server sees as well, where there is any.
    pub(crate) fn arena(&self) -> Option<&Arc<Arena>> {
        self.channel.arena()
    }

    /// The server lends memory that both see for bytes of a transfer: copies those of a read; those of a write are copied by
    /// whichever thread sends.
    pub(super) fn transfer_in_place(&self, message: TransferInPlace) {
        let TransferInPlace { transfer: id, offset, at, size } = message;
        let lent = self.channel.arena().and_then(|arena| {
            let remaining = usize::try_from(size).ok().filter(|size| arena.has(at, *size))?;
            let from = usize::try_from(offset).ok()?;
            Some((Piece { at, from, until: from.checked_add(remaining)? }, Lent { arena, at, remaining }))
        });
        let Some((piece, mut lent)) = lent else { return self.lose("it names memory that is not shared".to_owned()) };
        if self.transfers.lent(id, piece) {
            return;
        }
        // Also for a read that is expected no more, which the server cannot know.
        self.receive_data(id, offset, &mut lent);
        // If this fails, the server is lost.
        let _ = self.say_copied(id);
    }

    /// All bytes of a read are in the slot that was lent for them.
    pub(super) fn slot_read(&self, id: TransferId) {
        let Some(mut incoming) = self.transfers.take_incoming(id) else { return };
        let is_copied = match incoming.slot.take() {
            Some(slot) => slot.empty(&mut *incoming.target),
            None => false,
        };
        let ticket = incoming.give_back();
        if !is_copied {
            self.lose("it put the bytes of a read into a slot that it was not lent".to_owned());
        }
        self.end_transfer(&ticket, if is_copied { 0 } else { SERVER_LOST });
    }

    /// Copies some bytes of a write into the piece that the server has lent for them.
    pub(super) fn copy_chunk(&self, id: TransferId, mut sending: Sending<'_>, piece: Piece) {
        let copied = self.fill(&sending, piece);
        sending.sent += copied.unwrap_or(0);
        let (sent, size) = (sending.sent, sending.source.size());
        if copied.is_some() && sent < piece.until {
            return self.transfers.put_ready(id, sending);
        }
        if copied.is_some() && sent < size {
            // Before the server is told: if the transfer fails then, it must be found.
            self.transfers.await_piece(id, sending);
            // If this fails, all transfers have ended with the loss of the server.
            let _ = self.say_copied(id);
            return;
        }
        // The memory must be given up before anything that may lose the server, which waits for that.
        let ticket = sending.give_back();
        self.transfers.forget_lent(id);
        if copied.is_none() {
            self.lose("it lends other memory for a write than it was to".to_owned());
        }
        let result = self.say_copied(id);
        self.end_outgoing(&ticket, result.err().unwrap_or(0));
    }

    /// Copies the next bytes of a write; returns how many. `None` if they do not belong into this piece.
    fn fill(&self, sending: &Sending<'_>, piece: Piece) -> Option<usize> {
        let done = sending.sent.checked_sub(piece.from)?;
        let left = piece.until.min(sending.source.size()).checked_sub(sending.sent).filter(|left| *left > 0)?;
        let chunk = gather(&*sending.source, sending.sent, left.min(CHUNK));
        let at = piece.at.checked_add(done as u64)?;
        self.channel.arena()?.copy_in(at, &chunk).then_some(chunk.len())
    }

    /// Tells the server, at once, that a transfer's bytes are copied: its queue waits for that.
    fn say_copied(&self, id: TransferId) -> Result<()> {
        self.post(&TransferCopied { transfer: id })?;
        self.flush_what_fits()
    }
}

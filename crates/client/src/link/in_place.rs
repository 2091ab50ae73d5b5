//! Bulk bytes that do not travel: the server's buffer is in memory that this process sees, and is copied in and out here.

use std::sync::Arc;

use ropeway_protocol::ids::TransferId;
use ropeway_protocol::messages::{TransferCopied, TransferInPlace};
use ropeway_protocol::{Tail, TailError};
use ropeway_transport::Arena;

use super::connection::Connection;
use super::transfers::{Piece, Sending};
use crate::base::host::gather;
use crate::base::status::Result;

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

    /// Copies one chunk of a write to where it belongs.
    pub(super) fn copy_chunk(&self, id: TransferId, mut sending: Sending<'_>, piece: Piece) {
        let size = sending.source.size();
        let is_next = (piece.from..piece.until).contains(&sending.sent) && piece.until <= size;
        let chunk =
            gather(&*sending.source, sending.sent, if is_next { CHUNK.min(piece.until - sending.sent) } else { 0 });
        let at = piece.at.saturating_add((sending.sent - piece.from.min(sending.sent)) as u64);
        let is_copied = !chunk.is_empty() && self.channel.arena().is_some_and(|arena| arena.copy_in(at, &chunk));
        let sent = sending.sent + chunk.len();
        drop(chunk);
        sending.sent = sent;
        if is_copied && sent < piece.until {
            return self.transfers.put_ready(id, sending);
        }
        if is_copied && sent < size {
            // Before the server is told: if the transfer fails then, it must be found.
            self.transfers.await_piece(id, sending);
            // If this fails, all transfers have ended with the loss of the server.
            let _ = self.say_copied(id);
            return;
        }
        // The memory must be given up before anything that may lose the server, which waits for that.
        let ticket = sending.give_back();
        self.transfers.forget_lent(id);
        if !is_copied {
            self.lose("it lends other memory for a write than it was to".to_owned());
        }
        let result = self.say_copied(id);
        self.end_outgoing(&ticket, result.err().unwrap_or(0));
    }

    /// Tells the server, at once, that a transfer's bytes are copied: its queue waits for that.
    fn say_copied(&self, id: TransferId) -> Result<()> {
        self.post(&TransferCopied { transfer: id })?;
        self.flush_what_fits()
    }
}

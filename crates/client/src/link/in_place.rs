//! Bulk bytes that do not travel: the server's buffer is in memory that this process sees, and is copied in and out here.

use std::sync::Arc;

use ropeway_protocol::ids::TransferId;
use ropeway_protocol::messages::TransferCopied;
use ropeway_protocol::{Tail, TailError, limits};
use ropeway_transport::Arena;

use super::connection::Connection;
use super::transfers::Sending;
use crate::base::host::gather;
use crate::base::status::Result;

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

    /// The server has made the bytes of a transfer accessible, `size` of them at `at` in the memory that both see: copies
    /// those of a read; those of a write are copied by whichever thread sends.
    pub(super) fn transfer_in_place(&self, id: TransferId, at: u64, size: u64) {
        let lent = self.channel.arena().and_then(|arena| {
            let remaining = usize::try_from(size).ok().filter(|size| arena.has(at, *size))?;
            Some(Lent { arena, at, remaining })
        });
        let Some(mut lent) = lent else { return self.lose("it names memory that is not shared".to_owned()) };
        if self.transfers.asked_for(id, Some(at)) {
            return;
        }
        // Also for a read that is expected no more, which the server cannot know.
        self.receive_data(id, 0, &mut lent);
        // If this fails, the server is lost.
        let _ = self.say_copied(id);
    }

    /// Copies one chunk of a write to where it belongs.
    pub(super) fn copy_chunk(&self, id: TransferId, mut sending: Sending<'_>, place: u64) {
        let at = sending.sent as u64;
        let chunk = gather(&*sending.source, sending.sent, limits::CHUNK);
        let is_copied = self.channel.arena().is_some_and(|arena| arena.copy_in(place.saturating_add(at), &chunk));
        let sent = sending.sent + chunk.len();
        drop(chunk);
        sending.sent = sent;
        if is_copied && sent < sending.source.size() {
            return self.transfers.put_ready(id, sending);
        }
        // The memory must be given up before anything that may lose the server, which waits for that.
        let ticket = sending.give_back();
        if !is_copied {
            self.lose("it has less room for a write than it was told to have".to_owned());
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

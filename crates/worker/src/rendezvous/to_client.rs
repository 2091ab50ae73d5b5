//! Transfers to the client: sending their bytes, or lending the memory that they are in.

use ropeway_protocol::image::ImagePart;
use ropeway_protocol::limits::CHUNK;
use ropeway_protocol::messages::{ReadData, ReadEnds};
use ropeway_protocol::types::Status;

use super::transfer::Rendezvous;
use crate::base::error::End;
use crate::native::{ImageReader, Mapping, Part};
use crate::notify::report::Reporter;

/// How the client gets the bytes of a transfer.
pub(super) enum Handed {
    /// They are sent.
    Sent,
    /// It copies them, and says when it has.
    Lent,
    /// It copies them piece by piece.
    Staged,
}

/// What was sent is handed over.
fn sent(outcome: Result<Result<(), Status>, End>) -> Result<Result<Handed, Status>, End> {
    outcome.map(|outcome| outcome.map(|()| Handed::Sent))
}

impl Rendezvous {
    /// Sends all bytes to the client, or only the meaningful ones.
    ///
    /// # Errors
    /// The session is over; the inner one is the status of the native call that failed.
    pub(super) fn send_all(&self, reporter: &Reporter) -> Result<Result<Handed, Status>, End> {
        let contents = match (&self.contents, self.part) {
            (Some(contents), Part::Bytes { offset, .. }) => contents.len().map(|len| len.saturating_sub(offset)),
            _ => Ok(self.size),
        };
        let size = match contents {
            Ok(size) => size.min(self.size),
            Err(status) => return Ok(Err(status)),
        };
        let sent = if size == 0 { Ok(Handed::Sent) } else { self.send_first(reporter, size)? };
        // Behind the last bytes: those of a staged transfer are still to be lent.
        if size < self.size && matches!(sent, Ok(Handed::Sent | Handed::Lent)) {
            let mut sending = reporter.client.outgoing.lock();
            sending.note(&ReadEnds { transfer: self.transfer, size });
            sending.send()?;
        }
        Ok(sent)
    }

    /// Sends the first `size` bytes to the client; of images and regions, all.
    fn send_first(&self, reporter: &Reporter, size: u64) -> Result<Result<Handed, Status>, End> {
        let memory = match self.memory() {
            Ok(memory) => memory,
            Err(status) => return Ok(Err(status)),
        };
        if let Some(lent) = self.lend(&reporter.client, size) {
            let mut sending = reporter.client.outgoing.lock();
            sending.note(&lent);
            sending.send()?;
            return Ok(Ok(Handed::Lent));
        }
        if self.stage(reporter, size)? {
            return Ok(Ok(Handed::Staged));
        }
        let context = &memory.context;
        let offset = match self.part {
            Part::Bytes { offset, .. } => offset,
            Part::Image { part, .. } => return sent(self.send_image(reporter, part)),
            Part::Rect(_) => return sent(self.send_pinned(reporter, self.size)),
        };
        if !context.maps {
            return sent(self.send_pinned(reporter, size));
        }
        let mapping = memory
            .native
            .as_ref()
            .map_err(|status| *status)
            .and_then(|native| Mapping::to_read(context.transfer_queue()?, native, offset, size));
        let mapping = match mapping {
            Ok(Some(mapping)) => mapping,
            Ok(None) => return sent(self.send_pinned(reporter, size)),
            Err(status) => return Ok(Err(status)),
        };
        let mut offset = 0;
        for piece in mapping.bytes().chunks(CHUNK) {
            self.send_piece(reporter, offset, piece)?;
            offset += piece.len() as u64;
        }
        sent(Ok(mapping.unmap()))
    }

    fn send_pinned(&self, reporter: &Reporter, size: u64) -> Result<Result<(), Status>, End> {
        let mut over = None;
        let outcome = self.with_ring(|native, ring| {
            let len = |offset: u64| (size - offset).min(CHUNK as u64);
            // Copies run ahead of sending by all of the ring but the chunk that is being sent.
            let pre_enqueue = ring.depth() - 1;
            let mut under_way = std::collections::VecDeque::new();
            let (mut copied, mut sent) = (0, 0);
            while sent < size {
                while copied < size && under_way.len() < pre_enqueue {
                    under_way.push_back(ring.read(native, &self.part.pieces(copied, len(copied)))?);
                    copied += len(copied);
                }
                let Some(index) = under_way.pop_front() else { break };
                let piece = &ring.copied(index)?[..len(sent) as usize];
                if let Err(end) = self.send_piece(reporter, sent, piece) {
                    over = Some(end);
                    return Ok(());
                }
                sent += len(sent);
            }
            Ok(())
        });
        over.map_or(Ok(outcome), Err)
    }

    fn send_image(&self, reporter: &Reporter, part: ImagePart) -> Result<Result<(), Status>, End> {
        let open = || {
            let memory = self.memory()?;
            let native = memory.native.as_ref().map_err(|status| *status)?;
            ImageReader::new(memory.context.transfer_queue()?, native, part)
        };
        let mut reader = match open() {
            Ok(reader) => reader,
            Err(status) => return Ok(Err(status)),
        };
        let mut offset = 0;
        loop {
            match reader.next() {
                Ok(Some(piece)) => {
                    self.send_piece(reporter, offset, piece)?;
                    offset += piece.len() as u64;
                }
                Ok(None) => return Ok(Ok(())),
                Err(status) => return Ok(Err(status)),
            }
        }
    }

    fn send_piece(&self, reporter: &Reporter, offset: u64, piece: &[u8]) -> Result<(), End> {
        let mut sending = reporter.client.outgoing.lock();
        sending.note_with_tail(&ReadData { transfer: self.transfer, offset }, piece)?;
        Ok(sending.send()?)
    }
}

//! Transfers whose bytes the client copies itself: it is lent the memory, as a whole or piece by piece.

use std::sync::Mutex;

use ropeway_protocol::messages::{ReadEnds, TransferInPlace};

use super::staged::{Staged, Step};
use super::transfer::{Rendezvous, Sink};
use crate::base::error::End;
use crate::base::lock::lock;
use crate::link::client::Client;
use crate::native::Part;
use crate::notify::report::Reporter;
use crate::objects::Direction;

/// What the client has been lent of a transfer.
#[derive(Default)]
pub(super) struct Lending(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    /// Pieces that the client has not copied yet.
    with_client: u64,
    /// Pieces that it has not copied, or was not lent.
    left: u64,
}

impl Lending {
    /// So many pieces will be lent.
    fn begin(&self, pieces: u64) {
        lock(&self.0).left = pieces;
    }

    fn lend(&self) {
        lock(&self.0).with_client += 1;
    }

    /// The client has copied a piece; says whether it was the last one. `None` if it has none.
    pub(super) fn copied(&self) -> Option<bool> {
        let mut counts = lock(&self.0);
        counts.with_client = counts.with_client.checked_sub(1)?;
        counts.left = counts.left.saturating_sub(1);
        Some(counts.left == 0)
    }
}

impl Rendezvous {
    /// Where the bytes are in memory that the client sees, if they are.
    pub fn place(&self, client: &Client) -> Option<u64> {
        let Part::Bytes { offset, .. } = self.part else { return None };
        let memory = self.memory().ok()?;
        memory.native.as_ref().ok()?.place_in(client.outgoing.arena()?)?.checked_add(offset)
    }

    /// Lends the client the first `size` bytes where the device has them, if it sees them there; returns where that is.
    pub(super) fn lend(&self, client: &Client, size: u64) -> Option<TransferInPlace> {
        let at = self.place(client)?;
        *lock(&self.sink) = Sink::Lent;
        self.lending.begin(1);
        self.lending.lend();
        Some(TransferInPlace { transfer: self.transfer, offset: 0, at, size })
    }

    /// Begins to have the first `size` bytes go through a window that the client sees, piece by piece. Returns whether
    /// they do.
    ///
    /// # Errors
    /// The session is over.
    pub(super) fn stage(&self, reporter: &Reporter, size: u64) -> Result<bool, End> {
        let Some(storage) = &self.storage else { return Ok(false) };
        let Ok(memory) = self.memory() else { return Ok(false) };
        if matches!(self.part, Part::Image { .. }) || memory.native.is_err() {
            return Ok(false);
        }
        let Some(window) = memory.context.take_window(storage) else { return Ok(false) };
        let mut staged = Staged::new((self.transfer, self.direction), &memory, (self.part, size), window);
        self.lending.begin(staged.pieces());
        // The client answers as soon as it has one piece; threads that take in its answers wait for the others here.
        let mut sink = lock(&self.sink);
        staged.begin();
        let mut step = Step::Wait;
        for _ in 0..staged.ahead() {
            step = staged.lend();
            self.follow(reporter, &step)?;
        }
        *sink = Sink::Staged(Box::new(staged));
        drop(sink);
        if matches!(step, Step::Over) {
            self.land(reporter)?;
        }
        Ok(true)
    }

    /// The client has copied what it was lent, or the oldest piece of that.
    ///
    /// # Errors
    /// The session is over.
    pub fn copied(&self, reporter: &Reporter) -> Result<(), End> {
        let mut sink = lock(&self.sink);
        if let Sink::Staged(staged) = &mut *sink {
            let step = staged.copied();
            // The lock keeps the pieces in order.
            self.follow(reporter, &step)?;
            if !matches!(step, Step::Over) {
                return Ok(());
            }
        }
        drop(sink);
        self.land(reporter)
    }

    /// Tells the client what it may copy now.
    fn follow(&self, reporter: &Reporter, step: &Step) -> Result<(), End> {
        let Step::Lend(piece, is_last) = step else { return Ok(()) };
        self.lending.lend();
        let mut sending = reporter.client.outgoing.lock();
        sending.note(piece);
        let size = piece.offset + piece.size;
        if *is_last && self.direction == Direction::Out && size < self.size {
            sending.note(&ReadEnds { transfer: self.transfer, size });
        }
        Ok(sending.send()?)
    }
}

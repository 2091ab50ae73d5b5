//! Transfers of devices with memory of their own, where the client sees memory that the device reaches fast: it is lent
//! piece by piece, and the client's copies overlap with the device's.

use std::sync::Arc;

use ropeway_protocol::ids::TransferId;
use ropeway_protocol::messages::TransferInPlace;
use ropeway_protocol::types::Status;

use crate::native::{Part, Window};
use crate::objects::{Direction, Memory};

/// Sizes of pieces are multiples of this, in bytes, but for the last one's.
const STEP: u64 = 64 << 10;

/// Pieces have this many bytes at least, if there are as many: each costs a message in both directions, and some 10 us of the
/// driver's.
const LEAST: u64 = 8 * STEP;

/// A transfer whose pieces go through a window.
pub(super) struct Staged {
    transfer: TransferId,
    direction: Direction,
    memory: Arc<Memory>,
    part: Part,
    size: u64,
    /// Bytes of a piece; the last may have fewer.
    piece: u64,
    /// How many pieces the device has copied, or is copying.
    enqueued: u64,
    /// How many were lent to the client.
    lent: u64,
    /// How many of these it has copied.
    copied: u64,
    /// With what the device's copies have failed.
    failure: Option<Status>,
    window: Window,
}

/// What follows a step.
pub(super) enum Step {
    /// The client may copy these bytes, and is told so. They are the last ones, or not.
    Lend(TransferInPlace, bool),
    /// The client copies what it has been lent.
    Wait,
    /// Nothing is lent, and nothing will be.
    Over,
}

impl Staged {
    /// A transfer of the first `size` bytes of `part`, through a window of the context's.
    pub(super) fn new(
        (transfer, direction): (TransferId, Direction),
        memory: &Arc<Memory>,
        (part, size): (Part, u64),
        window: Window,
    ) -> Self {
        let piece = size.div_ceil(Window::SLOTS as u64).next_multiple_of(STEP).clamp(LEAST, Window::SLOT as u64);
        let (memory, enqueued, lent, copied) = (memory.clone(), 0, 0, 0);
        Self { transfer, direction, memory, part, size, piece, enqueued, lent, copied, failure: None, window }
    }

    /// How many pieces it has.
    pub(super) fn pieces(&self) -> u64 {
        self.size.div_ceil(self.piece)
    }

    /// How many can be lent before the client has copied one.
    pub(super) fn ahead(&self) -> u64 {
        let slots = Window::SLOTS as u64;
        // The slot of a piece to the device is in use for a while after the client has filled it.
        self.pieces().min(if self.direction == Direction::In { slots - 1 } else { slots })
    }

    /// Begins: the device's first copies, if it is the one that copies first.
    pub(super) fn begin(&mut self) {
        for _ in 0..self.ahead() {
            if self.direction == Direction::Out {
                self.enqueue();
            }
        }
    }

    /// The client has copied the oldest piece that it had.
    pub(super) fn copied(&mut self) -> Step {
        self.copied += 1;
        match self.direction {
            Direction::In => self.enqueue(),
            Direction::Out if self.enqueued < self.pieces() => {
                self.enqueue();
                // The one before it has had time to end.
                return if self.lent + 1 < self.enqueued { self.lend() } else { self.rest() };
            }
            Direction::Out => {}
        }
        self.lend()
    }

    /// Lends the next piece, if there is one.
    pub(super) fn lend(&mut self) -> Step {
        if self.failure.is_some() || self.lent == self.pieces() {
            return self.rest();
        }
        // Of a read, these are the bytes that are awaited; of a write, the slot's last bytes must have gone.
        if let Err(status) = self.window.settle(self.lent as usize) {
            self.failure = Some(status);
            return self.rest();
        }
        let (offset, size) = self.bytes_of(self.lent);
        let at = self.window.place(self.lent as usize);
        self.lent += 1;
        Step::Lend(TransferInPlace { transfer: self.transfer, offset, at, size }, self.lent == self.pieces())
    }

    /// Waits for the device's copies, and gives the window back.
    ///
    /// # Errors
    /// The status of the first that failed.
    pub(super) fn settle(mut self) -> Result<(), Status> {
        // The next one that uses it does not wait for copies of this one.
        let drained = self.window.drain();
        self.memory.context.put_window(self.window);
        self.failure.map_or(drained, Err)
    }

    fn rest(&self) -> Step {
        let is_over = self.copied == self.lent && (self.failure.is_some() || self.lent == self.pieces());
        if is_over { Step::Over } else { Step::Wait }
    }

    /// Has the device copy the next piece.
    fn enqueue(&mut self) {
        if self.failure.is_some() {
            return;
        }
        let (offset, size) = self.bytes_of(self.enqueued);
        let (slot, parts) = (self.enqueued as usize, self.part.pieces(offset, size));
        let window = &mut self.window;
        let copy = self.memory.native.as_ref().map_err(|status| *status).and_then(|native| match self.direction {
            Direction::In => window.write(slot, native, &parts),
            Direction::Out => window.read(slot, native, &parts),
        });
        self.failure = copy.err();
        self.enqueued += 1;
    }

    /// Where a piece begins in the transfer, and how many bytes it has.
    fn bytes_of(&self, piece: u64) -> (u64, u64) {
        let offset = piece * self.piece;
        (offset, self.piece.min(self.size - offset))
    }
}

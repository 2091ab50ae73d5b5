//! The handling of each message from the server.

use std::io::Write as _;
use std::sync::Arc;

use ropeway_protocol::frame::{FrameHeader, REPLY};
use ropeway_protocol::messages::{
    Closing, Completed, ContextError, Notice, Output, PeerState, Progressed, ReadData, ReadEnds, Receive, SlotRead,
    TransferFailed, TransferInPlace, TransferReady,
};
use ropeway_protocol::types::{OutputStream, Status, Waited};
use ropeway_protocol::{DecodeError, Tail, decode, encode_body, receive};

use super::connection::{Connection, ContextListener};
use super::inbox::{Deliver, ReadError};
use crate::base::callbacks::run_later;
use crate::base::modelled::atomic::Ordering;
use crate::base::sync::lock;

/// Maximum total bytes of context errors that wait to be reported to the application.
const MOST_UNTOLD: usize = 1 << 20;

impl Deliver for Connection {
    fn deliver(&self, header: FrameHeader, body: &[u8], tail: &mut dyn Tail) -> Result<(), DecodeError> {
        if header.opcode != REPLY {
            return receive(&mut Receiver(self), header, body, tail);
        }
        // Nobody waits any more for an answer without a pending reply.
        let Some(tells_ends) = self.calls.is_expected(header.call) else { return Ok(()) };
        let answer = if tells_ends { self.take_in_ends(body)? } else { body.to_vec() };
        self.calls.answer(header.call, answer);
        Ok(())
    }

    fn goes_on(&self) -> Result<(), ReadError> {
        self.look_for_life()
    }
}

impl Connection {
    /// Takes in the ended commands that an answer reports, and returns the rest of the answer. This is done here, not
    /// by the thread that waits for the answer: another thread, which has the next answer, must not see a command as
    /// unfinished that the server has already reported as ended.
    fn take_in_ends(&self, body: &[u8]) -> Result<Vec<u8>, DecodeError> {
        let mut answer: Result<Waited, Status> = decode(body)?;
        if let Ok(waited) = &mut answer {
            self.complete(&std::mem::take(&mut waited.completions));
        }
        Ok(encode_body(&answer))
    }
}

struct Receiver<'a>(&'a Connection);

impl Receive for Receiver<'_> {
    type Error = DecodeError;

    fn completed(&mut self, message: Completed) -> Result<(), DecodeError> {
        self.0.complete(&message.completions);
        Ok(())
    }

    fn progressed(&mut self, message: Progressed) -> Result<(), DecodeError> {
        self.0.progress(message.event, message.status);
        Ok(())
    }

    fn transfer_ready(&mut self, message: TransferReady) -> Result<(), DecodeError> {
        self.0.transfer_ready(message.transfer);
        Ok(())
    }

    fn transfer_in_place(&mut self, message: TransferInPlace) -> Result<(), DecodeError> {
        self.0.transfer_in_place(message);
        Ok(())
    }

    fn slot_read(&mut self, message: SlotRead) -> Result<(), DecodeError> {
        self.0.slot_read(message.transfer);
        Ok(())
    }

    fn read_data(&mut self, message: ReadData, tail: &mut dyn Tail) -> Result<(), DecodeError> {
        self.0.receive_data(message.transfer, message.offset, tail);
        Ok(())
    }

    fn transfer_failed(&mut self, message: TransferFailed) -> Result<(), DecodeError> {
        self.0.transfer_failed(message.transfer, message.status);
        Ok(())
    }

    fn read_ends(&mut self, message: ReadEnds) -> Result<(), DecodeError> {
        self.0.transfer_ends(message.transfer, message.size);
        Ok(())
    }

    fn output(&mut self, message: Output, tail: &mut dyn Tail) -> Result<(), DecodeError> {
        // A broken link is noticed when the rest of the tail is skipped; a closed output is the program's concern.
        if let Ok(text) = tail.read_to_vec() {
            let _ = match message.stream {
                OutputStream::Stdout => {
                    let mut out = std::io::stdout().lock();
                    out.write_all(&text).and_then(|()| out.flush())
                }
                OutputStream::Stderr => std::io::stderr().write_all(&text),
            };
        }
        Ok(())
    }

    fn context_error(&mut self, message: ContextError) -> Result<(), DecodeError> {
        let listener: Option<ContextListener> = lock(&self.0.contexts).get(&message.context).map(Arc::clone);
        let Some(listener) = listener else { return Ok(()) };
        // The application may be slow to handle errors, and a server must not fill its memory with them.
        let (untold, size) = (Arc::clone(&self.0.untold_errors), message.text.len());
        if untold.fetch_add(size, Ordering::Relaxed) + size > MOST_UNTOLD {
            untold.fetch_sub(size, Ordering::Relaxed);
            crate::debug!("{} tells of more errors than the program takes: {}", self.0.configured(), message.text);
            return Ok(());
        }
        run_later(move || {
            listener(&message.text);
            untold.fetch_sub(size, Ordering::Relaxed);
        });
        Ok(())
    }

    fn peer_state(&mut self, message: PeerState) -> Result<(), DecodeError> {
        self.0.peer_state(message.peer, message.connected, message.text);
        Ok(())
    }

    fn notice(&mut self, message: Notice) -> Result<(), DecodeError> {
        crate::warning!("the server {}: {}", self.0.configured(), message.text);
        Ok(())
    }

    fn closing(&mut self, message: Closing) -> Result<(), DecodeError> {
        self.0.lose(format!("it ended the session: {}", message.reason));
        Ok(())
    }
}

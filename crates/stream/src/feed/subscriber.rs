//! What the hub knows of one session. Nothing here waits.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use bytes::{Buf, Bytes};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};

use super::message::{Head, Kind};
use super::session::MAX_TEXT;
use crate::declaration::Declaration;
use crate::queue::{Chunk, Fault, Item, Queue};

/// Kept as long as a session has a stream.
pub(super) type Held = Arc<()>;

/// A session's socket.
pub(super) type Joining = (OwnedFd, Held);

/// A session that wants the stream.
pub(super) struct Subscriber {
    socket: OwnedFd,
    _held: Held,
    queue: Queue,
    since: Instant,
    /// Whether it has asked, and has no answer yet.
    has_asked: bool,
    /// What is left of the answer that is being sent.
    answer: VecDeque<Bytes>,
    /// Whether its other end is closed.
    pub is_gone: bool,
    /// Whether it gets what comes: a late one begins where a decoder can.
    pub begun: bool,
}

impl Subscriber {
    /// One at the other end of this socket.
    pub fn new(declaration: &Declaration, (socket, held): Joining, begun: bool) -> Self {
        let (queue, since) = (Queue::new(declaration), Instant::now());
        Self { socket, _held: held, queue, since, has_asked: false, answer: VecDeque::new(), is_gone: false, begun }
    }

    /// Whether a chunk of so many bytes has a place with it, or nowhere waits for one.
    pub fn takes(&self, bytes: usize) -> bool {
        !self.begun || !self.queue.waits() || self.queue.has_room(bytes)
    }

    /// Gives it a chunk that the stream goes on after.
    pub fn offer(&mut self, chunk: Bytes) {
        self.queue.offer_without_wait(chunk, self.since.elapsed());
    }

    /// Tells it that the stream has failed, and may go on.
    pub fn fail(&mut self, why: &Fault) {
        self.queue.fail(why.clone());
    }

    /// What to wait for at its socket; its end is always waited for.
    pub fn awaits(&self) -> PollFlags {
        match (self.answer.is_empty(), self.has_asked) {
            (false, _) => PollFlags::OUT,
            (true, false) => PollFlags::IN,
            (true, true) => PollFlags::empty(),
        }
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Takes so many bytes off what is left of the answer.
    fn was_sent(&mut self, mut sent: usize) {
        while let Some(part) = self.answer.front_mut() {
            if sent < part.len() {
                part.advance(sent);
                return;
            }
            sent -= part.len();
            self.answer.pop_front();
        }
    }

    /// Hears what it asks for and sends what there is, as far as that goes at once; `over` says how the stream is over.
    ///
    /// # Errors
    /// It is gone, or has all that it will get.
    pub fn serve(&mut self, over: Option<&Result<(), Fault>>) -> io::Result<()> {
        if self.is_gone {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        loop {
            while !self.answer.is_empty() {
                // Head and bytes at once: the session is woken once.
                let parts: Vec<_> = self.answer.iter().map(|part| IoSlice::new(part)).collect();
                let mut ancillary = SendAncillaryBuffer::default();
                match sendmsg(&self.socket, &parts, &mut ancillary, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                    Ok(sent) => self.was_sent(sent),
                    Err(Errno::AGAIN) => return Ok(()),
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            if !self.has_asked {
                match recv(&self.socket, &mut [0_u8], RecvFlags::DONTWAIT) {
                    Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(_) => self.has_asked = true,
                    Err(Errno::AGAIN) => return Ok(()),
                    Err(Errno::INTR) => continue,
                    Err(error) => return Err(error.into()),
                }
            }
            let (head, bytes) = match (self.queue.take(), over) {
                (Some(Item::Chunk(Chunk { bytes, sequence, dropped, time })), _) => {
                    let length = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidData)?;
                    (Head { kind: Kind::Chunk, length, sequence, dropped, time }, bytes)
                }
                (Some(Item::Failure(why)), _) => text(Kind::Failure, &why),
                (None, Some(Err(why))) => text(Kind::Broken, why),
                (None, Some(Ok(()))) => (Head::of(Kind::End, 0, false), Bytes::new()),
                (None, None) => return Ok(()),
            };
            self.has_asked = false;
            self.answer = VecDeque::from([Bytes::copy_from_slice(&head.to_bytes()), bytes]);
            self.answer.retain(|part| !part.is_empty());
        }
    }
}

fn text(kind: Kind, why: &Fault) -> (Head, Bytes) {
    // A letter has up to four bytes.
    let text: String = why.text.chars().take(MAX_TEXT / 4).collect();
    let bytes = Bytes::from(text);
    (Head::of(kind, bytes.len() as u32, why.is_invalid), bytes)
}

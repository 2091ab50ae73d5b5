//! The sending side of the worker's link to the client.
//!
//! Sending may block as long as the client does not read, so no thread sends while it holds what the reader of commands
//! needs. Handlers leave their small notes with [`Outgoing::leave`]; the next thread that sends takes them along.

use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ropeway_protocol::types::Status;
use ropeway_protocol::{CallId, Note, encode_note, encode_reply};
use ropeway_transport::{Arena, Link, Sender};
use serde::Serialize;

/// A tail below this size is copied behind its frame rather than given to the socket as a piece of its own.
const COPIED: usize = 16 << 10;

/// Most bytes of notes left to be sent: some hundred thousand failed commands while the client reads nothing.
const MAX_LEFT: usize = 4 << 20;

/// The sending side of the connection.
pub struct Outgoing {
    link: Arc<Link>,
    batch: Mutex<Vec<u8>>,
    left: Mutex<Vec<u8>>,
    /// The number of bytes in `left`.
    left_bytes: AtomicUsize,
}

/// The right to send. Frames are gathered first, then sent by [`Sending::send`].
pub struct Sending<'a> {
    link: &'a Link,
    batch: MutexGuard<'a, Vec<u8>>,
}

impl Outgoing {
    /// Sends on `link`.
    pub fn new(link: Arc<Link>) -> Self {
        Self { link, batch: Mutex::default(), left: Mutex::default(), left_bytes: AtomicUsize::new(0) }
    }

    /// Waits for the right to send. What was left comes first.
    pub fn lock(&self) -> Sending<'_> {
        let mut batch = self.batch.lock().unwrap_or_else(PoisonError::into_inner);
        batch.clear();
        if self.left_bytes.swap(0, Ordering::AcqRel) > 0 {
            batch.append(&mut self.left.lock().unwrap_or_else(PoisonError::into_inner));
        }
        Sending { link: &self.link, batch }
    }

    /// Leaves a note for the next who sends.
    pub fn leave<N: Note>(&self, note: &N) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        encode_note(&mut left, note, 0);
        self.left_bytes.store(left.len(), Ordering::Release);
    }

    /// Memory for bulk data that the client sees as well, where there is any.
    pub fn arena(&self) -> Option<&Arc<Arena>> {
        self.link.arena()
    }

    /// Bytes sent to the client and received from it.
    pub fn traffic(&self) -> (u64, u64) {
        self.link.traffic()
    }

    /// Whether notes were left.
    pub fn any_left(&self) -> bool {
        self.left_bytes.load(Ordering::Acquire) > 0
    }

    /// Whether more is left than a client that reads ever lets gather.
    pub fn is_too_much_left(&self) -> bool {
        self.left_bytes.load(Ordering::Relaxed) > MAX_LEFT
    }

    /// Ends the connection so that the client can still read what was sent: closing a socket with unread bytes in it
    /// would reset the connection, and the client lose what it has not read.
    pub fn close_gently(&self) {
        self.link.end_sending();
        let mut void = [0; 4096];
        while self.link.recv(&mut void).is_ok_and(|n| n > 0) {}
    }
}

impl Sending<'_> {
    /// Adds a note.
    pub fn note<N: Note>(&mut self, note: &N) {
        encode_note(&mut self.batch, note, 0);
    }

    /// Adds the answer to a call.
    pub fn reply<R: Serialize>(&mut self, call: &CallId<R>, reply: &Result<R, Status>) {
        encode_reply(&mut self.batch, call, reply, 0);
    }

    /// Adds a note with a tail; a large tail is sent at once, with all that was gathered before it.
    ///
    /// # Errors
    /// The socket's error.
    pub fn note_with_tail<N: Note>(&mut self, note: &N, tail: &[u8]) -> io::Result<()> {
        encode_note(&mut self.batch, note, tail.len());
        self.tail(tail)
    }

    /// Adds the answer to a call, with a tail.
    ///
    /// # Errors
    /// The socket's error.
    pub fn reply_with_tail<R: Serialize>(
        &mut self,
        call: &CallId<R>,
        reply: &Result<R, Status>,
        tail: &[u8],
    ) -> io::Result<()> {
        encode_reply(&mut self.batch, call, reply, tail.len());
        self.tail(tail)
    }

    fn tail(&mut self, tail: &[u8]) -> io::Result<()> {
        if tail.len() < COPIED {
            self.batch.extend_from_slice(tail);
            return Ok(());
        }
        self.link.send_all(&mut [IoSlice::new(&self.batch), IoSlice::new(tail)])?;
        self.batch.clear();
        Ok(())
    }

    /// Sends what was gathered.
    ///
    /// # Errors
    /// The socket's error.
    pub fn send(&mut self) -> io::Result<()> {
        if !self.batch.is_empty() {
            self.link.send_all(&mut [IoSlice::new(&self.batch)])?;
            self.batch.clear();
        }
        Ok(())
    }
}

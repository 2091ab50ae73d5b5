//! What waits to be sent, and when it is.
//!
//! Posts are gathered into batches: one write costs as much as ten commands. A batch goes out
//! - at once, when the link was quiet;
//! - when it has grown to [`BATCH`] bytes;
//! - whenever somebody waits, flushes or asks for a status;
//! - at the helper thread's next tick at the latest.

use std::io::{self, IoSlice};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use ropeway_transport::{Link, Sender};

use crate::base::stats::{STATS, count};

/// A batch of this many bytes goes out without waiting for more.
const BATCH: usize = 16 << 10;

/// Tails of at most this many bytes are copied into the batch; longer ones are sent from where they are.
const COPY: usize = 16 << 10;

#[derive(Default, Debug)]
pub(super) struct Outbox {
    /// Encoded messages not yet handed to the socket.
    pending: Mutex<Pending>,
    /// Held while writing to the socket, together with the buffer that was written last (kept for its memory).
    sending: Mutex<Vec<u8>>,
}

#[derive(Default, Debug)]
struct Pending {
    bytes: Vec<u8>,
    messages: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that holds these locks can leave them half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Outbox {
    /// Appends one message, which `encode` writes, with its tail. Returns whether the batch is full.
    ///
    /// # Errors
    /// What the socket said, where a long tail made it necessary to send.
    pub(super) fn push(&self, link: &Link, tail: &[u8], encode: impl FnOnce(&mut Vec<u8>)) -> io::Result<bool> {
        if tail.len() > COPY {
            // The lock on sending comes first, so that what is pushed meanwhile cannot overtake this.
            let mut sending = lock(&self.sending);
            let mut pending = lock(&self.pending);
            encode(&mut pending.bytes);
            pending.messages += 1;
            Self::send(link, &mut sending, pending, tail)?;
            return Ok(false);
        }
        let mut pending = lock(&self.pending);
        encode(&mut pending.bytes);
        pending.bytes.extend_from_slice(tail);
        pending.messages += 1;
        Ok(pending.bytes.len() >= BATCH)
    }

    /// Sends what is pending.
    ///
    /// # Errors
    /// What the socket said.
    pub(super) fn flush(&self, link: &Link) -> io::Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let mut sending = lock(&self.sending);
        let pending = lock(&self.pending);
        if pending.bytes.is_empty() {
            return Ok(());
        }
        Self::send(link, &mut sending, pending, &[])
    }

    /// Sends what is pending, as far as the socket takes it at once. Returns whether it took all.
    ///
    /// # Errors
    /// What the socket said.
    pub(super) fn try_flush(&self, link: &Link) -> io::Result<bool> {
        if self.is_empty() {
            return Ok(true);
        }
        // Who is sending may not be done for long.
        let mut sending = match self.sending.try_lock() {
            Ok(sending) => sending,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(false),
        };
        Self::take(&mut sending, lock(&self.pending));
        let sent = link.try_send(&sending)?;
        count(&STATS.bytes_sent, sent);
        if sent == sending.len() {
            return Ok(true);
        }
        // What has been posted meanwhile comes behind it.
        let mut pending = lock(&self.pending);
        sending.drain(..sent);
        sending.append(&mut pending.bytes);
        std::mem::swap(&mut *sending, &mut pending.bytes);
        Ok(false)
    }

    /// Whether nothing waits to be sent.
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.pending).bytes.is_empty()
    }

    fn send(link: &Link, sending: &mut Vec<u8>, pending: MutexGuard<'_, Pending>, tail: &[u8]) -> io::Result<()> {
        Self::take(sending, pending);
        count(&STATS.bytes_sent, sending.len() + tail.len());
        link.send_all(&mut [IoSlice::new(sending), IoSlice::new(tail)])
    }

    /// Takes what is pending, to be sent.
    fn take(sending: &mut Vec<u8>, mut pending: MutexGuard<'_, Pending>) {
        sending.clear();
        std::mem::swap(sending, &mut pending.bytes);
        count(&STATS.batches, 1);
        count(&STATS.messages_sent, std::mem::take(&mut pending.messages));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_the_socket_does_not_take_at_once_is_sent_later_and_in_order() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let link = Link::from_fd(near.into()).unwrap();
        let outbox = Outbox::default();
        let mut posted = Vec::new();
        // More than any socket holds, in pieces that can be told from each other.
        for piece in 0..1000_u32 {
            let bytes = piece.to_le_bytes().repeat(1024);
            outbox.push(&link, &[], |out| out.extend_from_slice(&bytes)).unwrap();
            posted.extend_from_slice(&bytes);
        }
        assert!(!outbox.try_flush(&link).unwrap());
        outbox.push(&link, b"last", |_| {}).unwrap();
        posted.extend_from_slice(b"last");
        let expected = posted.len();
        let reader = std::thread::spawn(move || {
            let mut read = vec![0; expected];
            far.read_exact(&mut read).map(|()| read).unwrap()
        });
        outbox.flush(&link).unwrap();
        assert!(outbox.is_empty() && outbox.try_flush(&link).unwrap());
        assert!(reader.join().unwrap() == posted);
    }
}

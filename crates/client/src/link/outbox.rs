//! The batch of frames that waits to be sent, and the rules for sending it.
//!
//! Posts are gathered into batches: one write costs as much as ten commands. A batch goes out
//! - at once, when the link was quiet;
//! - when it has grown to [`BATCH`] bytes;
//! - whenever somebody waits, flushes or asks for a status;
//! - at the background I/O thread's next tick at the latest.

use std::io::{self, IoSlice};

use super::stream::Link;
use crate::base::modelled::atomic::{AtomicBool, Ordering, fence};
use crate::base::modelled::{Mutex, MutexGuard, TryLockError, lock};
use crate::base::stats::{STATS, count};

/// A batch of this many bytes goes out without waiting for more.
const BATCH: usize = 16 << 10;

/// Room for a batch from the beginning on: what a short program sends at once.
const FIRST_BATCH: usize = 1 << 10;

/// Tails of at most this many bytes are copied into the batch; longer ones are sent from where they are, as a model's
/// few bytes are, too.
const COPY: usize = if cfg!(all(test, feature = "model")) { 2 } else { 16 << 10 };

/// When this many bytes are pending while another thread sends, a thread that posts waits for the sender before it adds
/// more.
const MOST: usize = 1 << 20;

#[derive(Default, Debug)]
pub(super) struct Outbox {
    /// Encoded messages not yet handed to the socket.
    pending: Mutex<Pending>,
    /// Whether there are any; changes only while `pending` is locked.
    is_pending: AtomicBool,
    /// Held while writing to the socket, together with the buffer that was written last (kept for its memory).
    sending: Mutex<Vec<u8>>,
    /// Whether a thread that did not wait for `sending` has left bytes: the thread that holds `sending` sends those,
    /// too.
    is_left: AtomicBool,
    /// Whether the thread that holds `sending` has been waiting for a while for the socket to accept bytes.
    is_held_up: AtomicBool,
}

#[derive(Default, Debug)]
struct Pending {
    bytes: Vec<u8>,
    messages: usize,
}

/// Called whenever the socket has accepted nothing for a while, to decide whether to continue.
/// [`io::ErrorKind::WouldBlock`]: this thread stops; the remaining bytes are kept, to be sent later.
pub(super) type GoesOn<'a> = &'a dyn Fn() -> io::Result<()>;

/// The result of pushing a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pushed {
    /// It is sent.
    Sent,
    /// The message is pending; the number is that of all pending bytes.
    Pending(usize),
    /// Not accepted: another thread is sending, and the caller did not want to wait for it.
    Busy,
}

impl Pushed {
    /// Whether the batch is full.
    pub(super) fn is_full(self) -> bool {
        matches!(self, Self::Pending(bytes) if bytes >= BATCH)
    }

    /// Whether so much is pending that a thread that posts should wait for the thread that is sending.
    pub(super) fn is_too_much(self) -> bool {
        matches!(self, Self::Pending(bytes) if bytes >= MOST)
    }
}

impl Outbox {
    /// An empty one, with room for the first batches: a context of many servers would otherwise have all of them grow at
    /// the same time.
    pub(super) fn new() -> Self {
        let room = || Vec::with_capacity(FIRST_BATCH);
        let pending = Mutex::new(Pending { bytes: room(), messages: 0 });
        Self { pending, sending: Mutex::new(room()), ..Self::default() }
    }

    /// Appends one message, which `encode` writes, with its tail; a long tail is sent at once, from where it is.
    /// `waits`, which is asked for a long tail only: whether to wait for another thread that is sending.
    ///
    /// # Errors
    /// The error of the socket or of `goes_on`, where a long tail made sending necessary.
    pub(super) fn push(
        &self,
        link: &Link,
        tail: &[u8],
        encode: impl FnOnce(&mut Vec<u8>),
        waits: &dyn Fn() -> bool,
        goes_on: GoesOn<'_>,
    ) -> io::Result<Pushed> {
        if tail.len() > COPY {
            // `sending` is locked first, so that messages pushed meanwhile cannot overtake this one.
            let Some(mut sending) = (if waits() { Some(lock(&self.sending)) } else { self.try_sending() }) else {
                return Ok(Pushed::Busy);
            };
            let mut pending = lock(&self.pending);
            encode(&mut pending.bytes);
            pending.messages += 1;
            self.is_pending.store(true, Ordering::Release);
            self.send(link, &mut sending, pending, tail, goes_on)?;
            drop(sending);
            self.send_left(link, goes_on)?;
            return Ok(Pushed::Sent);
        }
        let mut pending = lock(&self.pending);
        encode(&mut pending.bytes);
        pending.bytes.extend_from_slice(tail);
        pending.messages += 1;
        self.is_pending.store(true, Ordering::Release);
        Ok(Pushed::Pending(pending.bytes.len()))
    }

    /// Sends what is pending, or leaves it to the thread that is already sending.
    ///
    /// # Errors
    /// The error of the socket or of `goes_on`.
    pub(super) fn flush(&self, link: &Link, goes_on: GoesOn<'_>) -> io::Result<()> {
        if !self.has_pending() {
            return Ok(());
        }
        self.is_left.store(true, Ordering::SeqCst);
        self.send_left(link, goes_on)
    }

    /// Sends what is pending, once the thread that is sending has finished.
    ///
    /// # Errors
    /// The error of the socket or of `goes_on`.
    pub(super) fn flush_behind(&self, link: &Link, goes_on: GoesOn<'_>) -> io::Result<()> {
        drop(lock(&self.sending));
        self.flush(link, goes_on)
    }

    /// Sends what other threads left without waiting, unless another thread is sending.
    fn send_left(&self, link: &Link, goes_on: GoesOn<'_>) -> io::Result<()> {
        loop {
            // Either this thread sees what another thread has left, or the other thread sees that nobody is sending any
            // more.
            fence(Ordering::SeqCst);
            if !self.is_left.load(Ordering::SeqCst) {
                return Ok(());
            }
            let Some(mut sending) = self.try_sending() else { return Ok(()) };
            self.is_left.store(false, Ordering::SeqCst);
            let pending = lock(&self.pending);
            if !pending.bytes.is_empty() && !self.send(link, &mut sending, pending, &[], goes_on)? {
                return Ok(());
            }
        }
    }

    fn try_sending(&self) -> Option<MutexGuard<'_, Vec<u8>>> {
        match self.sending.try_lock() {
            Ok(sending) => Some(sending),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Sends what is pending, as far as the socket takes it at once. Returns whether it took all.
    ///
    /// # Errors
    /// The socket's error.
    pub(super) fn try_flush(&self, link: &Link) -> io::Result<bool> {
        if self.is_empty() {
            return Ok(true);
        }
        // The thread that sends may take long.
        let Some(mut sending) = self.try_sending() else { return Ok(false) };
        self.is_left.store(false, Ordering::SeqCst);
        self.take(&mut sending, lock(&self.pending));
        let sent = link.try_send(&sending)?;
        count(&STATS.bytes_sent, sent);
        if sent < sending.len() {
            self.keep(&mut sending, sent);
            return Ok(false);
        }
        drop(sending);
        if self.is_held_up() {
            self.is_held_up.store(false, Ordering::Release);
        }
        fence(Ordering::SeqCst);
        Ok(!self.is_left.load(Ordering::SeqCst))
    }

    /// Notes that the sending thread has been waiting for the socket for a while; this holds until its wait is over.
    pub(super) fn note_held_up(&self) {
        self.is_held_up.store(true, Ordering::Release);
    }

    /// Whether the sending thread has been waiting for the socket for a while.
    pub(super) fn is_held_up(&self) -> bool {
        self.is_held_up.load(Ordering::Acquire)
    }

    /// Whether all has been handed to the socket.
    pub(super) fn is_idle(&self) -> bool {
        self.try_sending().is_some() && self.is_empty()
    }

    /// Whether anything waits to be sent that this thread has posted or knows of; asked without a lock, as a program that
    /// works with many servers asks for each of them at each flush.
    pub(super) fn has_pending(&self) -> bool {
        self.is_pending.load(Ordering::Acquire)
    }

    /// Whether nothing waits to be sent, whichever thread has posted it.
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.pending).bytes.is_empty()
    }

    /// Sends what is pending and `tail`. Returns whether everything was sent: if `goes_on` stops this thread, the rest
    /// becomes pending again.
    fn send(
        &self,
        link: &Link,
        sending: &mut Vec<u8>,
        pending: MutexGuard<'_, Pending>,
        tail: &[u8],
        goes_on: GoesOn<'_>,
    ) -> io::Result<bool> {
        self.take(sending, pending);
        count(&STATS.bytes_sent, sending.len() + tail.len());
        let mut parts: &mut [_] = &mut [IoSlice::new(sending), IoSlice::new(tail)];
        match link.send_all_while(&mut parts, goes_on) {
            Ok(()) => {
                if self.is_held_up() {
                    self.is_held_up.store(false, Ordering::Release);
                }
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let left: usize = parts.iter().map(|part| part.len()).sum();
                let sent = sending.len() + tail.len() - left;
                sending.extend_from_slice(tail);
                self.keep(sending, sent);
                self.note_held_up();
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Makes all but the first `sent` bytes of `sending` pending again, before what has been posted meanwhile.
    fn keep(&self, sending: &mut Vec<u8>, sent: usize) {
        let mut pending = lock(&self.pending);
        sending.drain(..sent);
        sending.append(&mut pending.bytes);
        std::mem::swap(sending, &mut pending.bytes);
        self.is_pending.store(!pending.bytes.is_empty(), Ordering::Release);
    }

    /// Takes what is pending, to be sent.
    fn take(&self, sending: &mut Vec<u8>, mut pending: MutexGuard<'_, Pending>) {
        sending.clear();
        std::mem::swap(sending, &mut pending.bytes);
        self.is_pending.store(false, Ordering::Release);
        count(&STATS.batches, 1);
        count(&STATS.messages_sent, std::mem::take(&mut pending.messages));
    }
}

#[cfg(all(test, not(feature = "model")))]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// A `goes_on` that always continues, however long it takes.
    fn patiently() -> io::Result<()> {
        Ok(())
    }

    /// Returns a link whose other end has not read anything, and an outbox with more bytes than any socket holds, in
    /// pieces that can be told apart.
    fn full() -> (Link, UnixStream, Outbox, Vec<u8>) {
        let (near, far) = UnixStream::pair().unwrap();
        let link = Link::from_fd(near.into()).unwrap();
        let outbox = Outbox::default();
        let mut posted = Vec::new();
        for piece in 0..1000_u32 {
            let bytes = piece.to_le_bytes().repeat(1024);
            outbox.push(&link, &[], |out| out.extend_from_slice(&bytes), &|| true, &patiently).unwrap();
            posted.extend_from_slice(&bytes);
        }
        (link, far, outbox, posted)
    }

    fn read(mut far: UnixStream, expected: usize) -> std::thread::JoinHandle<Vec<u8>> {
        std::thread::spawn(move || {
            let mut read = vec![0; expected];
            far.read_exact(&mut read).map(|()| read).unwrap()
        })
    }

    #[test]
    fn what_the_socket_does_not_take_at_once_is_sent_later_and_in_order() {
        let (link, far, outbox, mut posted) = full();
        assert!(!outbox.try_flush(&link).unwrap());
        outbox.push(&link, b"last", |_| {}, &|| true, &patiently).unwrap();
        posted.extend_from_slice(b"last");
        let reader = read(far, posted.len());
        outbox.flush(&link, &patiently).unwrap();
        assert!(outbox.is_empty() && outbox.try_flush(&link).unwrap());
        assert!(reader.join().unwrap() == posted);
    }

    #[test]
    fn nobody_waits_for_a_thread_that_the_socket_holds_up_and_what_is_left_to_it_is_sent() {
        let (link, far, outbox, mut posted) = full();
        let held_up = || {
            outbox.note_held_up();
            Ok(())
        };
        std::thread::scope(|scope| {
            let sender = scope.spawn(|| outbox.flush(&link, &held_up));
            while !outbox.is_held_up() {
                std::thread::yield_now();
            }
            // With the other end not reading, any of these would wait for ever if it waited at all.
            outbox.push(&link, b"left", |_| {}, &|| true, &patiently).unwrap();
            outbox.flush(&link, &patiently).unwrap();
            assert!(!outbox.try_flush(&link).unwrap() && !outbox.is_idle());
            let long = [7; COPY + 1];
            assert_eq!(outbox.push(&link, &long, |_| {}, &|| false, &patiently).unwrap(), Pushed::Busy);
            posted.extend_from_slice(b"left");
            let reader = read(far, posted.len());
            sender.join().unwrap().unwrap();
            assert!(reader.join().unwrap() == posted);
        });
        assert!(outbox.is_idle() && !outbox.is_held_up());
    }

    #[test]
    fn a_thread_that_the_socket_holds_up_is_asked_whether_to_go_on() {
        let (link, _far, outbox, _) = full();
        let asked = AtomicUsize::new(0);
        let goes_on = || match asked.fetch_add(1, Ordering::Relaxed) {
            0 => Ok(()),
            _ => Err(io::ErrorKind::TimedOut.into()),
        };
        assert_eq!(outbox.flush(&link, &goes_on).unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(asked.into_inner(), 2);
    }

    #[test]
    fn what_a_thread_does_not_wait_for_is_kept_and_sent_in_order() {
        let (link, far, outbox, mut posted) = full();
        let not_this = || Err(io::ErrorKind::WouldBlock.into());
        let long = [7; COPY + 1];
        assert_eq!(outbox.push(&link, &long, |_| {}, &|| true, &not_this).unwrap(), Pushed::Sent);
        assert!(outbox.is_held_up() && !outbox.is_empty());
        outbox.push(&link, b"last", |_| {}, &|| true, &not_this).unwrap();
        posted.extend(long.iter().chain(b"last"));
        let reader = read(far, posted.len());
        outbox.flush(&link, &patiently).unwrap();
        assert!(reader.join().unwrap() == posted);
        assert!(outbox.is_idle() && !outbox.is_held_up());
    }
}

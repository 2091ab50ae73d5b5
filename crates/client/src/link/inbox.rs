//! Reading frames, by whichever thread waits.
//!
//! The reader role is a mutex. A thread that waits takes it, reads and hands out frames until its own wait is over, and
//! leaves; a thread that finds it taken sleeps until the reader has made progress or left. There is no
//! reading thread, so that an answer reaches the thread that waits for it without a handover.

use std::cell::Cell;
use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::PoisonError;
use std::time::Duration;

use ropeway_protocol::frame::{FRAME_HEADER_LEN, FrameHeader};
use ropeway_protocol::limits::MAX_BODY_TO_CLIENT;
use ropeway_protocol::{DecodeError, Tail, TailError};

use super::stream::Link;
use crate::base::modelled::atomic::{AtomicUsize, Ordering};
use crate::base::modelled::{Condvar, Mutex, MutexGuard, TryLockError, thread_local};
use crate::base::stats::{STATS, count};

/// Bytes asked of the socket at once, while frames are small.
const READ: usize = 64 << 10;

/// The same, until as many have come: most links of many never carry more.
const FIRST_READ: usize = 4 << 10;

/// Tails longer than this are worth receiving straight to where they belong.
const LONG_TAIL: usize = 32 << 10;

/// How often a sleeping waiter checks by itself, as a second line of defence.
const RECHECK: Duration = Duration::from_millis(100);

/// Takes the frames that were read.
pub(super) trait Deliver {
    /// One frame. What it leaves of `tail` is skipped.
    fn deliver(&self, header: FrameHeader, body: &[u8], tail: &mut dyn Tail) -> Result<(), DecodeError>;

    /// Called when nothing has come for a while within a frame: returns an error if the rest will never come.
    fn goes_on(&self) -> Result<(), ReadError>;
}

thread_local! {
    /// Whether this thread reads a link: others may be waiting for it.
    static IS_READER: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is handling frames of a link that it reads.
pub(super) fn is_reader() -> bool {
    IS_READER.with(Cell::get)
}

/// Why reading stopped.
#[derive(Debug)]
pub(super) enum ReadError {
    /// The server or the network closed the link, or broke it.
    Link(io::Error),
    /// The server does not answer, although the link is there.
    Silent,
    /// The server violated the protocol.
    Protocol(DecodeError),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Link(error)
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                f.write_str("it closed the connection")
            }
            Self::Link(error) => error.fmt(f),
            Self::Silent => f.write_str("it gives no sign of life"),
            Self::Protocol(error) => write!(f, "it sent what is not the protocol: {error}"),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Inbox {
    reader: Mutex<Reader>,
    /// Threads that sleep on `progress`.
    sleepers: AtomicUsize,
    progress_lock: Mutex<()>,
    progress: Condvar,
}

/// The received bytes that no frame has taken yet: `buffer[start..end]`.
#[derive(Debug, Default)]
pub(super) struct Reader {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// More has come at once than fits into the first buffer.
    is_busy: bool,
    /// After a frame with a long tail, the number of bytes of its header and body: the next read asks for exactly so
    /// many, so that the next such tail is received directly, and aligned, into its destination. 0 after other frames.
    between_tails: usize,
}

/// The reader role; leaving it wakes a waiter who needs it.
pub(super) struct Role<'a> {
    inbox: &'a Inbox,
    reader: Option<MutexGuard<'a, Reader>>,
}

impl Inbox {
    /// One with room for what comes first.
    pub(super) fn new() -> Self {
        let reader = Reader { buffer: vec![0; FIRST_READ], ..Reader::default() };
        Self { reader: Mutex::new(reader), ..Self::default() }
    }

    /// Takes the reader role if nobody has it.
    pub(super) fn try_read(&self) -> Option<Role<'_>> {
        let reader = match self.reader.try_lock() {
            Ok(reader) => reader,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Role { inbox: self, reader: Some(reader) })
    }

    /// Takes the reader role, or sleeps until the thread that has it has made progress or left. `None`: the caller must
    /// check its condition again.
    pub(super) fn read_or_sleep(&self, over: &mut dyn FnMut() -> bool) -> Option<Role<'_>> {
        if let Some(role) = self.try_read() {
            return Some(role);
        }
        let guard = self.progress_lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        // The reader checks `sleepers` after it made progress and after it left: whatever it did before it saw this
        // thread is seen here, and what it does later wakes this thread.
        let role = self.try_read();
        if role.is_none() && !over() {
            drop(self.progress.wait_timeout(guard, RECHECK));
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        role
    }

    /// Sleeps until `over`, which is looked at again at every [`Inbox::wake`].
    pub(super) fn sleep_until(&self, over: &mut dyn FnMut() -> bool) {
        let mut guard = self.progress_lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while !over() {
            guard = self.progress.wait_timeout(guard, RECHECK).unwrap_or_else(PoisonError::into_inner).0;
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Wakes everybody who sleeps here, to look again.
    pub(super) fn wake(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            drop(self.progress_lock.lock());
            self.progress.notify_all();
        }
    }
}

impl Role<'_> {
    /// Reads once (waiting for bytes if `wait`) and hands out all frames that are whole. Returns whether there were
    /// any.
    pub(super) fn read(&mut self, link: &Link, wait: bool, to: &dyn Deliver) -> Result<bool, ReadError> {
        let Some(reader) = self.reader.as_deref_mut() else { return Ok(false) };
        let mut any = false;
        let mut more = reader.fill(link, wait)?;
        while more {
            let outer = IS_READER.with(|is_reader| is_reader.replace(true));
            let handed_out = reader.hand_out(link, to);
            IS_READER.with(|is_reader| is_reader.set(outer));
            any |= handed_out?;
            // What was decrypted with these frames, nobody would be woken for.
            more = link.has_more() && reader.fill(link, false)?;
        }
        if any {
            self.inbox.wake();
        }
        Ok(any)
    }
}

impl Drop for Role<'_> {
    fn drop(&mut self) {
        self.reader = None;
        self.inbox.wake();
    }
}

impl Reader {
    /// Receives some bytes. False: there were none, at once or, if waiting was asked for, for a while.
    fn fill(&mut self, link: &Link, wait: bool) -> io::Result<bool> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        let room = if self.is_busy { self.end + READ } else { FIRST_READ };
        if self.buffer.len() < room {
            self.buffer.resize(room, 0);
        }
        let most = match self.between_tails {
            0 => READ,
            usual => {
                let have = &self.buffer[self.start..self.end];
                match have.first_chunk().and_then(|header| FrameHeader::from_bytes(header, MAX_BODY_TO_CLIENT).ok()) {
                    // A frame of another kind, or one a little longer than the one before: asks for the rest of its
                    // body.
                    Some(header) => (FRAME_HEADER_LEN + header.body as usize).saturating_sub(have.len()).max(1),
                    None => usual.saturating_sub(have.len()).max(1),
                }
            }
        };
        let most = most.min(READ).min(self.buffer.len() - self.end);
        let room = &mut self.buffer[self.end..self.end + most];
        let got = if wait { link.recv_for_a_glance(room) } else { link.try_recv(room) };
        match got {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                count(&STATS.bytes_received, n);
                self.end += n;
                self.is_busy |= self.end >= FIRST_READ;
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Hands out whole frames; a frame counts as whole when its body is there, its tail is received as it is read.
    fn hand_out(&mut self, link: &Link, to: &dyn Deliver) -> Result<bool, ReadError> {
        let mut any = false;
        while let Some(header) = self.next_frame(link, to)? {
            let body_start = self.start + FRAME_HEADER_LEN;
            let (body, rest) = self.buffer[body_start..self.end].split_at(header.body as usize);
            let here = &rest[..rest.len().min(header.tail as usize)];
            let coming = header.tail as usize - here.len();
            let taken = FRAME_HEADER_LEN + body.len() + here.len();
            let mut tail = LinkTail { link, to, here, coming, broken: None };
            count(&STATS.messages_received, 1);
            to.deliver(header, body, &mut tail).map_err(ReadError::Protocol)?;
            tail.skip()?;
            self.start += taken;
            let is_long = header.tail as usize > LONG_TAIL;
            self.between_tails = if is_long { FRAME_HEADER_LEN + header.body as usize } else { 0 };
            any = true;
        }
        // A frame that is not whole moves to the front when the next read would not fit behind it.
        if self.start > 0 && self.start < self.end && self.buffer.len() < self.end + READ {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        Ok(any)
    }

    /// The header of the next frame, if its body is here too.
    fn next_frame(&mut self, link: &Link, to: &dyn Deliver) -> Result<Option<FrameHeader>, ReadError> {
        let Some(header) = self.buffer[self.start..self.end].first_chunk() else { return Ok(None) };
        let header = FrameHeader::from_bytes(header, MAX_BODY_TO_CLIENT).map_err(ReadError::Protocol)?;
        let body_end = self.start + FRAME_HEADER_LEN + header.body as usize;
        if self.end >= body_end {
            return Ok(Some(header));
        }
        if header.body as usize <= READ {
            return Ok(None);
        }
        // The body is long, so it is awaited here: nothing else can arrive before it anyway.
        self.buffer.resize(self.buffer.len().max(body_end), 0);
        link.recv_exact_while(&mut self.buffer[self.end..body_end], || to.goes_on())?;
        count(&STATS.bytes_received, body_end - self.end);
        self.end = body_end;
        Ok(Some(header))
    }
}

/// The tail of the frame that is being handed out: what has been received with it, then what is still to come.
struct LinkTail<'a> {
    link: &'a Link,
    to: &'a dyn Deliver,
    here: &'a [u8],
    coming: usize,
    broken: Option<ReadError>,
}

impl Tail for LinkTail<'_> {
    fn remaining(&self) -> usize {
        self.here.len() + self.coming
    }

    fn read_exact(&mut self, into: &mut [u8]) -> Result<(), TailError> {
        if into.len() > self.remaining() || self.broken.is_some() {
            return Err(TailError);
        }
        let (first, rest) = into.split_at_mut(into.len().min(self.here.len()));
        let (copied, here) = self.here.split_at(first.len());
        first.copy_from_slice(copied);
        self.here = here;
        if !rest.is_empty() {
            if let Err(error) = self.link.recv_exact_while(rest, || self.to.goes_on()) {
                self.broken = Some(error);
                return Err(TailError);
            }
            count(&STATS.bytes_received, rest.len());
            self.coming -= rest.len();
        }
        Ok(())
    }
}

impl LinkTail<'_> {
    /// Takes what nobody wanted off the link.
    fn skip(mut self) -> Result<(), ReadError> {
        let mut nowhere = [0; 4096];
        while self.broken.is_none() && self.remaining() > 0 {
            let n = self.remaining().min(nowhere.len());
            let _ = self.read_exact(&mut nowhere[..n]);
        }
        self.broken.map_or(Ok(()), Err)
    }
}

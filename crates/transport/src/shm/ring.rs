//! A ring of bytes in shared memory, from one process to another.
//!
//! ```text
//!   control   tail       bytes written so far; only the writer changes it
//!             head       bytes read so far; only the reader changes it
//!             asleep     the reader wants to be woken when there are bytes
//!             full       the writer wants to be woken when there is room
//!   data      byte n of the stream is at n modulo RING
//! ```
//!
//! Each side keeps its own position to itself and only publishes it: what the other process writes over it changes
//! nothing. The other side's position is read once for each step, and held against the ring's size.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::futex;

use super::memory::Memory;

/// The bytes that a ring holds: more than a second-level cache would make each byte travel through memory.
pub(super) const RING: usize = 1 << 20;

/// Distance between numbers that different processors write, so that they do not share a cache line (which come in
/// pairs).
const APART: usize = 128;

/// The bytes of control of one ring.
pub(super) const CONTROL: usize = 4 * APART;

/// The most that is written before the other side sees any of it, so that both copy at the same time.
const STEP: usize = 64 << 10;

/// A writer that found no room is woken when so much is free, not for each byte.
const ROOM: u64 = RING as u64 / 2;

/// How long a writer that nobody wakes sleeps before it looks for room, at first: about as long as copying half a ring takes.
const SHORTEST_PAUSE: Duration = Duration::from_micros(50);

/// And at most.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// One ring's place in the memory.
#[derive(Debug)]
struct Ring {
    memory: Arc<Memory>,
    control: usize,
    data: usize,
}

impl Ring {
    fn tail(&self) -> &AtomicU64 {
        self.memory.position(self.control)
    }

    fn head(&self) -> &AtomicU64 {
        self.memory.position(self.control + APART)
    }

    fn asleep(&self) -> &std::sync::atomic::AtomicU32 {
        self.memory.flag(self.control + 2 * APART)
    }

    fn full(&self) -> &std::sync::atomic::AtomicU32 {
        self.memory.flag(self.control + 3 * APART)
    }

    /// The two pieces of the data in which `len` bytes from `position` on lie: place and length each.
    fn pieces(&self, position: u64, len: usize) -> [(usize, usize); 2] {
        let at = (position % RING as u64) as usize;
        let first = len.min(RING - at);
        [(self.data + at, first), (self.data, len - first)]
    }
}

/// The other side's position says what cannot be.
fn impossible() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "the memory that it shares says what cannot be")
}

/// The writing end. One thread writes at a time.
#[derive(Debug)]
pub(super) struct Writer {
    ring: Ring,
    tail: AtomicU64,
    /// Whether the reader is in another machine, from where no futex wakes this one.
    is_across: bool,
}

impl Writer {
    pub(super) fn new(memory: Arc<Memory>, control: usize, data: usize, is_across: bool) -> Self {
        Self { ring: Ring { memory, control, data }, tail: AtomicU64::new(0), is_across }
    }

    /// Bytes that were written and not read.
    fn unread(&self) -> io::Result<u64> {
        let tail = self.tail.load(Ordering::Relaxed);
        let unread = tail.wrapping_sub(self.ring.head().load(Ordering::Acquire));
        if unread > RING as u64 { Err(impossible()) } else { Ok(unread) }
    }

    /// How many bytes the other side says that it has read. Any thread may ask.
    pub(super) fn taken(&self) -> u64 {
        self.ring.head().load(Ordering::Acquire).min(self.tail.load(Ordering::Acquire))
    }

    /// Writes the beginning of `bytes`: what there is room for, and no more than the other side should wait for. Returns
    /// how much that was, and whether the reader is to be woken.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidData`].
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<(usize, bool)> {
        let tail = self.tail.load(Ordering::Relaxed);
        let room = RING - self.unread()? as usize;
        let mut left = &bytes[..room.min(bytes.len()).min(STEP)];
        let written = left.len();
        for (place, len) in self.ring.pieces(tail, written) {
            let (piece, rest) = left.split_at(len);
            self.ring.memory.copy_in(place, piece);
            left = rest;
        }
        let tail = tail.wrapping_add(written as u64);
        self.tail.store(tail, Ordering::Release);
        self.ring.tail().store(tail, Ordering::Release);
        Ok((written, written > 0 && self.reader_sleeps()))
    }

    /// Whether the reader is to be woken; so only once for each time that it asks for it.
    fn reader_sleeps(&self) -> bool {
        // Either the reader sees the new tail before it sleeps, or this sees that it is about to.
        fence(Ordering::SeqCst);
        let asleep = self.ring.asleep();
        let sleeps = asleep.load(Ordering::Relaxed) != 0;
        if sleeps {
            // No exchange, which the memory of a device may not know: should the reader have asked again meanwhile, it is
            // woken all the same.
            asleep.store(0, Ordering::Relaxed);
        }
        sleeps
    }

    /// Waits until there is room, at most for `patience`, which is below a second; returns whether there is.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidData`].
    pub(super) fn wait_for_room(&self, patience: Duration) -> io::Result<bool> {
        if self.is_across {
            return self.look_for_room(patience);
        }
        let full = self.ring.full();
        full.store(1, Ordering::Relaxed);
        // Either the reader sees this after it has made room, or the room is seen here.
        fence(Ordering::SeqCst);
        if RING as u64 - self.unread()? < ROOM {
            let patience = futex::Timespec { tv_sec: 0, tv_nsec: i64::from(patience.subsec_nanos()) };
            match futex::wait(full, futex::Flags::empty(), 1, Some(&patience)) {
                Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        full.store(0, Ordering::Relaxed);
        Ok(self.unread()? < RING as u64)
    }

    /// As [`Self::wait_for_room`], where nobody wakes this thread: it looks again and again, less and less often.
    fn look_for_room(&self, patience: Duration) -> io::Result<bool> {
        let (deadline, mut pause) = (Instant::now() + patience, SHORTEST_PAUSE);
        loop {
            if RING as u64 - self.unread()? >= ROOM || Instant::now() >= deadline {
                return Ok(self.unread()? < RING as u64);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Wakes a thread of this process that waits for room.
    pub(super) fn wake(&self) {
        wake(self.ring.full());
    }
}

/// The reading end. One thread reads at a time; others may ask whether there are bytes.
#[derive(Debug)]
pub(super) struct Reader {
    ring: Ring,
    head: AtomicU64,
}

impl Reader {
    pub(super) fn new(memory: Arc<Memory>, control: usize, data: usize) -> Self {
        Self { ring: Ring { memory, control, data }, head: AtomicU64::new(0) }
    }

    /// Bytes that were written and not read.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidData`].
    pub(super) fn unread(&self) -> io::Result<usize> {
        // In this order: the tail cannot be behind a head that was read before it.
        let head = self.head.load(Ordering::Acquire);
        let unread = self.ring.tail().load(Ordering::Acquire).wrapping_sub(head);
        if unread > RING as u64 { Err(impossible()) } else { Ok(unread as usize) }
    }

    /// Whether a read would find something, if only a fault.
    pub(super) fn has_more(&self) -> bool {
        !matches!(self.unread(), Ok(0))
    }

    /// Reads what is there, as much as there is room for in `into`; 0 if nothing is there.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidData`].
    pub(super) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        let mut read = 0;
        let mut head = self.head.load(Ordering::Relaxed);
        while read < into.len() {
            let len = self.unread()?.min(into.len() - read).min(STEP);
            if len == 0 {
                break;
            }
            for (place, len) in self.ring.pieces(head, len) {
                self.ring.memory.copy_out(place, &mut into[read..read + len]);
                read += len;
            }
            head = head.wrapping_add(len as u64);
            self.head.store(head, Ordering::Release);
            self.ring.head().store(head, Ordering::Release);
            self.wake_writer(head);
        }
        Ok(read)
    }

    fn wake_writer(&self, head: u64) {
        fence(Ordering::SeqCst);
        let full = self.ring.full();
        let unread = self.ring.tail().load(Ordering::Relaxed).wrapping_sub(head);
        if full.load(Ordering::Relaxed) != 0 && unread <= RING as u64 - ROOM && full.swap(0, Ordering::Relaxed) != 0 {
            wake(full);
        }
    }

    /// Asks the writer to wake this side when there are bytes; returns whether there are some already.
    pub(super) fn ask_to_be_woken(&self) -> bool {
        self.ring.asleep().store(1, Ordering::Relaxed);
        // See `Writer::reader_sleeps`.
        fence(Ordering::SeqCst);
        self.has_more()
    }
}

fn wake(full: &std::sync::atomic::AtomicU32) {
    // Fails only for an address that is none.
    let _ = futex::wake(full, futex::Flags::empty(), i32::MAX.cast_unsigned());
}

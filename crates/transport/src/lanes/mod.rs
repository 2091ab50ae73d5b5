//! A link whose bytes go over several sockets, its *lanes*, where one connection carries less than the way to the server does:
//! its window is too small for a long way, somebody on the way bounds each connection, or one core at either end cannot do
//! more.
//!
//! Which byte goes over which lane follows from its place in the stream alone: the first [`BLOCK`] bytes go over the first
//! lane, the next ones over the second, and behind the last lane it is the first one's turn again. So nothing has to be said
//! about their order, and there is nothing that the other side could say wrongly.
//!
//! ```text
//!   stream   0   1   2   3   4   5   6 ...      blocks
//!   lane 0   0           3           6
//!   lane 1       1           4
//!   lane 2           2           5
//! ```
//!
//! The link's own socket carries nothing any more, and says that the other process is there.

mod bulk;
#[cfg(test)]
mod tests;

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFlags, epoll};
use rustix::io::Errno;

use crate::Link;
use crate::crew::Crew;
use crate::medium::Medium;
use crate::patience::{is_ready, timespec};

/// Bytes that go over one lane before it is the next one's turn: a large write has some of them for each lane.
const BLOCK: usize = 256 << 10;

/// Fewest lanes, and most.
pub const LANES: std::ops::RangeInclusive<usize> = 2..=8;

/// How long the ends of lanes and of the socket may be apart, where a process ends.
const LAST: Duration = Duration::from_millis(50);

/// How often to look for the other's end meanwhile.
const NAP: Duration = Duration::from_millis(1);

/// The socket's number among what is watched; a lane has its own, and 1.
const SOCKET: u64 = 0;

/// One of the sockets.
#[derive(Debug)]
struct Lane {
    link: Link,
    /// How many bytes it was given ahead of those of lanes before it: its part of what is still to be written.
    given: AtomicUsize,
    /// What it has brought ahead of lanes before it.
    early: Mutex<Vec<u8>>,
}

impl Lane {
    fn early(&self) -> MutexGuard<'_, Vec<u8>> {
        self.early.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads some bytes; 0: the other side has closed it. `waits`: until `into` is full, or nothing has come for a
    /// [`crate::GLANCE`].
    fn read(&self, into: &mut [u8], waits: bool) -> io::Result<usize> {
        let mut early = self.early();
        if !early.is_empty() {
            let len = early.len().min(into.len());
            into[..len].copy_from_slice(&early[..len]);
            early.drain(..len);
            return Ok(len);
        }
        drop(early);
        if waits { self.link.recv_whole(into) } else { self.link.try_recv(into) }
    }

    /// Whether a read finds something within `patience`, be it the end.
    fn is_readable(&self, patience: Duration) -> bool {
        !self.early().is_empty() || self.link.has_more() || is_ready(self.link.as_fd(), PollFlags::IN, patience)
    }
}

/// Both sides' bytes over the lanes.
#[derive(Debug)]
pub(crate) struct Lanes {
    lanes: Vec<Lane>,
    /// How many bytes were written and read: the places in the two streams.
    written: AtomicU64,
    read: AtomicU64,
    /// Readable when there is something on the lane whose turn it is, or the link's own socket has ended.
    watch: OwnedFd,
    /// Who helps with what is large.
    crew: Option<Arc<Crew>>,
    /// Whether the other side has ended, and all that it had written was read.
    has_ended: AtomicBool,
    over: AtomicBool,
}

/// The part of a stream that one lane carries next: which lane, and at most how many bytes.
fn turn(at: u64, lanes: usize) -> (usize, usize) {
    let (block, within) = (at / BLOCK as u64, at % BLOCK as u64);
    // Both are below a `usize`: the one is below `lanes`, the other at most BLOCK.
    ((block % lanes as u64) as usize, BLOCK - within as usize)
}

impl Link {
    /// Goes on over `lanes`, which the other side has in the same order.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for a number of them that is not in [`LANES`]; the operating system's error.
    pub fn go_on_over(mut self, lanes: Vec<Self>) -> io::Result<Self> {
        let lanes = Lanes::new(lanes, self.fd.as_fd(), Crew::of_process())?;
        self.use_medium(Box::new(lanes));
        Ok(self)
    }
}

impl Lanes {
    fn new(lanes: Vec<Link>, socket: BorrowedFd<'_>, crew: Option<Arc<Crew>>) -> io::Result<Self> {
        if !LANES.contains(&lanes.len()) {
            return Err(ErrorKind::InvalidInput.into());
        }
        let watch = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        // Of the socket only its end is of interest.
        epoll::add(&watch, socket, epoll::EventData::new_u64(SOCKET), epoll::EventFlags::RDHUP)?;
        // A lane that opens its records has the crew's help with that.
        let crew = crew.filter(|_| lanes.iter().all(|lane| !lane.is_encrypted()));
        let lane = |link| Lane { link, given: AtomicUsize::new(0), early: Mutex::default() };
        let lanes = Self {
            lanes: lanes.into_iter().map(lane).collect(),
            written: AtomicU64::new(0),
            read: AtomicU64::new(0),
            watch,
            crew,
            has_ended: AtomicBool::new(false),
            over: AtomicBool::new(false),
        };
        lanes.watch(0)?;
        Ok(lanes)
    }

    /// The lane whose turn it is to be read, and how many bytes that is at most.
    fn next_to_read(&self) -> (usize, usize) {
        turn(self.read.load(Ordering::Relaxed), self.lanes.len())
    }

    fn watch(&self, lane: usize) -> io::Result<()> {
        let data = epoll::EventData::new_u64(lane as u64 + 1);
        Ok(epoll::add(&self.watch, &self.lanes[lane].link, data, epoll::EventFlags::IN)?)
    }

    /// So many bytes more were read.
    fn note_read(&self, bytes: usize) -> io::Result<()> {
        let (before, _) = self.next_to_read();
        self.read.fetch_add(bytes as u64, Ordering::Relaxed);
        let (now, _) = self.next_to_read();
        if now != before {
            // Others have nothing to say before it is their turn, and would wake who cannot read them.
            epoll::delete(&self.watch, &self.lanes[before].link)?;
            self.watch(now)?;
        }
        Ok(())
    }

    /// A lane was closed: so have all, and the socket, if the other process has ended.
    fn note_end(&self) -> io::Result<()> {
        let until = Instant::now() + LAST;
        while self.await_waking(Duration::ZERO) != Ok(0) {
            if Instant::now() > until {
                let text = "one of its sockets was closed, and the others were not";
                return Err(io::Error::new(ErrorKind::ConnectionReset, text));
            }
            // What is watched tells of the lane as well, and would wake this thread at once.
            thread::sleep(NAP);
        }
        self.has_ended.store(true, Ordering::Release);
        Ok(())
    }

    /// Reads what is there, lane by lane; where it `waits`, until `into` is full or nothing has come for a
    /// [`crate::GLANCE`].
    fn take(&self, into: &mut [u8], waits: bool) -> io::Result<usize> {
        let mut got = 0;
        while got < into.len() && !self.has_ended.load(Ordering::Relaxed) {
            let (lane, most) = self.next_to_read();
            let most = most.min(into.len() - got);
            match self.lanes[lane].read(&mut into[got..][..most], waits) {
                Ok(0) if got > 0 => break,
                Ok(0) => self.note_end()?,
                Ok(n) => {
                    self.note_read(n)?;
                    got += n;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // What came before the fault is read first: it is found again.
                Err(_) if got > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(got)
    }
}

impl Medium for Lanes {
    fn name(&self) -> &'static str {
        match self.lanes.iter().any(|lane| lane.link.is_encrypted()) {
            true => "TLS, several sockets",
            false => "TCP, several sockets",
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = 0;
        while written < bytes.len() {
            let offered = self.offer(&bytes[written..])?;
            written += offered.taken;
            if !offered.is_all {
                break;
            }
        }
        Ok(written)
    }

    fn wait_for_room(&self, patience: Duration) -> io::Result<bool> {
        let (lane, _) = turn(self.written.load(Ordering::Relaxed), self.lanes.len());
        Ok(is_ready(self.lanes[lane].link.as_fd(), PollFlags::OUT, patience))
    }

    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        self.take(into, false)
    }

    fn read_whole(&self, into: &mut [u8]) -> io::Result<usize> {
        match self.take_together(into)? {
            None => self.take(into, true),
            // It has waited already: what is left to find is an end, or a fault.
            Some(0) => self.take(into, false),
            Some(got) => Ok(got),
        }
    }

    fn has_more(&self) -> bool {
        !self.has_ended.load(Ordering::Acquire) && self.lanes[self.next_to_read().0].is_readable(Duration::ZERO)
    }

    fn has_more_in_a_moment(&self) -> bool {
        self.has_more()
    }

    fn has_more_at_the_end(&self) -> bool {
        // The end of the socket may overtake what is on the lanes; each tells of its own end behind that.
        !self.has_ended.load(Ordering::Acquire) && self.lanes[self.next_to_read().0].is_readable(LAST)
    }

    fn ask_to_be_woken(&self) -> bool {
        self.has_more()
    }

    fn await_waking(&self, patience: Duration) -> Result<usize, Errno> {
        let nothing = epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(SOCKET) };
        let mut events = [nothing; 2];
        let found = epoll::wait(&self.watch, &mut events[..], Some(&timespec(patience)))?;
        let has_ended = events[..found].iter().any(|event| event.data.u64() == SOCKET);
        match found {
            0 => Err(Errno::AGAIN),
            _ if has_ended => Ok(0),
            _ => Ok(1),
        }
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }

    fn check_machine(&self) -> io::Result<()> {
        self.lanes.iter().try_for_each(|lane| lane.link.check_machine())
    }

    fn taken(&self) -> u64 {
        // What encryption adds counts as well: while any of it is on its way, some bytes are.
        let untaken = |lane: &Lane| lane.link.taken().map_or(0, |taken| lane.link.traffic().0.saturating_sub(taken));
        self.written.load(Ordering::Relaxed).saturating_sub(self.lanes.iter().map(untaken).sum())
    }

    fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.lanes.iter().for_each(|lane| lane.link.shutdown());
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }
}

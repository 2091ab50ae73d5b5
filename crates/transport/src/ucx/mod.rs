//! Links whose bytes go over UCX: RDMA where both machines have it, else what UCX finds.
//!
//! The session opens over a TCP socket, as always. Then both processes tell each other over it where their UCX workers
//! are reached ([`meeting`]), and go on over these. The socket carries no more data; it says whether the other process
//! is there.
//!
//! The stream of bytes is cut into messages that carry a number which only the two ends know. They are sent from memory
//! that is registered once, and are received where they belong if they fit in there. As with a socket, the other side
//! may have so much unread and no more: it says how far it has read.
//!
//! UCX does nothing by itself: who waits goes on with it ([`Port::progress`]), and where nobody waits while something is
//! under way, a thread does, the pump.

mod choice;
#[allow(unsafe_code)]
mod library;
mod meeting;
#[allow(unsafe_code)]
mod port;
mod sleeper;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;

use crate::medium::{Medium, SOON};
use crate::patience::timespec;
use port::{MESSAGE, Port, lock};

/// A sender is likely to be back before so long, and then goes on itself with what it has sent.
const SHORTLY: Duration = Duration::from_micros(50);

/// How long the pump sleeps at most: another thread may have taken the event.
const NAP: Duration = Duration::from_millis(1);

/// How long the last bytes may take behind the end of the socket, which may overtake them.
const LAST: Duration = Duration::from_millis(50);

/// The socket's number among what is watched.
const SOCKET: u64 = 0;

/// How long the last bytes may take to leave this side.
const FAREWELL: Duration = Duration::from_millis(200);

/// How often a thread that looks for bytes does so in less time than a system call takes.
const LOOKS: usize = 4;

/// Whether links over UCX can be had on this machine.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`]: a sentence that says what to install.
pub(crate) fn check() -> io::Result<()> {
    library::api().map(drop)
}

/// A stream over UCX.
#[derive(Debug)]
pub(crate) struct Stream {
    shared: Arc<Shared>,
    /// What has come and was not asked for yet; the reader's.
    rest: Mutex<Rest>,
    /// Readable when there is an event, when the reader is woken, or when there is something on the link's socket.
    watch: OwnedFd,
    pump: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    port: Mutex<Port>,
    /// Readable when there is an event, after [`Port::arm`].
    events: OwnedFd,
    /// Readable when there is room, for a writer that sleeps.
    room: OwnedFd,
    over: AtomicBool,
    /// The pump works, or will.
    pumps: AtomicBool,
}

/// The bytes of a message for which a reader had no room.
#[derive(Debug, Default)]
struct Rest {
    bytes: Vec<u8>,
    from: usize,
}

impl Rest {
    fn is_empty(&self) -> bool {
        self.from == self.bytes.len()
    }

    fn take(&mut self, into: &mut [u8]) -> usize {
        let left = &self.bytes[self.from..];
        let n = left.len().min(into.len());
        into[..n].copy_from_slice(&left[..n]);
        self.from += n;
        n
    }
}

impl Shared {
    /// Sleeps until there is an event, at most for `most`, which is below a second.
    fn nap(&self, most: Duration) -> io::Result<()> {
        if lock(&self.port).arm()? {
            // An interrupted nap is as good as one that is over.
            let _ = poll(&mut [PollFd::new(&self.events, PollFlags::IN)], Some(&timespec(most)));
        }
        Ok(())
    }

    /// The pump's thread.
    fn pump(&self) {
        while !self.over.load(Ordering::SeqCst) {
            if !self.pumps.load(Ordering::SeqCst) {
                thread::park();
                continue;
            }
            loop {
                // Those who sent and wait are likely to go on themselves.
                thread::sleep(SHORTLY);
                let mut port = lock(&self.port);
                let went_on = port.progress();
                if went_on.is_err() || port.is_settled() || self.over.load(Ordering::SeqCst) {
                    self.pumps.store(false, Ordering::SeqCst);
                    break;
                }
                let is_busy = port.is_busy();
                drop(port);
                if matches!(went_on, Ok(false)) && !is_busy && self.nap(NAP).is_err() {
                    thread::sleep(NAP);
                }
            }
        }
    }
}

impl Stream {
    /// Goes on through `port`, which has its endpoint, beside `socket`.
    ///
    /// # Errors
    /// The operating system's error.
    fn new(port: Port, socket: BorrowedFd<'_>) -> io::Result<Self> {
        let [events, room] = [port.events()?, port.writer.as_fd()].map(|fd| fd.try_clone_to_owned());
        let watch = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (number, fd) in [(SOCKET, socket), (SOCKET + 1, port.reader.as_fd()), (SOCKET + 2, port.events()?)] {
            // Of the socket only its end is of interest.
            let of = if number == SOCKET { epoll::EventFlags::RDHUP } else { epoll::EventFlags::IN };
            epoll::add(&watch, fd, epoll::EventData::new_u64(number), of)?;
        }
        let shared = Arc::new(Shared {
            port: Mutex::new(port),
            events: events?,
            room: room?,
            over: AtomicBool::new(false),
            pumps: AtomicBool::new(false),
        });
        let pumped = Arc::clone(&shared);
        let pump = crate::threads::start(|| thread::Builder::new().name("ucx".into()).spawn(move || pumped.pump()))?;
        Ok(Self { shared, rest: Mutex::default(), watch, pump: Some(pump) })
    }

    fn port(&self) -> MutexGuard<'_, Port> {
        lock(&self.shared.port)
    }

    fn rest(&self) -> MutexGuard<'_, Rest> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the pump go on with what is under way.
    fn rouse_pump(&self) {
        if !self.shared.pumps.swap(true, Ordering::SeqCst)
            && let Some(pump) = &self.pump
        {
            pump.thread().unpark();
        }
    }

    /// Whether the other side has closed the socket.
    fn has_socket_ended(&self) -> bool {
        let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 3];
        let at_once = Timespec::default();
        let found = epoll::wait(&self.watch, &mut events[..], Some(&at_once)).unwrap_or(0);
        let ends = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
        events[..found].iter().any(|event| {
            let flags = event.flags;
            event.data.u64() == SOCKET && flags.intersects(ends)
        })
    }

    /// Looks `times` times whether something has come. A fault is something, but for that of a side that has ended: the
    /// socket tells of it.
    fn look(&self, times: usize) -> bool {
        if self.rest.try_lock().is_ok_and(|rest| !rest.is_empty()) {
            return true;
        }
        (0..times).any(|_| {
            let mut port = self.port();
            port.has_arrived() || port.progress().is_err() && !self.has_socket_ended() || port.has_arrived()
        })
    }
}

impl Medium for Stream {
    fn name(&self) -> &'static str {
        "UCX"
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut port = self.port();
        let mut written = 0;
        while written < bytes.len() {
            if !port.has_room() {
                port.progress()?;
            }
            match port.send(&bytes[written..])? {
                0 => break,
                sent => written += sent,
            }
        }
        Ok(written)
    }

    fn push(&self) -> io::Result<()> {
        let mut port = self.port();
        let begun = Instant::now();
        while port.is_busy() && begun.elapsed() < SHORTLY {
            port.progress()?;
        }
        if !port.is_settled() {
            drop(port);
            self.rouse_pump();
        }
        Ok(())
    }

    fn wait_for_room(&self, patience: Duration) -> io::Result<bool> {
        let begun = Instant::now();
        loop {
            let mut port = self.port();
            port.writer.wakes_up();
            let went_on = port.progress()?;
            if port.has_room() {
                return Ok(true);
            }
            let waited = begun.elapsed();
            if waited >= patience || self.is_over() {
                return Ok(false);
            }
            if went_on || waited < SOON || !port.arm()? {
                continue;
            }
            port.writer.falls_asleep();
            let is_busy = port.is_busy();
            drop(port);
            let fds = [&self.shared.events, &self.shared.room].map(|fd| PollFd::new(fd, PollFlags::IN));
            let most = if is_busy { SHORTLY } else { patience - waited };
            // An interrupted wait is as good as one that is over.
            let _ = poll(&mut { fds }, Some(&timespec(most)));
        }
    }

    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        let mut rest = self.rest();
        let mut read = rest.take(into);
        if read == into.len() {
            return Ok(read);
        }
        let went_on = self.port().progress();
        let port = &self.shared.port;
        // What was announced before the other side's end may still come.
        let is_over = |waited| self.is_over() || waited > FAREWELL && self.has_socket_ended();
        read += port::read(port, &mut into[read..], is_over)?;
        let next = self.port().next_len();
        if let Some(len) = next.filter(|_| read < into.len()) {
            // It is longer than what is left.
            rest.bytes.resize(len.min(MESSAGE), 0);
            rest.from = len;
            let got = port::read(port, &mut rest.bytes, is_over)?;
            rest.bytes.truncate(got);
            rest.from = 0;
            read += rest.take(&mut into[read..]);
        }
        if read == 0 {
            // UCX tells of the other side's end as of a failure. The socket tells which it is.
            let ends_by = Instant::now() + LAST;
            while went_on.is_err() && !self.has_socket_ended() {
                if Instant::now() > ends_by {
                    return went_on.map(|_| 0);
                }
                thread::sleep(NAP);
            }
        }
        if !self.port().is_settled() {
            self.rouse_pump();
        }
        Ok(read)
    }

    fn has_more(&self) -> bool {
        self.look(1)
    }

    fn has_more_in_a_moment(&self) -> bool {
        self.look(LOOKS)
    }

    fn has_more_at_the_end(&self) -> bool {
        let begun = Instant::now();
        while begun.elapsed() <= LAST {
            if self.look(LOOKS) {
                return true;
            }
            if self.shared.nap(NAP).is_err() {
                thread::sleep(NAP);
            }
        }
        false
    }

    fn ask_to_be_woken(&self) -> bool {
        self.port().reader.wakes_up();
        loop {
            if self.look(1) {
                return true;
            }
            let mut port = self.port();
            // Another thread may have taken the event since this one has looked, and woken nobody.
            if port.has_arrived() {
                return true;
            }
            match port.tell_all().and_then(|()| port.arm()) {
                Ok(true) => {
                    port.reader.falls_asleep();
                    return false;
                }
                Ok(false) => {}
                Err(_) => return !self.has_socket_ended(),
            }
        }
    }

    fn await_waking(&self, patience: Duration) -> Result<usize, Errno> {
        // The library's events are there until it is armed again, and so tell nothing to who only looks.
        let is_ready =
            patience.is_zero() || poll(&mut [PollFd::new(&self.watch, PollFlags::IN)], Some(&timespec(patience)))? > 0;
        match is_ready && self.has_socket_ended() {
            true => Ok(0),
            false if patience.is_zero() || !is_ready => Err(Errno::AGAIN),
            false => Ok(1),
        }
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }

    fn taken(&self) -> u64 {
        self.port().acknowledged()
    }

    fn end(&self) {
        self.shared.over.store(true, Ordering::SeqCst);
    }

    fn is_over(&self) -> bool {
        self.shared.over.load(Ordering::SeqCst)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.is_over() {
            self.port().finish(FAREWELL);
        }
        self.end();
        if let Some(pump) = self.pump.take() {
            pump.thread().unpark();
            // It has not panicked, or it would not matter.
            let _ = pump.join();
        }
    }
}

//! One connected stream.

use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, sendmsg, shutdown};
use socket2::Socket;

use crate::encrypted::{Now, Records};
use crate::inherited::Kept;
use crate::kernel;
use crate::machine;
use crate::patience::{is_ready, timespec};
use crate::shared::Sharing;
use crate::tls::{Accepting, Client, Fill, Lease, Secrets};
use crate::vsock::{self, Kind};

/// How long a thread waits on a link before it checks whether the other machine still answers and whether the wait is
/// still wanted.
pub const GLANCE: Duration = Duration::from_secs(2);

/// Waking a thread that sleeps in the kernel costs some 7 us on each end of a round trip, so a reader first polls for
/// bytes for this long: longer than a small command takes on a GPU, and short enough that nobody notices the work. It
/// polls only if at least two of its last eight waits were short.
const SPIN: Duration = Duration::from_micros(50);

/// The same where bytes come through memory, which is looked at without a system call, and there are [`CORES_TO_SPARE`]: as
/// long as an empty kernel takes on PoCL, whose end a reader would mostly sleep through.
const LONG_SPIN: Duration = Duration::from_micros(200);

/// Fewest cores for polling: with one core, a thread that polls takes the time of the thread that it waits for.
const CORES_TO_SPIN: u32 = 2;

/// Fewest cores of which two, one at either end, may poll for so long.
const CORES_TO_SPARE: u32 = 8;

/// A connected stream socket. Reading and writing are independent; several threads may share it, at most one reading
/// and at most one writing at a time.
///
/// For TCP, the link decides whether the *other machine* is there: it is gone when it has answered nothing for
/// `machine::GONE_AFTER`. A machine that still answers is there, even if it only answers "no room" because its program does
/// not read. Whether that *program* is alive is decided by callers, who know what it owes them.
#[derive(Debug)]
pub struct Link {
    /// The listing of a link that this process has made; dropped before the descriptor.
    _kept: Option<Kept>,
    /// What its bytes go through, if they do not go through the socket; dropped before that, too, as a server may give
    /// its memory to others then.
    pub(crate) sharing: Sharing,
    pub(crate) fd: OwnedFd,
    /// How its bytes are encrypted, if they are.
    records: Option<Box<Records>>,
    /// What the socket is.
    pub(crate) kind: Kind,
    /// When the other machine was first seen to leave something unanswered.
    pub(crate) suspected: Mutex<Option<Instant>>,
    pub(crate) spins: bool,
    /// Whether there are cores that nobody misses while a reader polls.
    spares_cores: bool,
    /// Whether the last waits for bytes were short: one bit each, the latest in the lowest bit.
    waits: AtomicU8,
    /// Bytes sent and received, as [`Link::traffic`] returns them.
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
}

/// Something that bytes can be written to whole: a link, or a test's stand-in.
pub trait Sender {
    /// Writes all of `parts`, in order.
    ///
    /// # Errors
    /// The socket's error; the link cannot be used any more.
    fn send_all(&self, parts: &mut [IoSlice<'_>]) -> io::Result<()>;
}

impl Link {
    /// Takes over a socket that is connected already.
    ///
    /// # Errors
    /// The error of setting the socket's options.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        Self::from_socket(Socket::from(fd), None)
    }

    /// Takes over the socket of another process's link: the socket has its options already.
    ///
    /// # Errors
    /// The error of asking what the socket is.
    pub fn from_other_process(fd: OwnedFd) -> io::Result<Self> {
        let socket = Socket::from(fd);
        let kind = Kind::of(&socket)?;
        Ok(Self::of(socket, kind, None))
    }

    /// Encrypts all that is sent and received from now on, with what a handshake on this link has given.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidData`] for secrets that do not fit their cipher.
    pub fn encrypt(self, secrets: Secrets) -> io::Result<Self> {
        Ok(Self { records: Some(Records::new(secrets)?), ..self })
    }

    /// The same link, encrypted, where this end has shown a lease: the other end may refuse that yet.
    pub(crate) fn with_lease(self, lease: &Lease) -> Self {
        if let Some(records) = &self.records {
            records.opener().lease = Some(lease.validity());
        }
        self
    }

    /// Whether what goes over it is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.records.is_some()
    }

    /// Goes on with a client's handshake, without waiting; `None` when more has to come. Encrypts the link when the
    /// handshake is over, and returns who the client is.
    ///
    /// # Errors
    /// As [`Accepting::advance`].
    pub fn advance(&mut self, accepting: &mut Option<Box<Accepting>>) -> io::Result<Option<Client>> {
        let Some(handshake) = accepting else { return Ok(None) };
        match handshake.advance(&mut Now(self)) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        }
        let Some(handshake) = accepting.take() else { return Ok(None) };
        let (client, secrets) = handshake.finish()?;
        self.records = Some(Records::new(secrets)?);
        Ok(Some(client))
    }

    /// How another process can go on with the encryption of the socket, where there is one. Nothing may be half sent.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidData`] when the other end has sent what nobody has asked for yet.
    pub fn secrets(&self) -> io::Result<Option<Secrets>> {
        self.records.as_ref().map(|records| records.secrets()).transpose()
    }

    /// The first byte that has come, which stays where it is; `None` at the end.
    ///
    /// # Errors
    /// The socket's error; [`ErrorKind::WouldBlock`] if there is none.
    pub fn peek(&self) -> io::Result<Option<u8>> {
        let mut byte = [0];
        let there = self.ask(&mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT)?;
        Ok((there > 0).then_some(byte[0]))
    }

    pub(crate) fn from_socket(socket: Socket, kept: Option<Kept>) -> io::Result<Self> {
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(GLANCE))?;
        socket.set_write_timeout(Some(GLANCE))?;
        let kind = Kind::of(&socket)?;
        if kind == Kind::Tcp {
            socket.set_tcp_nodelay(true)?;
            socket.set_tcp_keepalive(&machine::keepalive())?;
        }
        if kind == Kind::Vsock {
            kernel::set_vsock_buffer(socket.as_fd(), vsock::BUFFER)?;
        }
        Ok(Self::of(socket, kind, kept))
    }

    fn of(socket: Socket, kind: Kind, kept: Option<Kept>) -> Self {
        let cores = rustix::thread::sched_getaffinity(None).map_or(1, |cores| cores.count());
        Self {
            _kept: kept,
            fd: socket.into(),
            records: None,
            sharing: Sharing::default(),
            kind,
            suspected: Mutex::default(),
            spins: cores >= CORES_TO_SPIN,
            spares_cores: cores >= CORES_TO_SPARE,
            waits: AtomicU8::new(0),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
        }
    }

    /// Fills `into` before `deadline`, however slowly the bytes arrive.
    ///
    /// # Errors
    /// As [`Link::recv_exact`]; [`ErrorKind::TimedOut`] when they did not come in time.
    pub fn recv_exact_by(&self, mut into: &mut [u8], deadline: Instant) -> io::Result<()> {
        while !into.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || !self.wait_readable(Some(left))? {
                return Err(ErrorKind::TimedOut.into());
            }
            match self.try_recv(into) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => into = &mut into[n..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits for bytes and reads some into `into`; 0 means that the peer has closed.
    ///
    /// # Errors
    /// The socket's error; [`ErrorKind::TimedOut`] when the other machine is gone.
    pub fn recv(&self, into: &mut [u8]) -> io::Result<usize> {
        self.recv_or_rest(into, &|| ())
    }

    /// As [`Link::recv`]; calls `rest` each time before this thread sleeps, as what it waits for has not come soon.
    ///
    /// # Errors
    /// As [`Link::recv`].
    pub fn recv_or_rest(&self, into: &mut [u8], rest: &dyn Fn()) -> io::Result<usize> {
        loop {
            match self.recv_soon_or_rest(into, rest) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.check_machine()?,
                got => return got,
            }
        }
    }

    /// As [`Link::recv`], but comes back with [`ErrorKind::WouldBlock`] when nothing has come for a [`GLANCE`].
    ///
    /// # Errors
    /// As [`Link::recv`], without looking whether the other machine is gone.
    pub fn recv_for_a_glance(&self, into: &mut [u8]) -> io::Result<usize> {
        self.recv_soon_or_rest(into, &|| ())
    }

    fn recv_soon_or_rest(&self, into: &mut [u8], rest: &dyn Fn()) -> io::Result<usize> {
        if !self.spins {
            rest();
            return self.recv_with(into, RecvFlags::empty());
        }
        match self.try_recv_cheaply(into) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            got => return got,
        }
        let begun = Instant::now();
        let waits = self.waits.load(Ordering::Relaxed);
        let patience = if self.spares_cores && self.sharing.medium.is_some() { LONG_SPIN } else { SPIN };
        let note = |was_short: bool| self.waits.store(waits << 1 | u8::from(was_short), Ordering::Relaxed);
        while waits.count_ones() > 1 && begun.elapsed() < patience {
            std::thread::yield_now();
            match self.try_recv_cheaply(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                got => {
                    note(true);
                    return got;
                }
            }
        }
        rest();
        let got = self.recv_with(into, RecvFlags::empty());
        // Somewhat later would have been soon enough for polling next time.
        note(begun.elapsed() < patience * 3 / 2);
        got
    }

    /// Reads available bytes without waiting; [`ErrorKind::WouldBlock`] if there are none.
    ///
    /// # Errors
    /// The socket's error.
    pub fn try_recv(&self, into: &mut [u8]) -> io::Result<usize> {
        self.recv_with(into, RecvFlags::DONTWAIT)
    }

    /// As [`Link::try_recv`], for a thread that looks again and again, or waits next: where bytes go through shared
    /// memory, this makes no system call, and so does not notice that the other side has closed.
    ///
    /// # Errors
    /// As [`Link::try_recv`].
    pub fn try_recv_cheaply(&self, into: &mut [u8]) -> io::Result<usize> {
        match &self.sharing.medium {
            Some(medium) if !medium.has_more_in_a_moment() => Err(ErrorKind::WouldBlock.into()),
            _ => self.try_recv(into),
        }
    }

    /// Reads until `into` is full, or nothing has come for a [`GLANCE`]; returns how much, and 0 where the peer has closed.
    ///
    /// # Errors
    /// The socket's error; [`ErrorKind::WouldBlock`] if nothing has come.
    pub(crate) fn recv_whole(&self, into: &mut [u8]) -> io::Result<usize> {
        let most = into.len().min(self.kind.most_at_once());
        self.recv_with(&mut into[..most], RecvFlags::WAITALL)
    }

    fn recv_with(&self, into: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
        if let Some(medium) = &self.sharing.medium {
            return self.recv_shared(&**medium, into, flags);
        }
        match &self.records {
            None => self.receive(into, flags),
            // There may be fewer bytes than there is room for records.
            Some(records) if !flags.contains(RecvFlags::WAITALL) => {
                records.opener().read(into, |room| self.receive(room, flags))
            }
            Some(records) => records.opener().read_whole(into, |room, fill| match fill {
                Fill::All => self.receive(room, flags),
                Fill::Some => self.receive(room, flags - RecvFlags::WAITALL),
            }),
        }
    }

    /// Whether bytes can be read although the socket has none: they were decrypted with others before, or do not go
    /// through it.
    pub fn has_more(&self) -> bool {
        match &self.sharing.medium {
            Some(medium) => medium.has_more(),
            None => self.records.as_ref().is_some_and(|records| records.has_more()),
        }
    }

    /// Whether a thread that waits for several links may look whether this one [has more](Link::has_more) instead of
    /// sleeping: its bytes come through memory, and there are cores to spare.
    pub fn may_be_watched(&self) -> bool {
        self.spares_cores && self.shares_memory()
    }

    /// To be called before each time that the link's descriptor is polled for something to read: from now on it becomes
    /// readable when bytes come. Returns whether there are some already.
    pub fn is_readable_or_will_tell(&self) -> bool {
        match &self.sharing.medium {
            Some(medium) => medium.ask_to_be_woken(),
            None => self.has_more(),
        }
    }

    fn receive(&self, into: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
        let n = self.ask(into, flags)?;
        self.received.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }

    fn ask(&self, into: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
        loop {
            match recv(&self.fd, &mut *into, flags) {
                Ok((n, _)) => return Ok(n),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Fills `into`, however long the peer takes.
    ///
    /// # Errors
    /// The socket's error; [`ErrorKind::UnexpectedEof`] when the peer closed before it was full;
    /// [`ErrorKind::TimedOut`] when the other machine is gone.
    pub fn recv_exact(&self, into: &mut [u8]) -> io::Result<()> {
        self.recv_exact_while(into, || self.check_machine())
    }

    /// Fills `into`; asks `goes_on` whenever nothing has come for a [`GLANCE`].
    ///
    /// # Errors
    /// The error of the socket or of `goes_on`; [`ErrorKind::UnexpectedEof`] when the peer closed before it was full.
    pub fn recv_exact_while<E: From<io::Error>>(
        &self,
        mut into: &mut [u8],
        mut goes_on: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        while !into.is_empty() {
            // MSG_WAITALL saves wake-ups on large pieces; it may still return early.
            match self.recv_whole(into) {
                Ok(0) => return Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
                Ok(n) => into = &mut into[n..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => goes_on()?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Sends all of `parts`, in order; asks `goes_on` whenever the socket has taken nothing for a [`GLANCE`]. `parts` is
    /// then what was not sent.
    ///
    /// # Errors
    /// The error of the socket, after which the link cannot be used any more, or of `goes_on`, after which what is left
    /// of `parts` has to be sent first of all.
    pub fn send_all_while(
        &self,
        parts: &mut &mut [IoSlice<'_>],
        mut goes_on: impl FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        let mut send = |parts: &[IoSlice<'_>], flags| loop {
            let sent = match &self.sharing.medium {
                Some(medium) => self.send_shared(&**medium, parts, true),
                None => self.send(parts, flags),
            };
            match sent {
                Err(error) if error.kind() == ErrorKind::WouldBlock => goes_on()?,
                sent => return sent,
            }
        };
        // A medium carries what is encrypted where it encrypts it.
        if let (Some(records), None) = (&self.records, &self.sharing.medium) {
            // Without MSG_MORE, each batch of records would end with a small segment.
            let flags = |goes_on| if goes_on { SendFlags::MORE } else { SendFlags::empty() };
            return records.sealer().send_all(parts, |bytes, goes_on| send(&[IoSlice::new(bytes)], flags(goes_on)));
        }
        // Removes empty parts as well.
        IoSlice::advance_slices(parts, 0);
        while !parts.is_empty() {
            let sent = send(parts, SendFlags::empty())?;
            IoSlice::advance_slices(parts, sent);
        }
        Ok(())
    }

    /// Gives the socket some bytes; [`ErrorKind::WouldBlock`] if it takes none.
    fn send(&self, parts: &[IoSlice<'_>], flags: SendFlags) -> io::Result<usize> {
        loop {
            match sendmsg(&self.fd, parts, &mut SendAncillaryBuffer::default(), flags | SendFlags::NOSIGNAL) {
                Ok(n) => {
                    self.sent.fetch_add(n as u64, Ordering::Relaxed);
                    return Ok(n);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends as much of `bytes` as it can without waiting; returns how many bytes that was.
    ///
    /// # Errors
    /// The socket's error; the link cannot be used any more.
    pub fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        let send = |bytes: &[u8]| self.send(&[IoSlice::new(bytes)], SendFlags::DONTWAIT);
        let sent = match (&self.sharing.medium, &self.records) {
            (Some(medium), _) => self.send_shared(&**medium, &[IoSlice::new(bytes)], false),
            (None, None) => send(bytes),
            (None, Some(records)) => records.sealer().try_send(bytes, send),
        };
        match sent {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            sent => sent,
        }
    }

    /// Waits for bytes, the end of the stream or an error, and returns whether any came within `timeout`; `None` waits
    /// for ever. For the thread that reads.
    ///
    /// # Errors
    /// The error of poll.
    pub fn wait_readable(&self, timeout: Option<Duration>) -> io::Result<bool> {
        self.wait_for(timeout, || self.was_woken_for_nothing())
    }

    /// As [`Link::wait_readable`], for a thread that does not read while another may: what wakes that one is left for it.
    /// So there may be nothing to read although this says that something came.
    ///
    /// # Errors
    /// As [`Link::wait_readable`].
    pub fn wait_for_sign(&self, timeout: Option<Duration>) -> io::Result<bool> {
        self.wait_for(timeout, || Ok(false))
    }

    fn wait_for(&self, timeout: Option<Duration>, was_nothing: impl Fn() -> io::Result<bool>) -> io::Result<bool> {
        if self.has_more() {
            return Ok(true);
        }
        let deadline = timeout.map(|t| Instant::now() + t);
        loop {
            if self.is_readable_or_will_tell() {
                return Ok(true);
            }
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            let left = left.map(timespec);
            match poll(&mut [PollFd::new(self, PollFlags::IN)], left.as_ref()) {
                Ok(n) if n > 0 && self.sharing.medium.is_some() && was_nothing()? => {}
                Ok(n) => return Ok(n > 0),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether the other end has closed or broken the link, or this end has ended it; does not wait. Bytes that came
    /// before may still be unread.
    pub fn has_ended(&self) -> bool {
        is_ready(self.fd.as_fd(), PollFlags::RDHUP, Duration::ZERO)
    }

    /// Ends both directions: all reading and writing on this link stops, at both ends.
    pub fn shutdown(&self) {
        if let Some(medium) = &self.sharing.medium {
            medium.end();
        }
        // The peer may have closed it already, which is just as good.
        let _ = shutdown(&self.fd, Shutdown::Both);
    }

    /// Ends this direction: the other end reads what was sent, and then the end.
    pub fn end_sending(&self) {
        if let Some(medium) = &self.sharing.medium {
            // What cannot go is lost with the link.
            let _ = medium.push();
        }
        let _ = shutdown(&self.fd, Shutdown::Write);
    }

    /// The socket itself, to hand it to another process.
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// Bytes sent and bytes received so far.
    pub fn traffic(&self) -> (u64, u64) {
        (self.sent.load(Ordering::Relaxed), self.received.load(Ordering::Relaxed))
    }
}

impl Sender for Link {
    fn send_all(&self, mut parts: &mut [IoSlice<'_>]) -> io::Result<()> {
        self.send_all_while(&mut parts, || self.check_machine())
    }
}

impl AsFd for Link {
    /// To be polled after [`Link::is_readable_or_will_tell`]; until a medium is agreed on, the socket.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.sharing.medium.as_ref().map_or(self.fd.as_fd(), |medium| medium.descriptor())
    }
}

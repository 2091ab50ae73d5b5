//! One connected stream.

use std::io::{self, ErrorKind, IoSlice};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, sendmsg, shutdown};
use socket2::{Domain, SockAddr, Socket, TcpKeepalive, Type};

use crate::Endpoint;

/// Without a sign of life from the peer's machine for about this long, a TCP link counts as broken.
const DEAD_AFTER: Duration = Duration::from_secs(10);

/// Waking a thread that sleeps in the kernel costs some 7 us on each end of a round trip, so a reader first looks for so long
/// whether bytes come: longer than a small command takes on a GPU, and short enough that nobody notices the work. It does so while bytes
/// have come that soon lately: of the last eight times that it had to wait, twice at least.
const SPIN: Duration = Duration::from_micros(50);

/// A reader that slept for so long at the most would have been better off looking.
const SHORT: Duration = Duration::from_micros(75);

/// With one core, a thread that looks takes the time of the one that it is waiting for.
const CORES_TO_SPIN: u32 = 2;

/// A connected stream socket. Reading and writing are independent; several threads may share it, at most one reading
/// and at most one writing at a time.
#[derive(Debug)]
pub struct Link {
    fd: OwnedFd,
    spins: bool,
    /// Whether the last waits for bytes were short: a bit for each, the last one's the lowest.
    waits: AtomicU8,
    /// Bytes that went out and came in, for whoever asks.
    sent: AtomicU64,
    received: AtomicU64,
}

/// Something that bytes can be written to whole: a link, or a test's stand-in.
pub trait Sender {
    /// Writes all of `parts`, in order.
    ///
    /// # Errors
    /// What the socket said; the link is of no more use then.
    fn send_all(&self, parts: &mut [IoSlice<'_>]) -> io::Result<()>;
}

impl Link {
    /// Connects within `timeout`, which bounds all of a host's addresses together.
    ///
    /// # Errors
    /// What the last address tried said; [`ErrorKind::TimedOut`] when none answered in time.
    pub fn connect(endpoint: &Endpoint, timeout: Duration) -> io::Result<Self> {
        let deadline = Instant::now() + timeout;
        match endpoint {
            Endpoint::Unix(path) => {
                let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
                socket.connect_timeout(&SockAddr::unix(path)?, timeout)?;
                Self::from_socket(socket)
            }
            Endpoint::Local => Err(not_an_address()),
            Endpoint::Tcp { host, port } => {
                let mut last = io::Error::new(ErrorKind::NotFound, "the host name has no address");
                for address in (host.as_str(), *port).to_socket_addrs()? {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(ErrorKind::TimedOut.into());
                    }
                    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
                    match socket.connect_timeout(&address.into(), left) {
                        Ok(()) => return Self::from_socket(socket),
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
        }
    }

    /// Takes over a socket that is connected already.
    ///
    /// # Errors
    /// What setting its options said.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        Self::from_socket(Socket::from(fd))
    }

    fn from_socket(socket: Socket) -> io::Result<Self> {
        socket.set_nonblocking(false)?;
        if socket.domain()? != Domain::UNIX {
            socket.set_tcp_nodelay(true)?;
            // A machine or cable that is gone must not leave anybody waiting.
            socket.set_tcp_user_timeout(Some(DEAD_AFTER))?;
            let probe = TcpKeepalive::new().with_time(DEAD_AFTER / 2).with_interval(DEAD_AFTER / 5).with_retries(3);
            socket.set_tcp_keepalive(&probe)?;
        }
        let cores = rustix::thread::sched_getaffinity(None).map_or(1, |cores| cores.count());
        Ok(Self {
            fd: socket.into(),
            spins: cores >= CORES_TO_SPIN,
            waits: AtomicU8::new(0),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
        })
    }

    /// Fills `into` before `deadline`, however the bytes dribble.
    ///
    /// # Errors
    /// As [`Link::recv_exact`]; [`ErrorKind::TimedOut`] when they did not come in time.
    pub fn recv_exact_by(&self, mut into: &mut [u8], deadline: Instant) -> io::Result<()> {
        while !into.is_empty() {
            if !self.wait_readable(Some(deadline.saturating_duration_since(Instant::now())))? {
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

    /// From now on reading waits no longer than `patience` for the next byte, and then fails with [`ErrorKind::WouldBlock`].
    ///
    /// # Errors
    /// What the socket said.
    pub fn set_patience(&self, patience: Duration) -> io::Result<()> {
        socket2::SockRef::from(&self.fd).set_read_timeout(Some(patience))
    }

    /// Waits for bytes and reads some into `into`; 0 means that the peer has closed.
    ///
    /// # Errors
    /// What the socket said.
    pub fn recv(&self, into: &mut [u8]) -> io::Result<usize> {
        if !self.spins {
            return self.recv_with(into, RecvFlags::empty());
        }
        match self.try_recv(into) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            got => return got,
        }
        let begun = Instant::now();
        let waits = self.waits.load(Ordering::Relaxed);
        let note = |was_short: bool| self.waits.store(waits << 1 | u8::from(was_short), Ordering::Relaxed);
        while waits.count_ones() > 1 && begun.elapsed() < SPIN {
            std::thread::yield_now();
            match self.try_recv(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                got => {
                    note(true);
                    return got;
                }
            }
        }
        let got = self.recv_with(into, RecvFlags::empty());
        note(begun.elapsed() < SHORT);
        got
    }

    /// Reads what is there without waiting; [`ErrorKind::WouldBlock`] when nothing is.
    ///
    /// # Errors
    /// What the socket said.
    pub fn try_recv(&self, into: &mut [u8]) -> io::Result<usize> {
        self.recv_with(into, RecvFlags::DONTWAIT)
    }

    fn recv_with(&self, into: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
        loop {
            match recv(&self.fd, &mut *into, flags) {
                Ok((n, _)) => {
                    self.received.fetch_add(n as u64, Ordering::Relaxed);
                    return Ok(n);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Fills `into`.
    ///
    /// # Errors
    /// What the socket said; [`ErrorKind::UnexpectedEof`] when the peer closed before it was full; [`ErrorKind::WouldBlock`]
    /// when nothing came for as long as [`Link::set_patience`] says.
    pub fn recv_exact(&self, mut into: &mut [u8]) -> io::Result<()> {
        while !into.is_empty() {
            // MSG_WAITALL saves wake-ups on large pieces; it may still return early.
            match self.recv_with(into, RecvFlags::WAITALL)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                n => into = &mut into[n..],
            }
        }
        Ok(())
    }

    /// Sends as much of `bytes` as goes without waiting; how much that is.
    ///
    /// # Errors
    /// What the socket said; the link is of no more use then.
    pub fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match sendmsg(&self.fd, &[IoSlice::new(bytes)], &mut SendAncillaryBuffer::default(), flags) {
            Ok(n) => {
                self.sent.fetch_add(n as u64, Ordering::Relaxed);
                Ok(n)
            }
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether bytes (or the end of the stream, or an error) are there within `timeout`; `None` waits for ever.
    ///
    /// # Errors
    /// What poll said.
    pub fn wait_readable(&self, timeout: Option<Duration>) -> io::Result<bool> {
        let deadline = timeout.map(|t| Instant::now() + t);
        loop {
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            let left = left.map(|t| Timespec { tv_sec: t.as_secs() as i64, tv_nsec: i64::from(t.subsec_nanos()) });
            match poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], left.as_ref()) {
                Ok(n) => return Ok(n > 0),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Ends both directions: whoever reads or writes on this link, here or there, stops.
    pub fn shutdown(&self) {
        // It may be closed by the peer already; that is what is wanted.
        let _ = shutdown(&self.fd, Shutdown::Both);
    }

    /// The socket itself, to hand it to another process.
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// Bytes sent and bytes received so far.
    pub fn traffic(&self) -> (u64, u64) {
        (self.sent.load(Ordering::Relaxed), self.received.load(Ordering::Relaxed))
    }

    /// The network address of the peer; none for a process of this machine.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        socket2::SockRef::from(&self.fd).peer_addr().ok()?.as_socket()
    }

    /// The peer's address as a person would write it.
    pub fn peer(&self) -> String {
        match self.peer_address() {
            Some(address) => address.to_string(),
            None => "a local process".to_owned(),
        }
    }
}

/// Whoever uses `local:` starts that server first, and then knows where it listens.
pub(crate) fn not_an_address() -> io::Error {
    io::Error::new(ErrorKind::Unsupported, "local: names a server that is started when it is needed, not an address")
}

impl Sender for Link {
    fn send_all(&self, mut parts: &mut [IoSlice<'_>]) -> io::Result<()> {
        while !parts.is_empty() {
            match sendmsg(&self.fd, parts, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL) {
                Ok(n) => {
                    self.sent.fetch_add(n as u64, Ordering::Relaxed);
                    IoSlice::advance_slices(&mut parts, n);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            while parts.first().is_some_and(|p| p.is_empty()) {
                parts = &mut parts[1..];
            }
        }
        Ok(())
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

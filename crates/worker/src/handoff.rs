//! Messages between daemon and worker, and the passing of connections.
//!
//! The control socket preserves message boundaries (SOCK_SEQPACKET). The worker says that it is warm, and which name
//! its session will have; the daemon then gives it its client's connection. While the session lasts, the daemon passes
//! on connections from peers, and connects the worker to other servers: a worker has no network of its own.

pub mod turns;

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ropeway_protocol::decode;
use ropeway_protocol::handshake::{Hello, Purpose};
use ropeway_protocol::ids::SessionId;
use ropeway_transport::tls::Secrets;
use ropeway_transport::{Link, SharedFiles, Side};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use crate::base::allowance::Allowance;
pub use crate::base::allowance::DeviceSelector;
use crate::base::drivers;
pub use crate::base::drivers::DriverFact;

/// Longest message: a hello with a few addresses, or what is known of a machine's drivers.
const MAX_MESSAGE: usize = 16 << 10;

/// Most addresses of one peer.
pub const MAX_ADDRESSES: usize = 8;

/// Most bytes of one.
pub const MAX_ADDRESS: usize = 256;

/// Most connections that the daemon makes for one worker at the same time.
pub const MAX_DIALS: usize = 8;

/// Most sessions of one client that have a share of its limits.
pub const SHARES: usize = 1024;

/// The numbers of each share: bytes of buffers, and objects.
pub const SHARED_RESOURCES: usize = 2;

/// Devices whose use is counted: the first so many of a machine, in the order in which the server lists them.
pub const METERED_DEVICES: usize = 64;

/// Most files that go with a connection.
const MAX_FILES: usize = 4;

/// Most descriptors in a message: a connection, what it shares, and files.
const MAX_FDS: usize = 1 + SharedFiles::COUNT + MAX_FILES;

/// Most streams that one session has open at the same time, or is opening.
pub const MAX_FEEDS: usize = 64;

/// Files that a session gets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Files<'a> {
    /// See [`Served::share`].
    pub share: Option<(BorrowedFd<'a>, u32)>,
    /// See [`Served::usage`].
    pub usage: Option<BorrowedFd<'a>>,
    /// See [`Served::turns`].
    pub turns: Option<BorrowedFd<'a>>,
}

/// A session that the daemon gives to the worker.
#[derive(Debug)]
pub struct Served {
    /// The client's hello.
    pub hello: Hello,
    /// What the session may use.
    pub allowance: Allowance,
    /// Its share of what all sessions of the client may use together: the file with all shares, and its place there.
    /// The file has [`SHARES`] times [`SHARED_RESOURCES`] numbers of 64 bits, in this machine's order.
    pub share: Option<(OwnedFd, u32)>,
    /// Where it writes how long its commands have kept each device busy: a file of [`METERED_DEVICES`] numbers of
    /// nanoseconds, with 64 bits each, in this machine's order.
    pub usage: Option<OwnedFd>,
    /// Where it hears whose turn it is ([`turns`]), if it shares devices by weight.
    pub turns: Option<OwnedFd>,
}

/// What a session has taken, as its worker says at its end.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Account {
    /// The names of the devices that it saw.
    pub devices: Vec<String>,
    /// Bytes to the client, ...
    pub sent: u64,
    /// ... and from it.
    pub received: u64,
    /// The most bytes of buffers, images and pipes that it had at one time.
    pub peak_memory: u64,
}

/// A message of the worker's.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ToDaemon {
    /// The worker is warm; its session will have this name.
    Ready(SessionId),
    /// The worker, still warming up, begins this native call, given with its purpose.
    Step(String),
    /// The probing process begins with this driver.
    Probing(String),
    /// Whether the driver named last reads the bytes of a write when the write is carried out.
    Probed(bool),
    /// The worker wants a connection to a peer, at the first of these addresses that works.
    Dial {
        /// The worker's name for this request.
        ticket: u64,
        /// URLs.
        addresses: Vec<String>,
        /// The private key to show where connections are encrypted.
        seed: [u8; 32],
        /// The purpose of the connection.
        purpose: Purpose,
        /// Whether it may go through memory that both ends share.
        shares_memory: bool,
    },
    /// The session ends, and has taken this.
    Account(Account),
    /// The session is about to end over a limit of its client's: one sentence that says which.
    Limit(String),
    /// The worker, still warming up, has this device: its number, and what it says of itself, as JSON
    /// (`ropeway_lease::property::Properties`).
    Device(u32, String),
    /// The worker, still warming up, has this device, of this number, which is a stream of this name.
    Source(u32, String),
    /// The worker wants to read a stream.
    Feed {
        /// The worker's name for this request.
        ticket: u64,
        /// The stream's name.
        stream: String,
    },
    /// Whether the machine can do what its custom devices were declared to do; one sentence if not.
    Proved(Result<(), String>),
}

/// A message of either side.
pub trait Message {
    /// Whether the first file that comes with it is a connection.
    fn has_link(&self) -> bool {
        true
    }
}

impl Message for ToDaemon {}

impl Message for ToWorker {
    fn has_link(&self) -> bool {
        !matches!(self, Self::Fed { .. })
    }
}

/// A message of the daemon's.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ToWorker {
    /// The facts that are known of the machine's drivers from now on.
    Drivers(Vec<DriverFact>),
    /// The session has to end, for this reason: one sentence for a person.
    End(String),
    /// The client's connection, from which this hello has been read, what its session may use, the place of its share,
    /// and whether its use of devices is counted and whether it takes turns. The files of these come with the
    /// connection, in this order.
    Serve(Hello, Allowance, Option<u32>, [bool; 2]),
    /// The connection of a pending peer, from which this hello has been read.
    Peer(Hello),
    /// The outcome of a [`ToDaemon::Dial`]: a connection, with the proof in the peer's answer, or one sentence that
    /// says why there is none.
    Dialled {
        /// The worker's name for the request.
        ticket: u64,
        /// The proof in the peer's answer, or the reason for the failure.
        outcome: Result<[u8; 32], String>,
    },
    /// The outcome of a [`ToDaemon::Feed`]: a file or a socket, which comes with it, or one sentence that says why there
    /// is none.
    Fed {
        /// The worker's name for the request.
        ticket: u64,
        /// The reason for a failure.
        outcome: Result<(), String>,
    },
}

/// The two ends of a control socket.
///
/// # Errors
/// The operating system's error.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends a message, and passes a connection on with it, which the other side goes on with.
///
/// # Errors
/// The socket's error: the other side is gone, or, without `wait`, does not listen; [`ErrorKind::InvalidData`] for an
/// encrypted connection on which more has come than was asked for.
pub fn say<T: Serialize>(control: BorrowedFd<'_>, message: &T, link: Option<&Link>, wait: bool) -> io::Result<()> {
    say_with(control, message, (link, &[]), wait)
}

/// Tells a worker, without waiting, the outcome of its request for a stream, and passes on what was opened.
///
/// # Errors
/// As [`say`].
pub fn say_fed(control: BorrowedFd<'_>, ticket: u64, outcome: Result<BorrowedFd<'_>, String>) -> io::Result<()> {
    let (file, outcome) = match outcome {
        Ok(file) => (Some(file), Ok(())),
        Err(why) => (None, Err(why)),
    };
    say_with(control, &ToWorker::Fed { ticket, outcome }, (None, file.as_slice()), false)
}

/// As [`say`]; up to [`MAX_FILES`] files can go with the connection.
fn say_with<T: Serialize>(
    control: BorrowedFd<'_>,
    message: &T,
    (link, files): (Option<&Link>, &[BorrowedFd<'_>]),
    wait: bool,
) -> io::Result<()> {
    let secrets = link.map(Link::secrets).transpose()?.flatten();
    let (shared, side) = link.and_then(Link::memory).unzip();
    let bytes = postcard::to_stdvec(&(message, secrets, side))
        .map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
    if bytes.len() > MAX_MESSAGE {
        return Err(ErrorKind::InvalidInput.into());
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let fds: Vec<_> =
        link.map(AsFd::as_fd).into_iter().chain(shared.into_iter().flatten()).chain(files.iter().copied()).collect();
    let flags = SendFlags::NOSIGNAL | if wait { SendFlags::empty() } else { SendFlags::DONTWAIT };
    loop {
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        }
        match sendmsg(control, &[IoSlice::new(&bytes)], &mut ancillary, flags) {
            Err(Errno::INTR) => {}
            other => return other.map(drop).map_err(io::Error::from),
        }
    }
}

/// Receives a message from the other side, with the connection passed on with it. `None` if the other side has closed
/// its end.
///
/// # Errors
/// The socket's error: without `wait`, [`ErrorKind::WouldBlock`]; [`ErrorKind::InvalidData`] for bytes that are no
/// message.
pub fn hear<T: DeserializeOwned + Message>(
    control: BorrowedFd<'_>,
    wait: bool,
) -> io::Result<Option<(T, Option<Link>)>> {
    Ok(hear_with(control, wait)?.map(|(message, link, _)| (message, link)))
}

/// A message, and the connection and the files that came with it.
pub type Heard<T> = (T, Option<Link>, VecDeque<OwnedFd>);

/// As [`hear`], with the files that came with the message.
///
/// # Errors
/// As [`hear`].
pub fn hear_with<T: DeserializeOwned + Message>(control: BorrowedFd<'_>, wait: bool) -> io::Result<Option<Heard<T>>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut bytes = [0; MAX_MESSAGE];
    let flags = RecvFlags::CMSG_CLOEXEC | if wait { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
    loop {
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let got = match recvmsg(control, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags) {
            // The other side has ended without reading all that was sent to it: the system reports that once, before
            // the messages that the other side had sent.
            Err(Errno::INTR | Errno::CONNRESET) => continue,
            other => other?.bytes,
        };
        if got == 0 {
            return Ok(None);
        }
        let passed = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        });
        let mut files: VecDeque<_> = passed.flatten().collect();
        let message = bytes.get(..got).and_then(|bytes| decode(bytes).ok());
        let (message, secrets, side): (T, Option<Secrets>, Option<Side>) =
            message.ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "it does not decode"))?;
        let socket = if message.has_link() { files.pop_front() } else { None };
        let memory = side.map(|side| (files.drain(..files.len().min(side.files())).collect::<Vec<_>>(), side));
        let link = socket.map(Link::from_other_process).transpose()?;
        let link = match (link, memory) {
            // One whose memory is of no use is none: the other end writes there.
            (Some(link), Some((files, side))) => link.with_memory(files, side).ok(),
            (link, _) => link,
        };
        let link = match (link, secrets) {
            (Some(link), Some(secrets)) => Some(link.encrypt(secrets)?),
            (link, _) => link,
        };
        return Ok(Some((message, link, files)));
    }
}

/// Waits, on the daemon's side, until the worker has said that it is warm; returns its session's name.
///
/// # Errors
/// As [`hear`]; [`ErrorKind::UnexpectedEof`] when the worker ended instead.
pub fn await_ready(control: BorrowedFd<'_>) -> io::Result<SessionId> {
    loop {
        match hear(control, true)? {
            Some((ToDaemon::Step(_) | ToDaemon::Device(..) | ToDaemon::Source(..), _)) => {}
            Some((ToDaemon::Ready(session), _)) => return Ok(session),
            Some(_) => return Err(ErrorKind::InvalidData.into()),
            None => return Err(ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Gives the client at `link`, from which `hello` has been read, to the worker (on the daemon's side).
///
/// # Errors
/// As [`say`]. The client's connection is still the caller's.
pub fn send(
    control: BorrowedFd<'_>,
    link: &Link,
    (hello, allowance): (&Hello, &Allowance),
    files: Files<'_>,
) -> io::Result<()> {
    let (share, place) = files.share.unzip();
    let optional = [files.usage, files.turns];
    let message = ToWorker::Serve(hello.clone(), allowance.clone(), place, optional.map(|file| file.is_some()));
    let files: Vec<_> = share.into_iter().chain(optional.into_iter().flatten()).collect();
    say_with(control, &message, (Some(link), &files), false)
}

/// Waits, on the worker's side, for the client, and meanwhile takes in the facts about the drivers. `None` if the
/// daemon has closed the control socket.
///
/// # Errors
/// As [`hear`].
pub fn receive(control: BorrowedFd<'_>) -> io::Result<Option<(Link, Served)>> {
    loop {
        match hear_with(control, true)? {
            None => return Ok(None),
            Some((ToWorker::Drivers(facts), _, _)) => drivers::learn(facts),
            Some((ToWorker::Serve(hello, allowance, place, has), Some(link), mut files))
                if files.len() == [place.is_some(), has[0], has[1]].into_iter().filter(|has| *has).count() =>
            {
                let share = place.and_then(|place| Some((files.pop_front()?, place)));
                let [usage, turns] = has.map(|has| has.then(|| files.pop_front()).flatten());
                return Ok(Some((link, Served { hello, allowance, share, usage, turns })));
            }
            Some(_) => return Err(io::Error::new(ErrorKind::InvalidData, "the daemon sent no client")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_socket_and_its_hello_arrive() {
        let (daemon, worker) = pair().unwrap();
        let (client, server) = UnixStream::pair().unwrap();
        let server = Link::from_fd(server.into()).unwrap();
        let nothing = hear::<ToDaemon>(daemon.as_fd(), false).unwrap_err();
        assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
        say(worker.as_fd(), &ToDaemon::Ready(SessionId(9)), None, true).unwrap();
        assert_eq!(await_ready(daemon.as_fd()).unwrap(), SessionId(9));
        let hello = Hello {
            features: 0,
            purpose: Purpose::Commands,
            release: "0.1.0".into(),
            program: "test".into(),
            pid: 7,
            credential: vec![],
            devices: Vec::new(),
        };
        let files = Files { share: Some((server.as_fd(), 7)), usage: None, turns: Some(server.as_fd()) };
        send(daemon.as_fd(), &server, (&hello, &Allowance::default()), files).unwrap();
        let (link, served) = receive(worker.as_fd()).unwrap().unwrap();
        assert_eq!((served.hello, served.share.map(|(_, place)| place)), (hello, Some(7)));
        assert!(served.usage.is_none() && served.turns.is_some());
        drop(server);
        let byte = rustix::io::write(&link, b"x").and_then(|_| {
            let mut byte = [0];
            rustix::io::read(&client, &mut byte).map(|_| byte)
        });
        assert_eq!(byte, Ok(*b"x"));
        drop(daemon);
        assert!(receive(worker.as_fd()).unwrap().is_none());
    }

    #[test]
    fn what_nobody_says_is_not_understood() {
        let (daemon, worker) = pair().unwrap();
        rustix::net::send(&worker, b"\x07garbage", SendFlags::empty()).unwrap();
        assert_eq!(await_ready(daemon.as_fd()).unwrap_err().kind(), ErrorKind::InvalidData);
        drop(worker);
        assert_eq!(await_ready(daemon.as_fd()).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }
}

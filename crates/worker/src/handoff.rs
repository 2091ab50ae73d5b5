//! What daemon and worker say to each other, and how connections pass between them.
//!
//! Over the control socket, which keeps the bounds of messages (SOCK_SEQPACKET): the worker says that it is warm, and under which name its session
//! will go; the daemon then gives it its client's connection. While the session lasts, the daemon passes on what others connect to it for, and
//! connects it to other servers: a worker has no network of its own.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use ropeway_protocol::decode;
use ropeway_protocol::handshake::{Hello, Purpose};
use ropeway_protocol::ids::SessionId;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

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

/// What a worker says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ToDaemon {
    /// It is warm; its session will have this name.
    Ready(SessionId),
    /// On its way to being warm it begins this native call, which is named with its purpose.
    Step(String),
    /// This process, which tries drivers, begins with this one.
    Probing(String),
    /// Whether the driver named last takes the bytes of a write when the write is carried out.
    Probed(bool),
    /// It wants to be connected to a peer, at the first of these addresses where that can be.
    Dial {
        /// The worker's name for this.
        ticket: u64,
        /// URLs.
        addresses: Vec<String>,
        /// What the connection is for.
        purpose: Purpose,
    },
}

/// What the daemon says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ToWorker {
    /// This is known of the machine's drivers, from now on.
    Drivers(Vec<DriverFact>),
    /// The session has to end, for this reason: one sentence for a person.
    End(String),
    /// Here is the client's connection, on which this hello has been read.
    Serve(Hello),
    /// Here is a connection of what says to be a peer, on which this hello has been read.
    Peer(Hello),
    /// This is what came of a [`ToDaemon::Dial`]: a connection, with what the peer has proved in its answer, or one sentence that says why not.
    Dialled {
        /// The worker's name for it.
        ticket: u64,
        /// The proof in the peer's answer.
        outcome: Result<[u8; 32], String>,
    },
}

/// The two ends of a control socket.
///
/// # Errors
/// What the system said.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Says something, and passes a socket on with it.
///
/// # Errors
/// What the socket said: the other side is gone, or, without `wait`, does not listen.
pub fn say<T: Serialize>(
    control: BorrowedFd<'_>,
    message: &T,
    socket: Option<BorrowedFd<'_>>,
    wait: bool,
) -> io::Result<()> {
    let bytes = postcard::to_stdvec(message).map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
    if bytes.len() > MAX_MESSAGE {
        return Err(ErrorKind::InvalidInput.into());
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let fds: Vec<_> = socket.into_iter().collect();
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

/// Hears what the other side says, with the socket that it passes on. `None` when it has closed its end.
///
/// # Errors
/// What the socket said: without `wait`, [`ErrorKind::WouldBlock`]; or [`ErrorKind::InvalidData`] for something that is never said.
pub fn hear<T: DeserializeOwned>(control: BorrowedFd<'_>, wait: bool) -> io::Result<Option<(T, Option<OwnedFd>)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut bytes = [0; MAX_MESSAGE];
    let flags = RecvFlags::CMSG_CLOEXEC | if wait { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
    loop {
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let got = match recvmsg(control, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags) {
            Err(Errno::INTR) => continue,
            // The other side has ended with something of ours unread.
            Err(Errno::CONNRESET) => return Ok(None),
            other => other?.bytes,
        };
        if got == 0 {
            return Ok(None);
        }
        let socket = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        let message = bytes.get(..got).and_then(|bytes| decode(bytes).ok());
        let message = message.ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "it does not decode"))?;
        return Ok(Some((message, socket)));
    }
}

/// The daemon's side: waits until the worker has said that it is warm, and gives its session's name.
///
/// # Errors
/// As [`hear`]; [`ErrorKind::UnexpectedEof`] when the worker ended instead.
pub fn await_ready(control: BorrowedFd<'_>) -> io::Result<SessionId> {
    loop {
        match hear(control, true)? {
            Some((ToDaemon::Step(_), _)) => {}
            Some((ToDaemon::Ready(session), _)) => return Ok(session),
            Some(_) => return Err(ErrorKind::InvalidData.into()),
            None => return Err(ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// The daemon's side: gives `socket`, on which `hello` has been read, to the worker.
///
/// # Errors
/// What the control socket said: the worker is gone. The client's socket is still the caller's.
pub fn send(control: BorrowedFd<'_>, socket: BorrowedFd<'_>, hello: &Hello) -> io::Result<()> {
    say(control, &ToWorker::Serve(hello.clone()), Some(socket), false)
}

/// The worker's side: waits for its client, and learns meanwhile what is known of the drivers. `None` when the daemon has closed the control socket.
///
/// # Errors
/// As [`hear`].
pub fn receive(control: BorrowedFd<'_>) -> io::Result<Option<(OwnedFd, Hello)>> {
    loop {
        match hear(control, true)? {
            None => return Ok(None),
            Some((ToWorker::Drivers(facts), _)) => drivers::learn(facts),
            Some((ToWorker::Serve(hello), Some(socket))) => return Ok(Some((socket, hello))),
            Some(_) => return Err(io::Error::new(ErrorKind::InvalidData, "the daemon sent no client")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_socket_and_its_hello_arrive() {
        let (daemon, worker) = pair().unwrap();
        let (client, server) = UnixStream::pair().unwrap();
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
        };
        send(daemon.as_fd(), server.as_fd(), &hello).unwrap();
        let (socket, received) = receive(worker.as_fd()).unwrap().unwrap();
        assert_eq!(received, hello);
        drop(server);
        let byte = rustix::io::write(&socket, b"x").and_then(|_| {
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

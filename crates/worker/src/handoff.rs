//! How the daemon gives a connection to a warm worker.
//!
//! Over the control socket: the worker says with one byte that it is warm; the daemon then sends, once, the client's
//! hello (a little-endian u32 length and that many bytes of postcard) and with its first byte the socket (SCM_RIGHTS).

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use ropeway_protocol::handshake::Hello;
use ropeway_protocol::{decode, limits};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

/// What a worker says when it is warm.
const READY: u8 = b'R';

/// The worker's side: says that it is warm.
///
/// # Errors
/// What the socket said: the daemon is gone.
pub fn say_ready(control: BorrowedFd<'_>) -> io::Result<()> {
    send_all(control, &[READY])
}

/// The daemon's side: waits until the worker has said that it is warm.
///
/// # Errors
/// What the socket said; [`ErrorKind::UnexpectedEof`] when the worker ended instead.
pub fn await_ready(control: BorrowedFd<'_>) -> io::Result<()> {
    let mut byte = [0];
    read_exact(control, &mut byte)?;
    if byte == [READY] { Ok(()) } else { Err(ErrorKind::InvalidData.into()) }
}

/// The daemon's side: gives `socket`, on which `hello` has been read, to the worker.
///
/// # Errors
/// What the control socket said: the worker is gone. The client's socket is still the caller's.
pub fn send(control: BorrowedFd<'_>, socket: BorrowedFd<'_>, hello: &Hello) -> io::Result<()> {
    let body = postcard::to_stdvec(hello).map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
    let mut message = (body.len() as u32).to_le_bytes().to_vec();
    message.extend_from_slice(&body);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds = [socket];
    ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    let sent = loop {
        match sendmsg(control, &[IoSlice::new(&message)], &mut ancillary, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            other => break other?,
        }
    };
    send_all(control, &message[sent..])
}

/// The worker's side: waits for a connection. `None` when the daemon has closed the control socket.
///
/// # Errors
/// What the socket said, or [`ErrorKind::InvalidData`] for something that no daemon sends.
pub fn receive(control: BorrowedFd<'_>) -> io::Result<Option<(OwnedFd, Hello)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut head = [0; 4];
    let got = loop {
        let flags = RecvFlags::CMSG_CLOEXEC;
        match recvmsg(control, &mut [IoSliceMut::new(&mut head)], &mut ancillary, flags) {
            Err(Errno::INTR) => {}
            other => break other?.bytes,
        }
    };
    if got == 0 {
        return Ok(None);
    }
    let invalid = |why: &'static str| io::Error::new(ErrorKind::InvalidData, why);
    let socket = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    let socket = socket.ok_or_else(|| invalid("the daemon sent no socket"))?;
    read_exact(control, &mut head[got..])?;
    let len = u32::from_le_bytes(head) as usize;
    if len > limits::MAX_HELLO {
        return Err(invalid("the daemon sent too long a hello"));
    }
    let mut body = vec![0; len];
    read_exact(control, &mut body)?;
    let hello = decode(&body).map_err(|_| invalid("the daemon sent a hello that does not decode"))?;
    Ok(Some((socket, hello)))
}

fn send_all(control: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::net::send(control, bytes, SendFlags::NOSIGNAL) {
            Ok(n) => bytes = &bytes[n..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn read_exact(control: BorrowedFd<'_>, mut into: &mut [u8]) -> io::Result<()> {
    while !into.is_empty() {
        match rustix::io::read(control, &mut *into) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => into = &mut into[n..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use ropeway_protocol::handshake::Purpose;

    use super::*;

    #[test]
    fn a_socket_and_its_hello_arrive() {
        let (daemon, worker) = UnixStream::pair().unwrap();
        let (client, server) = UnixStream::pair().unwrap();
        say_ready(worker.as_fd()).unwrap();
        await_ready(daemon.as_fd()).unwrap();
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
}

//! Memory to share for links that pass no files: those over a loopback address.
//!
//! A server has a Unix datagram socket, whose name only those hear who have connected to it. A client that finds it is
//! on the same machine, and in the same network namespace. It hands in memory there, with what the server has told it,
//! and with the two addresses of its connection as it sees them: where these are not the server's, somebody stands
//! between the two, who is to see their bytes.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, bind, recvmsg, sendmsg_addr, socket_with,
};

use crate::shared::pass;
use crate::shm::{Files, Rings, Room};
use crate::vsock::Kind;
use crate::{Link, Sender as _};

/// The bytes of what a client shows.
pub const TOKEN: usize = 16;

/// How the name of each inbox begins.
const PREFIX: &str = "ropeway-";

/// The longest message: a token, and two addresses.
const LONGEST: usize = 256;

/// Messages that are read before others have their turn: more than the system keeps for a socket.
const MOST_AT_ONCE: usize = 64;

/// Where clients of this machine hand in memory.
#[derive(Debug)]
pub struct Inbox {
    socket: OwnedFd,
    name: String,
}

/// Memory that was handed in.
#[derive(Debug)]
pub struct HandedIn {
    /// What the client has shown.
    pub token: [u8; TOKEN],
    /// The addresses of its connection, as it sees them.
    ends: String,
    memory: Files,
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| io::Error::other("the system gives no random bytes"))?;
    Ok(bytes)
}

/// A connection by its addresses: the client's, and the server's.
fn ends(client: Option<SocketAddr>, server: Option<SocketAddr>) -> Option<String> {
    Some(format!("{} {}", client?, server?))
}

impl Inbox {
    /// Opens one, with a name that nobody can guess.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn open() -> io::Result<Self> {
        let name: String = random::<16>()?.iter().map(|byte| format!("{byte:02x}")).collect();
        Self::named(format!("{PREFIX}{name}"))
    }

    fn named(name: String) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
        Ok(Self { socket, name })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the next client is to show.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn token() -> io::Result<[u8; TOKEN]> {
        random()
    }

    /// Takes what was handed in next, without waiting; passes over what cannot be understood, though not for ever: whoever
    /// is told the name could send without end. What is left there keeps it readable.
    pub fn take(&self) -> Option<HandedIn> {
        for _ in 0..MOST_AT_ONCE {
            let mut bytes = [0; LONGEST];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(Files::COUNT))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
            let got = match recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags) {
                Ok(got) => got.bytes,
                Err(Errno::INTR) => continue,
                Err(_) => return None,
            };
            let memory = ancillary.drain().find_map(|message| match message {
                RecvAncillaryMessage::ScmRights(files) => Files::from_passed(files),
                _ => None,
            });
            let Some((token, ends)) = bytes[..got].split_first_chunk() else { continue };
            let (Some(memory), Ok(ends)) = (memory, std::str::from_utf8(ends)) else { continue };
            return Some(HandedIn { token: *token, ends: ends.to_owned(), memory });
        }
        None
    }
}

impl AsFd for Inbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Link {
    /// Whether it is in plain text, and from an address to itself, or to another loopback address: the other end may be
    /// on this machine.
    pub fn may_be_nearby(&self) -> bool {
        let ip = |address: Option<SocketAddr>| address.map(|address| address.ip().to_canonical());
        let (Some(own), Some(other)) = (ip(self.own_address()), ip(self.peer_address())) else { return false };
        let is_own = own == other || own.is_loopback() && other.is_loopback();
        self.kind == Kind::Tcp && !self.is_encrypted() && is_own
    }

    fn own_address(&self) -> Option<SocketAddr> {
        socket2::SockRef::from(&self.fd).local_addr().ok()?.as_socket()
    }

    /// Hands in memory for all that comes after the hello at the server's inbox of this name, or says on the link itself,
    /// by a byte, that there is no such inbox here.
    ///
    /// # Errors
    /// The socket's error, of the link.
    pub fn hand_in_memory(&mut self, name: &str, token: &[u8; TOKEN], room: Room) -> io::Result<()> {
        match self.try_hand_in(name, token, room) {
            Ok((rings, files)) => {
                self.offered(rings, files);
                Ok(())
            }
            // Any byte will do.
            Err(_) => self.send_all(&mut [IoSlice::new(&[0])]),
        }
    }

    fn try_hand_in(&self, name: &str, token: &[u8; TOKEN], room: Room) -> io::Result<(Rings, Files)> {
        // Nobody who is connected to chooses what else this process speaks to.
        if !name.starts_with(PREFIX) {
            return Err(ErrorKind::InvalidInput.into());
        }
        let ends = ends(self.own_address(), self.peer_address()).ok_or(ErrorKind::NotConnected)?;
        let (rings, files) = Rings::create(room, self.fd.as_fd())?;
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
        let message = [IoSlice::new(token), IoSlice::new(ends.as_bytes())];
        // An inbox that is full is none.
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        pass(&files, |ancillary| sendmsg_addr(&socket, &address, &message, ancillary, flags))?;
        Ok((rings, files))
    }

    /// Takes memory that was handed in for this link: not where somebody stands between the two ends.
    pub fn accept_memory(&mut self, handed_in: HandedIn) {
        if ends(self.peer_address(), self.own_address()).is_some_and(|ends| ends == handed_in.ends) {
            self.passed(handed_in.memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixDatagram;

    use super::*;

    /// Both ends of a connection.
    fn connected() -> (Link, Link) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap().0;
        (Link::from_fd(near.into()).unwrap(), Link::from_fd(far.into()).unwrap())
    }

    #[test]
    fn a_client_hands_in_memory_for_its_own_connection() {
        let (inbox, token) = (Inbox::open().unwrap(), Inbox::token().unwrap());
        let ((mut client, mut server), (_other_client, mut other)) = (connected(), connected());
        assert!(client.may_be_nearby() && server.may_be_nearby());
        assert!(inbox.take().is_none());
        for (link, is_its_own) in [(&mut other, false), (&mut server, true)] {
            client.hand_in_memory(inbox.name(), &token, Room::ForPeers).unwrap();
            let handed_in = inbox.take().unwrap();
            assert_eq!(handed_in.token, token);
            link.accept_memory(handed_in);
            assert_eq!(link.memory().is_some(), is_its_own);
        }
        let (server, mut welcome) = (server.answer_hello(b"welcome", Room::ForPeers).unwrap(), [0; 7]);
        client.recv_exact(&mut welcome).unwrap();
        assert!(server.shares_memory() && client.take_up_memory().unwrap().shares_memory());
    }

    #[test]
    fn what_others_leave_there_is_passed_over() {
        let inbox = Inbox::open().unwrap();
        let (mut client, server) = connected();
        client.hand_in_memory("ropeway-nobody", &[7; TOKEN], Room::ForPeers).unwrap();
        server.recv_exact(&mut [0]).unwrap();
        // Another program's socket hears nothing.
        let other = Inbox::named(format!("another-{}", std::process::id())).unwrap();
        client.hand_in_memory(other.name(), &[7; TOKEN], Room::ForPeers).unwrap();
        server.recv_exact(&mut [0]).unwrap();
        assert!(other.take().is_none() && client.memory().is_none());
        let stranger = UnixDatagram::unbound().unwrap();
        let address = {
            use std::os::linux::net::SocketAddrExt as _;
            std::os::unix::net::SocketAddr::from_abstract_name(inbox.name()).unwrap()
        };
        for bytes in [&b""[..], b"short", &[0xFF; 1000]] {
            stranger.send_to_addr(bytes, &address).unwrap();
        }
        client.hand_in_memory(inbox.name(), &[7; TOKEN], Room::ForPeers).unwrap();
        assert_eq!(inbox.take().unwrap().token, [7; TOKEN]);
        assert!(inbox.take().is_none());
    }
}

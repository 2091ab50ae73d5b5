//! Addresses among a machine and its virtual machines (AF_VSOCK), which are no network's: vsock(7).

use std::fmt;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;

use socket2::{Domain, SockAddr, SockRef, Socket, Type};

use crate::endpoint::DEFAULT_PORT;

/// Bytes that a link's vsock may hold. The kernel's own choice, 256 KiB, has sender and receiver wait for each other.
pub(crate) const BUFFER: u64 = 1 << 20;

/// A port of a virtual machine, or of the machine that it runs on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct VsockAddress {
    /// Which machine (its context id): [`Self::LOCAL`], [`Self::HOST`], or a guest by the number that its host gave it;
    /// [`Self::ANY`] only when listening.
    pub cid: u32,
    /// Port; 0 only when listening: any free one.
    pub port: u32,
}

impl VsockAddress {
    /// Whichever machine asks (VMADDR_CID_ANY).
    pub const ANY: u32 = libc::VMADDR_CID_ANY;
    /// The machine itself, for its own processes (VMADDR_CID_LOCAL).
    pub const LOCAL: u32 = libc::VMADDR_CID_LOCAL;
    /// To a guest, the machine that it runs on (VMADDR_CID_HOST).
    pub const HOST: u32 = libc::VMADDR_CID_HOST;

    /// Reads `CID:port`, `CID` or `:port`.
    ///
    /// # Errors
    /// The second half of a sentence: what is wrong.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let (cid, port) = match text.split_once(':') {
            Some((cid, port)) => (cid, Some(port)),
            None => (text, None),
        };
        let cid = match cid {
            "" if port.is_some() => Self::ANY,
            cid => number(cid).filter(|cid| *cid != 0).ok_or(
                "a virtual machine is named by its number (CID), as in vsock://3:7590; its host is vsock://2:7590",
            )?,
        };
        let port = match port {
            None => u32::from(DEFAULT_PORT),
            // The last number stands for any port in the kernel, as 0 does here.
            Some(port) => {
                number(port).filter(|port| *port != u32::MAX).ok_or("its port is not a number below 2^32 - 1")?
            }
        };
        Ok(Self { cid, port })
    }

    /// The machine as a person would name it.
    pub(crate) fn machine(self) -> &'static str {
        match self.cid {
            Self::LOCAL => "localhost",
            Self::HOST => "host",
            _ => "guest",
        }
    }

    /// The address for the kernel.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when it stands for several, which nobody can connect to.
    pub(crate) fn to_connect(self) -> io::Result<SockAddr> {
        if self.cid == Self::ANY || self.port == 0 {
            let why = "it does not say which virtual machine, or which port: vsock://2:7590 is a guest's host";
            return Err(io::Error::new(ErrorKind::InvalidInput, why));
        }
        Ok(SockAddr::vsock(self.cid, self.port))
    }

    /// Why a connection there was not made.
    pub(crate) fn explain(self, error: io::Error) -> io::Error {
        let cid = self.cid;
        match (error.raw_os_error(), cid) {
            // Nobody listens: the other machine's kernel resets the connection.
            (Some(libc::ECONNRESET), _) => ErrorKind::ConnectionRefused.into(),
            (Some(libc::ENODEV), Self::LOCAL) => io::Error::new(
                ErrorKind::NotFound,
                "this machine's kernel has no vsock to itself (module vsock_loopback)",
            ),
            (Some(libc::ENODEV), Self::HOST) => {
                io::Error::new(ErrorKind::NotFound, "this machine has no vsock device, and so no host")
            }
            (Some(libc::ENODEV), _) => {
                io::Error::new(ErrorKind::NotFound, format!("this machine has no virtual machine {cid}"))
            }
            _ => error,
        }
    }

    /// The address for the kernel, to listen.
    pub(crate) fn to_listen(self) -> SockAddr {
        SockAddr::vsock(self.cid, if self.port == 0 { libc::VMADDR_PORT_ANY } else { self.port })
    }
}

impl fmt::Display for VsockAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cid {
            Self::ANY => write!(f, "vsock://:{}", self.port),
            cid => write!(f, "vsock://{cid}:{}", self.port),
        }
    }
}

/// A number without a sign.
fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// What carries a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Tcp,
    Unix,
    Vsock,
}

impl Kind {
    /// The kind of a socket.
    pub(crate) fn of(socket: &Socket) -> io::Result<Self> {
        Ok(match socket.domain()? {
            Domain::UNIX => Self::Unix,
            Domain::VSOCK => Self::Vsock,
            _ => Self::Tcp,
        })
    }

    /// The most bytes that one receive call may wait for. A vsock refuses to wait for more than its buffer holds
    /// (ENOMEM), and a piece that fills most of it would keep the sender waiting.
    pub(crate) fn most_at_once(self) -> usize {
        if self == Self::Vsock { BUFFER as usize / 4 } else { usize::MAX }
    }
}

/// A new socket.
///
/// # Errors
/// The kernel's; one that knows no such sockets says so in a sentence.
pub(crate) fn socket() -> io::Result<Socket> {
    Socket::new(Domain::VSOCK, Type::STREAM, None).map_err(|error| match error.raw_os_error() {
        Some(libc::EAFNOSUPPORT) => {
            io::Error::new(ErrorKind::Unsupported, "this machine's kernel has no vsock (module vsock)")
        }
        _ => error,
    })
}

/// The address of the other end of a vsock; `None` for another kind of socket.
pub(crate) fn peer(socket: &impl AsFd) -> Option<VsockAddress> {
    let (cid, port) = SockRef::from(socket).peer_addr().ok()?.as_vsock_address()?;
    Some(VsockAddress { cid, port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_connects_to_several() {
        let address = |cid, port| VsockAddress { cid, port };
        for several in [address(VsockAddress::ANY, 7590), address(3, 0)] {
            assert!(several.to_connect().unwrap_err().to_string().contains("does not say which"));
        }
        assert_eq!(address(3, 9).to_connect().unwrap().as_vsock_address(), Some((3, 9)));
        assert_eq!(address(3, 0).to_listen().as_vsock_address(), Some((3, libc::VMADDR_PORT_ANY)));
    }

    #[test]
    fn kinds_of_sockets_are_told_apart() {
        let of = |domain| Kind::of(&Socket::new(domain, Type::STREAM, None).unwrap()).unwrap();
        assert_eq!((of(Domain::IPV4), of(Domain::UNIX)), (Kind::Tcp, Kind::Unix));
        assert!((Kind::Vsock.most_at_once() as u64) < BUFFER);
    }
}

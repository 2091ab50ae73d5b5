//! Waiting for links.

use std::io;
use std::net::ToSocketAddrs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use socket2::{Domain, SockAddr, Socket, Type};

use crate::{Endpoint, Link, VsockAddress, ucx, vsock};

/// Connections that may wait to be accepted, for bursts of clients; the system's own limit (net.core.somaxconn) may be
/// lower.
const BACKLOG: i32 = 4096;

/// A socket that servers accept links on.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    endpoint: Endpoint,
    /// The Unix socket's file, removed when the listener goes.
    file: Option<PathBuf>,
}

impl Listener {
    /// Listens on `endpoint`; port 0 takes any free one. A Unix socket's file that nobody listens on any more is
    /// replaced.
    ///
    /// # Errors
    /// The socket's error: address in use, no such host, no permission.
    pub fn bind(endpoint: &Endpoint) -> io::Result<Self> {
        match endpoint {
            Endpoint::Unix(path) => {
                let address = SockAddr::unix(path)?;
                let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
                if let Err(error) = socket.bind(&address) {
                    let stale = error.kind() == io::ErrorKind::AddrInUse
                        && Socket::new(Domain::UNIX, Type::STREAM, None)?.connect(&address).is_err();
                    if !stale {
                        return Err(error);
                    }
                    std::fs::remove_file(path)?;
                    socket.bind(&address)?;
                }
                socket.listen(BACKLOG)?;
                Ok(Self { socket, endpoint: endpoint.clone(), file: Some(path.clone()) })
            }
            Endpoint::Vsock(address) => {
                let socket = vsock::socket()?;
                socket.bind(&address.to_listen())?;
                socket.listen(BACKLOG)?;
                Self::from_fd(socket.into())
            }
            Endpoint::Local | Endpoint::Ssh(_) => Err(crate::connect::not_an_address(endpoint)),
            Endpoint::Tls { host, port, .. } | Endpoint::Tcp { host, port } | Endpoint::Ucx { host, port } => {
                if let Endpoint::Ucx { .. } = endpoint {
                    ucx::check()?;
                }
                let address = (host.as_str(), *port)
                    .to_socket_addrs()?
                    .next()
                    .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the host name has no address"))?;
                let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
                socket.set_reuse_address(true)?;
                socket.bind(&address.into())?;
                socket.listen(BACKLOG)?;
                let mut listener = Self::from_fd(socket.into())?;
                if let Endpoint::Tcp { host, port } = &listener.endpoint {
                    let (host, port) = (host.clone(), *port);
                    listener.endpoint = match endpoint {
                        Endpoint::Tls { .. } => Endpoint::Tls { host, port, pass: None },
                        Endpoint::Ucx { .. } => Endpoint::Ucx { host, port },
                        _ => Endpoint::Tcp { host, port },
                    };
                }
                Ok(listener)
            }
        }
    }

    /// Takes over a socket that listens already (systemd's socket activation).
    ///
    /// # Errors
    /// When it has no address that can be understood.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        let socket = Socket::from(fd);
        let address = socket.local_addr()?;
        let endpoint = match (address.as_socket(), address.as_pathname(), address.as_vsock_address()) {
            (Some(a), ..) => Endpoint::Tcp { host: a.ip().to_string(), port: a.port() },
            (_, Some(path), _) => Endpoint::Unix(path.to_owned()),
            (.., Some((cid, port))) => Endpoint::Vsock(VsockAddress { cid, port }),
            _ => {
                return Err(io::Error::new(io::ErrorKind::Unsupported, "neither a TCP nor a Unix socket, nor a vsock"));
            }
        };
        Ok(Self { socket, endpoint, file: None })
    }

    /// Waits for the next link.
    ///
    /// # Errors
    /// The error of accept.
    pub fn accept(&self) -> io::Result<Link> {
        let (socket, _) = self.socket.accept()?;
        Link::from_fd(socket.into())
    }

    /// Returns the endpoint it listens on, with the port that was taken.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // The file may be gone already, which is just as good.
            let _ = std::fs::remove_file(file);
        }
    }
}

//! How a link comes to be: a connection to an endpoint, and the handshake where it is encrypted.

use std::io::{self, ErrorKind};
use std::net::ToSocketAddrs;
use std::time::{Duration, Instant};

use socket2::{Domain, SockAddr, Socket, Type};

use crate::encrypted::Before;
use crate::inherited::Kept;
use crate::tls::{self, Identity, LeaseCertificate, TlsError};
use crate::{Endpoint, Link, Pass, ucx, vsock};

impl Link {
    /// Connects within `timeout`, which bounds all of a host's addresses together.
    ///
    /// # Errors
    /// The error of the last address tried; [`ErrorKind::TimedOut`] when none answered in time.
    pub fn connect(endpoint: &Endpoint, timeout: Duration) -> io::Result<Self> {
        let deadline = Instant::now() + timeout;
        match endpoint {
            Endpoint::Unix(path) => {
                let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
                let kept = Kept::from_children(&socket);
                socket.connect_timeout(&SockAddr::unix(path)?, timeout)?;
                Self::from_socket(socket, Some(kept))
            }
            Endpoint::Vsock(address) => {
                let to = address.to_connect()?;
                let socket = vsock::socket()?;
                let kept = Kept::from_children(&socket);
                socket.connect_timeout(&to, timeout).map_err(|error| address.explain(error))?;
                Self::from_socket(socket, Some(kept))
            }
            Endpoint::Local | Endpoint::Ssh(_) => Err(not_an_address(endpoint)),
            Endpoint::Tls { host, .. } => match endpoint.pass() {
                Some(Pass::Ticket(ticket)) => {
                    Self::connect_showing(endpoint, &ticket.identity, ticket.lease.as_ref(), timeout)
                }
                Some(Pass::Certified(credentials)) => {
                    let link = Self::connect(&Endpoint::Tcp { host: host.clone(), port: endpoint.port() }, timeout)?;
                    let shaken = tls::connect_certified(&mut Before(&link, deadline), credentials, host);
                    link.encrypt(shaken.map_err(TlsError::in_handshake)?)
                }
                _ => Err(TlsError::NoTicket(host.clone()).into()),
            },
            Endpoint::Tcp { host, port } | Endpoint::Ucx { host, port } => {
                if let Endpoint::Ucx { .. } = endpoint {
                    ucx::check()?;
                }
                let mut last = io::Error::new(ErrorKind::NotFound, "the host name has no address");
                for address in (host.as_str(), *port).to_socket_addrs()? {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(ErrorKind::TimedOut.into());
                    }
                    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
                    let kept = Kept::from_children(&socket);
                    match socket.connect_timeout(&address.into(), left) {
                        Ok(()) => return Self::from_socket(socket, Some(kept)),
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
        }
    }

    /// Does the same as somebody whom an encrypted server knows, or will know, by another key than a ticket's.
    ///
    /// # Errors
    /// As [`Link::connect`]; [`ErrorKind::PermissionDenied`] when the server has another key than `endpoint` says, or
    /// `endpoint` says none.
    pub fn connect_as(endpoint: &Endpoint, identity: &Identity, timeout: Duration) -> io::Result<Self> {
        Self::connect_showing(endpoint, identity, None, timeout)
    }

    /// Connects to a server that knows the client by its key, or by its lease where it has one.
    fn connect_showing(
        endpoint: &Endpoint,
        identity: &Identity,
        lease: Option<&LeaseCertificate>,
        timeout: Duration,
    ) -> io::Result<Self> {
        let Endpoint::Tls { host, port, .. } = endpoint else { return Self::connect(endpoint, timeout) };
        let no_key = || io::Error::new(ErrorKind::PermissionDenied, format!("the key of {host} is not known"));
        let server = endpoint.pass().and_then(Pass::server).ok_or_else(no_key)?;
        let deadline = Instant::now() + timeout;
        let link = Self::connect(&Endpoint::Tcp { host: host.clone(), port: *port }, timeout)?;
        let before = &mut Before(&link, deadline);
        let Some(lease) = lease else {
            let shaken = tls::connect(before, identity, server);
            return link.encrypt(shaken.map_err(TlsError::in_handshake)?);
        };
        let shaken = tls::connect_with_lease(before, identity, lease, server);
        Ok(link.encrypt(shaken.map_err(TlsError::in_handshake)?)?.with_lease(lease.lease()))
    }
}

/// The error for connecting to `local:` or `ssh://`; their user has to start that server first, and then knows where it
/// is reached.
pub(crate) fn not_an_address(endpoint: &Endpoint) -> io::Error {
    let text = format!("{endpoint} names a server that is started when it is needed, not an address");
    io::Error::new(ErrorKind::Unsupported, text)
}

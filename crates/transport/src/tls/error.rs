//! Why there is no encrypted connection to a server that can be reached, or whose way is known.

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};

/// Why there is none; in an [`io::Error`], so that it can be told with its advice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TlsError {
    /// This client has no ticket for the host with this name.
    NoTicket(String),
    /// The server has another key than the ticket says.
    WrongServerKey,
    /// One end does not take the other's certificate; why.
    Certificate(String),
    /// The server does not know the client's key.
    ClientKeyRefused,
    /// It takes the connection, and does not answer the handshake in time.
    NoAnswer,
    /// It takes the connection, and closes it in the handshake.
    Closed,
    /// It answers with something that is no TLS 1.3; how.
    Protocol(String),
}

impl TlsError {
    /// The error in an error of the system's kind, if there is one.
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }

    /// Names the meaning of an error in the handshake, where it has one and does not have it yet.
    pub(crate) fn in_handshake(error: io::Error) -> io::Error {
        match error.kind() {
            _ if Self::of(&error).is_some() => error,
            ErrorKind::TimedOut | ErrorKind::WouldBlock => Self::NoAnswer.into(),
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Self::Closed.into(),
            ErrorKind::InvalidData => Self::Protocol(error.to_string()).into(),
            _ => error,
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Self::NoTicket(_) | Self::WrongServerKey | Self::Certificate(_) | Self::ClientKeyRefused => {
                ErrorKind::PermissionDenied
            }
            Self::NoAnswer => ErrorKind::TimedOut,
            Self::Closed => ErrorKind::UnexpectedEof,
            Self::Protocol(_) => ErrorKind::InvalidData,
        }
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTicket(host) => {
                write!(f, "there is no ticket for {host}; get one from who runs it, and give it to `ropeway join`")
            }
            Self::WrongServerKey => f.write_str("it has another key than the ticket says"),
            Self::ClientKeyRefused => {
                f.write_str("it does not let this client's key in: the ticket was revoked, or is for another server")
            }
            Self::NoAnswer => f.write_str("it takes connections and says nothing"),
            Self::Closed => {
                f.write_str("it closes connections that are to be encrypted: it does not encrypt, or is no server")
            }
            Self::Certificate(how) | Self::Protocol(how) => f.write_str(how),
        }
    }
}

impl Error for TlsError {}

impl From<TlsError> for io::Error {
    fn from(error: TlsError) -> Self {
        Self::new(error.kind(), error)
    }
}

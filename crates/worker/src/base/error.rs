//! Why a session ends.

use std::{fmt, io};

use ropeway_protocol::ids::SessionId;
use ropeway_protocol::{DecodeError, TailError};

/// Why a session ended. Whatever it is, it ends this session only.
#[derive(Debug)]
pub enum End {
    /// The client said goodbye.
    Goodbye,
    /// The client closed the connection without a word, or is gone.
    Gone,
    /// The connection broke.
    Broken(io::Error),
    /// The client sent what no client of this version sends.
    Refused(String),
    /// The daemon does not let it go on: one sentence that says why.
    Ended(String),
    /// It takes more than the client's rules allow: one sentence that says so.
    Limit(String),
    /// Another session, which the client has made a peer of this one, did.
    Peer(SessionId, String),
}

impl End {
    /// Ends the session over something that the client sent.
    pub fn refused(why: impl fmt::Display) -> Self {
        Self::Refused(why.to_string())
    }
}

/// A name that the client uses and the session does not know.
pub fn unknown(what: impl std::fmt::Display) -> End {
    End::refused(format_args!("{what} does not exist"))
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Goodbye => write!(f, "the client is done"),
            Self::Gone => write!(f, "the client closed the connection"),
            Self::Broken(error) => write!(f, "the connection broke: {error}"),
            Self::Refused(why) => write!(f, "the client sent what it must not: {why}"),
            Self::Ended(why) | Self::Limit(why) => f.write_str(why),
            Self::Peer(peer, why) => write!(f, "its peer {:016x} sent what it must not: {why}", peer.0),
        }
    }
}

impl From<DecodeError> for End {
    fn from(error: DecodeError) -> Self {
        Self::refused(error)
    }
}

impl From<TailError> for End {
    fn from(_: TailError) -> Self {
        Self::Gone
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Self::Gone,
            _ => Self::Broken(error),
        }
    }
}

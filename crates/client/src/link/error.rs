//! Why there is no connection.

use std::fmt;
use std::io;

use ropeway_protocol::handshake::HandshakeError;

/// Why there is no connection to a server.
#[derive(Debug)]
pub enum OpenError {
    /// Nothing answers there, or not in time.
    Link(io::Error),
    /// The other side answers, but will not or cannot serve.
    Handshake(HandshakeError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(error) if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) => {
                f.write_str("it does not answer in time")
            }
            Self::Link(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                f.write_str("what answers there closed the connection without a word")
            }
            Self::Link(error) => error.fmt(f),
            Self::Handshake(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::Link(error)
    }
}

impl From<HandshakeError> for OpenError {
    fn from(error: HandshakeError) -> Self {
        Self::Handshake(error)
    }
}

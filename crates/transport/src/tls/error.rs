//! Why there is no encrypted connection to a server that can be reached, or whose way is known.

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};
use std::ops::RangeInclusive;
use std::time::SystemTime;

/// Alerts by which a server refuses what a client shows (RFC 8446, section 6.2).
const HANDSHAKE_FAILURE: u8 = 40;
const BAD_CERTIFICATE: u8 = 42;
const CERTIFICATE_REVOKED: u8 = 44;
const CERTIFICATE_EXPIRED: u8 = 45;
const CERTIFICATE_UNKNOWN: u8 = 46;
const UNKNOWN_CA: u8 = 48;
const ACCESS_DENIED: u8 = 49;
const DECRYPT_ERROR: u8 = 51;

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
    /// The client's lease has expired.
    LeaseExpired,
    /// The client's lease is not valid yet.
    LeaseNotYetValid,
    /// The client's lease is not valid by the server's clock, and is by the client's.
    LeaseClocks,
    /// The server does not take the client's lease.
    LeaseRefused,
    /// The server takes no leases at all.
    NoLeases,
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

    /// What a server's alert means by which it refuses the client; `None` for another alert. `lease`: when the lease is
    /// valid that the client has shown, if it has.
    pub(super) fn of_alert(alert: u8, lease: Option<&RangeInclusive<SystemTime>>) -> Option<Self> {
        let refuses = matches!(alert, BAD_CERTIFICATE..=CERTIFICATE_UNKNOWN | UNKNOWN_CA | DECRYPT_ERROR);
        Some(match (alert, lease) {
            // The alert is the same for a lease that is not valid yet.
            (CERTIFICATE_EXPIRED, Some(valid)) => match SystemTime::now() {
                now if now > *valid.end() => Self::LeaseExpired,
                now if now < *valid.start() => Self::LeaseNotYetValid,
                _ => Self::LeaseClocks,
            },
            (HANDSHAKE_FAILURE, Some(_)) => Self::NoLeases,
            (_, Some(_)) if refuses || alert == ACCESS_DENIED => Self::LeaseRefused,
            (ACCESS_DENIED, None) => Self::ClientKeyRefused,
            (_, None) if refuses => {
                let why = match alert {
                    CERTIFICATE_REVOKED => "was revoked; ask its authority for another",
                    CERTIFICATE_EXPIRED => "has expired, or one of the two clocks is wrong",
                    // The second where another authority has the same name.
                    UNKNOWN_CA | DECRYPT_ERROR => "is from an authority that it does not know (its --client-ca)",
                    _ => "is of no use to it",
                };
                Self::Certificate(format!("it does not let this client in: its certificate {why}"))
            }
            _ => return None,
        })
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
            Self::LeaseExpired | Self::LeaseNotYetValid | Self::LeaseClocks | Self::LeaseRefused | Self::NoLeases => {
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
            Self::LeaseExpired => f.write_str("the lease has expired: ask the broker for another"),
            Self::LeaseNotYetValid => {
                f.write_str("the lease is not valid yet: wait until it is, or ask the broker for one that begins now")
            }
            Self::LeaseClocks => f.write_str(
                "the lease is not valid by its clock, and is by this machine's: set the clock that is wrong, then ask the \
                 broker for another",
            ),
            Self::LeaseRefused => {
                f.write_str("it does not take this lease, which is not from its broker: ask that broker for another")
            }
            Self::NoLeases => f.write_str("it takes no leases, as it has no broker: ask who runs it for a ticket"),
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

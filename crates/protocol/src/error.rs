//! Why bytes from the wire are refused.

use std::fmt;

/// Why bytes from the wire were refused. Each error ends the connection that carried the bytes, and nothing else.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DecodeError {
    /// The frame's flags are not 0.
    Flags(u16),
    /// The frame announces a longer body than allowed.
    BodyTooLong {
        /// Bytes announced.
        len: u32,
        /// Bytes allowed.
        limit: usize,
    },
    /// The frame announces a longer tail than allowed.
    TailTooLong {
        /// Bytes announced.
        len: u32,
        /// Bytes allowed.
        limit: usize,
    },
    /// No message has this opcode.
    UnknownOpcode(u16),
    /// A post or note with a call number, or a call without one.
    CallNumber(u16),
    /// Bulk bytes behind a message that has none.
    UnexpectedTail(u16),
    /// The body does not match the opcode.
    Body,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flags(flags) => write!(f, "frame flags {flags:#x} are not known"),
            Self::BodyTooLong { len, limit } => write!(f, "frame body of {len} bytes is over the limit of {limit}"),
            Self::TailTooLong { len, limit } => write!(f, "frame tail of {len} bytes is over the limit of {limit}"),
            Self::UnknownOpcode(op) => write!(f, "no message has opcode {op}"),
            Self::CallNumber(op) => write!(f, "message {op} came with a call number that does not fit its kind"),
            Self::UnexpectedTail(op) => write!(f, "message {op} came with bulk bytes and takes none"),
            Self::Body => write!(f, "frame body does not decode as its opcode says"),
        }
    }
}

impl std::error::Error for DecodeError {}

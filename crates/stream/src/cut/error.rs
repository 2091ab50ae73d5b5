//! Why a stream cannot be cut.

use std::fmt;

use crate::declaration::Format;

/// Why a stream cannot be cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CutError {
    /// A chunk has more bytes than the declaration allows.
    TooLarge {
        /// What the stream consists of.
        unit: &'static str,
        /// The most bytes of one.
        most: usize,
    },
    /// The stream ends within a chunk.
    Truncated(&'static str),
    /// It is not what the declaration says.
    NotThat {
        /// The format that the declaration names.
        format: Format,
        /// How that is seen.
        why: &'static str,
    },
}

impl fmt::Display for CutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { unit, most } => {
                write!(
                    f,
                    "the stream has {unit} of more than {most} bytes, which is the most that its declaration allows (most)"
                )
            }
            Self::Truncated(unit) => write!(f, "the stream ends within {unit}"),
            Self::NotThat { format, why } => write!(f, "the stream is not what its declaration says, {format}: {why}"),
        }
    }
}

impl std::error::Error for CutError {}

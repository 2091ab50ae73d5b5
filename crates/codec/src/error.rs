//! Why a codec did not do what it was asked to.

use std::fmt;

/// The kinds of failures, for what has to decide by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The stream is not of this codec, or it is broken here. What follows may be fine.
    BadStream,
    /// The stream claims sizes or counts beyond the limits. Nothing was allocated for it.
    TooLarge,
    /// The destination has no room. Nothing was written past its end, and the result is kept for another try.
    BufferTooSmall,
    /// The codec takes nothing more before its results are taken.
    Full,
    /// The machine lacks the library, or has it without this codec.
    NoLibrary,
    /// The caller asks for what no codec does: a width of 0, or sizes that do not match.
    BadArgument,
    /// There is no memory left.
    OutOfMemory,
}

/// A failure: its kind, and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: Kind,
    sentence: String,
}

impl Error {
    pub(crate) fn new(kind: Kind, sentence: impl Into<String>) -> Self {
        Self { kind, sentence: sentence.into() }
    }

    pub(crate) fn no_memory() -> Self {
        Self::new(Kind::OutOfMemory, "there is no memory left for the codec")
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for Error {}

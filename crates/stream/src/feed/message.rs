//! What goes over a session's socket: a byte for each chunk that it asks for, and an answer to each.

use std::time::Duration;

/// The byte by which a session asks for a chunk.
pub(super) const ASK: u8 = b'?';

/// Bytes of a head.
pub(super) const HEAD: usize = 32;

/// What stands before an answer's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub kind: Kind,
    /// How many bytes follow.
    pub length: u32,
    /// As [`crate::queue::Chunk`] has them; of a failure, whether the stream is not what it says.
    pub sequence: u64,
    pub dropped: u64,
    pub time: Duration,
}

/// What an answer's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A chunk.
    Chunk = 0,
    /// A sentence: why the stream failed, after which it may go on.
    Failure = 1,
    /// None, as the stream has ended.
    End = 2,
    /// A sentence: why the stream is over.
    Broken = 3,
}

impl Head {
    /// That of an answer without a chunk.
    pub fn of(kind: Kind, length: u32, is_invalid: bool) -> Self {
        Self { kind, length, sequence: is_invalid.into(), dropped: 0, time: Duration::ZERO }
    }

    /// Of a failure: whether the stream is not what it says.
    pub fn is_invalid(self) -> bool {
        self.sequence != 0
    }

    pub fn to_bytes(self) -> [u8; HEAD] {
        let nanoseconds = u64::try_from(self.time.as_nanos()).unwrap_or(u64::MAX);
        let mut bytes = [0; HEAD];
        bytes[..4].copy_from_slice(&(self.kind as u32).to_le_bytes());
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        for (at, number) in [self.sequence, self.dropped, nanoseconds].into_iter().enumerate() {
            bytes[8 + 8 * at..][..8].copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// `None` for bytes that are no head.
    pub fn from_bytes(bytes: [u8; HEAD]) -> Option<Self> {
        let short = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let long = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let kind = match short(0)? {
            0 => Kind::Chunk,
            1 => Kind::Failure,
            2 => Kind::End,
            3 => Kind::Broken,
            _ => return None,
        };
        let (sequence, dropped, time) = (long(8)?, long(16)?, Duration::from_nanos(long(24)?));
        Some(Self { kind, length: short(4)?, sequence, dropped, time })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_as_they_were_written() {
        for kind in [Kind::Chunk, Kind::Failure, Kind::End, Kind::Broken] {
            let head = Head { kind, length: 7, sequence: 1 << 40, dropped: u64::MAX, time: Duration::from_nanos(9) };
            assert_eq!(Head::from_bytes(head.to_bytes()), Some(head));
        }
        assert_eq!(Head::from_bytes([4; HEAD]), None);
    }
}

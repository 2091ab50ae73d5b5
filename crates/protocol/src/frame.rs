//! The fixed frame header.
//!
//! Every message in both directions is one frame: this header, the body (postcard), then the tail (bulk bytes as
//! they are). All numbers are little-endian.
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 0..2 | opcode | which message ([`crate::messages`]); [`REPLY`] for a reply |
//! | 2..4 | flags | must be 0 |
//! | 4..8 | call | number of the call that this is or answers; 0 for a post or a note |
//! | 8..12 | body | bytes of body |
//! | 12..16 | tail | bytes of tail |

use crate::error::DecodeError;
use crate::limits;

/// Bytes of an encoded [`FrameHeader`].
pub const FRAME_HEADER_LEN: usize = 16;

/// The opcode of the answer to a call.
pub const REPLY: u16 = 0;

/// The header of one frame; see the module's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHeader {
    /// Which message.
    pub opcode: u16,
    /// Number of the call that this is or answers; 0 for a post or a note.
    pub call: u32,
    /// Bytes of body that follow.
    pub body: u32,
    /// Bytes of tail that follow the body.
    pub tail: u32,
}

impl FrameHeader {
    /// Encodes the header as it is sent.
    pub fn to_bytes(self) -> [u8; FRAME_HEADER_LEN] {
        let mut out = [0; FRAME_HEADER_LEN];
        out[0..2].copy_from_slice(&self.opcode.to_le_bytes());
        out[4..8].copy_from_slice(&self.call.to_le_bytes());
        out[8..12].copy_from_slice(&self.body.to_le_bytes());
        out[12..16].copy_from_slice(&self.tail.to_le_bytes());
        out
    }

    /// Reads a header and checks its lengths against `max_body` and [`limits::MAX_TAIL`].
    ///
    /// # Errors
    /// [`DecodeError::Flags`], [`DecodeError::BodyTooLong`], [`DecodeError::TailTooLong`].
    pub fn from_bytes(bytes: &[u8; FRAME_HEADER_LEN], max_body: usize) -> Result<Self, DecodeError> {
        let [o0, o1, f0, f1, c0, c1, c2, c3, b0, b1, b2, b3, t0, t1, t2, t3] = *bytes;
        let header = Self {
            opcode: u16::from_le_bytes([o0, o1]),
            call: u32::from_le_bytes([c0, c1, c2, c3]),
            body: u32::from_le_bytes([b0, b1, b2, b3]),
            tail: u32::from_le_bytes([t0, t1, t2, t3]),
        };
        if (f0, f1) != (0, 0) {
            return Err(DecodeError::Flags(u16::from_le_bytes([f0, f1])));
        }
        if header.body as usize > max_body {
            return Err(DecodeError::BodyTooLong { len: header.body, limit: max_body });
        }
        if header.tail as usize > limits::MAX_TAIL {
            return Err(DecodeError::TailTooLong { len: header.tail, limit: limits::MAX_TAIL });
        }
        Ok(header)
    }

    /// Bytes of body and tail together.
    pub fn payload(&self) -> usize {
        self.body as usize + self.tail as usize
    }
}

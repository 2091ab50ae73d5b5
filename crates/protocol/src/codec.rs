//! Conversion between messages and bytes.

use serde::{Deserialize, Serialize};

pub use crate::error::DecodeError;
use crate::frame::{FRAME_HEADER_LEN, FrameHeader, REPLY};
use crate::table::{Call, CallId, Kind, Note, Post};
use crate::types::Status;

/// Reads a whole body.
///
/// # Errors
/// [`DecodeError::Body`] when the bytes are not exactly one `T`.
pub fn decode<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, DecodeError> {
    match postcard::take_from_bytes(body) {
        Ok((value, [])) => Ok(value),
        _ => Err(DecodeError::Body),
    }
}

/// Encodes `value` as the body of a message, which [`decode`] reads.
pub fn encode_body<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_stdvec(value).expect("a message encodes into memory")
}

/// Checks a frame's call number and tail against what its message allows.
pub(crate) fn check_header(header: FrameHeader, kind: Kind, tail: bool) -> Result<(), DecodeError> {
    if (header.call != 0) != (kind == Kind::Call) {
        return Err(DecodeError::CallNumber(header.opcode));
    }
    if header.tail != 0 && !tail {
        return Err(DecodeError::UnexpectedTail(header.opcode));
    }
    Ok(())
}

/// Appends a post to `out`; the caller sends its tail of `tail` bytes right behind it.
pub fn encode_post<P: Post>(out: &mut Vec<u8>, post: &P, tail: usize) {
    encode(out, P::OPCODE, 0, post, tail);
}

/// Appends a call with the number `call` (not 0) to `out`.
pub fn encode_call<C: Call>(out: &mut Vec<u8>, call: u32, message: &C, tail: usize) {
    encode(out, C::OPCODE, call, message, tail);
}

/// Appends a note to `out`.
pub fn encode_note<N: Note>(out: &mut Vec<u8>, note: &N, tail: usize) {
    encode(out, N::OPCODE, 0, note, tail);
}

/// Appends the answer to a call to `out`: its result, or the OpenCL error that it ended with.
pub fn encode_reply<R: Serialize>(out: &mut Vec<u8>, call: &CallId<R>, reply: &Result<R, Status>, tail: usize) {
    encode(out, REPLY, call.number(), reply, tail);
}

fn encode<T: Serialize>(out: &mut Vec<u8>, opcode: u16, call: u32, body: &T, tail: usize) {
    let start = out.len();
    out.extend_from_slice(&[0; FRAME_HEADER_LEN]);
    postcard::to_io(body, &mut *out).expect("a message encodes into memory");
    let body = out.len() - start - FRAME_HEADER_LEN;
    let header = FrameHeader {
        opcode,
        call,
        body: u32::try_from(body).expect("a body is shorter than 4 GiB"),
        tail: u32::try_from(tail).expect("a tail is shorter than 4 GiB"),
    };
    out[start..start + FRAME_HEADER_LEN].copy_from_slice(&header.to_bytes());
}

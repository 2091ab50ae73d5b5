//! Ropeway's wire protocol.
//!
//! Every message is declared once, in [`messages`]. From that one table come the structs, the
//! codec, the opcodes and their names, and the [`Serve`] and [`Receive`] traits (which have no default bodies,
//! so that a message without a handler does not compile). There is no I/O here and no OpenCL.
//!
//! The wire is described for people in `docs/protocol.md`.
#![forbid(unsafe_code)]

pub mod codec;
pub mod content;
mod error;
pub mod frame;
pub mod handshake;
pub mod ids;
pub mod image;
pub mod limits;
pub mod messages;
pub mod recording;
pub mod slots;
mod table;
pub mod types;

pub use codec::{DecodeError, decode, encode_body, encode_call, encode_note, encode_post, encode_reply};
pub use frame::{FRAME_HEADER_LEN, FrameHeader};
pub use messages::{MESSAGES, NOTES, PEER_MESSAGES, Receive, Serve, ServePeer, dispatch, dispatch_peer, receive};
pub use table::{Call, CallId, Described, Kind, Note, Post, Tail, TailError};

/// The version of the protocol. Two ends speak only when theirs are equal.
///
/// Any change of the message table changes this number; `tests/golden.rs` sees to it.
pub const VERSION: u16 = 17;

//! Whole frames of every message, and the other bodies that travel.

use std::fmt::Debug;

use ropeway_protocol::handshake::{Hello, Joined, Refusal, Welcome};
use ropeway_protocol::image::ImageFormat;
use ropeway_protocol::messages::*;
use ropeway_protocol::types::{BinaryReply, BuildReply, KernelArgInfo, Status, SubDevices, Waited};
use ropeway_protocol::{Call, DecodeError, Described, Note, Post, decode, encode_call, encode_note, encode_post};
use serde::{Deserialize, Serialize};

use crate::Entropy;

/// Makes frames of one message.
#[derive(Clone, Copy, Debug)]
pub struct Generator {
    /// The message.
    pub name: &'static str,
    /// Its opcode.
    pub opcode: u16,
    make: fn(&mut Entropy<'_>, tail: &[u8], out: &mut Vec<u8>) -> String,
    table: &'static [Described],
}

impl Generator {
    /// The message's row of the table.
    ///
    /// # Panics
    /// When the table has no such row, which the compiler rules out.
    pub fn row(&self) -> &'static Described {
        self.table.iter().find(|row| row.name == self.name).expect("each message is in its table")
    }

    /// Appends a frame made of `entropy` to `out`; returns the message as Rust would print it.
    pub fn frame(&self, entropy: &mut Entropy<'_>, out: &mut Vec<u8>) -> String {
        let len = if self.row().tail { usize::try_from(entropy.number()).unwrap_or(0) % 4096 } else { 0 };
        let tail = entropy.slice(len);
        (self.make)(entropy, tail, out)
    }
}

/// Makes bodies of one type that is no message: a reply or a part of the handshake.
#[derive(Clone, Copy, Debug)]
pub struct Reply {
    /// The type, in short.
    pub name: &'static str,
    /// The type as it is written.
    pub written: &'static str,
    make: fn(&mut Entropy<'_>) -> (String, Vec<u8>),
    echo: fn(&[u8]) -> Result<Vec<u8>, DecodeError>,
}

impl Reply {
    /// A value made of `entropy` as Rust would print it, and as it travels.
    pub fn body(&self, entropy: &mut Entropy<'_>) -> (String, Vec<u8>) {
        (self.make)(entropy)
    }

    /// Decodes `body` and encodes it again.
    ///
    /// # Errors
    /// [`DecodeError::Body`] when it does not decode.
    pub fn echo(&self, body: &[u8]) -> Result<Vec<u8>, DecodeError> {
        (self.echo)(body)
    }
}

/// A value, which there is for every type of the protocol.
fn made<'de, T: Deserialize<'de>>(entropy: &mut Entropy<'de>) -> T {
    entropy.value().expect("the protocol's types have no maps and no untyped data")
}

fn finish(message: &impl Debug, tail: &[u8], out: &mut Vec<u8>) -> String {
    out.extend_from_slice(tail);
    if tail.is_empty() { format!("{message:?}") } else { format!("{message:?} + {} bytes", tail.len()) }
}

fn post<P: Post + Debug>(message: &P, _: &mut Entropy<'_>, tail: &[u8], out: &mut Vec<u8>) -> String {
    encode_post(out, message, tail.len());
    finish(message, tail, out)
}

fn call<C: Call + Debug>(message: &C, entropy: &mut Entropy<'_>, tail: &[u8], out: &mut Vec<u8>) -> String {
    let number = u32::try_from(entropy.number()).unwrap_or(u32::MAX).max(1);
    encode_call(out, number, message, tail.len());
    finish(message, tail, out)
}

fn note<N: Note + Debug>(message: &N, _: &mut Entropy<'_>, tail: &[u8], out: &mut Vec<u8>) -> String {
    encode_note(out, message, tail.len());
    finish(message, tail, out)
}

/// A message of the table that is a command travels as any post does.
use post as command;

macro_rules! generators {
    ($table:path: $(
        $(#[$doc:meta])*
        $kind:ident $op:literal $method:ident: $name:ident $(<$lt:lifetime>)? { $($fields:tt)* }
            $(+ $tail:ident)? $(-> $reply:ty)? $(=> recorded $recorded:ident)?;
    )*) => {
        &[$(Generator {
            name: stringify!($name),
            opcode: $op,
            make: |entropy, tail, out| {
                let message: $name = made(entropy);
                $kind(&message, entropy, tail, out)
            },
            table: $table,
        }),*]
    };
}

/// One for each message that a client may send.
pub const MESSAGES: &[Generator] = ropeway_protocol::client_messages!(generators! { ropeway_protocol::MESSAGES: });

/// One for each note that a server may send.
pub const NOTES: &[Generator] = ropeway_protocol::server_notes!(generators! { ropeway_protocol::NOTES: });

/// One for each message that sessions of one client send to each other.
pub const PEER_MESSAGES: &[Generator] =
    ropeway_protocol::peer_messages!(generators! { ropeway_protocol::PEER_MESSAGES: });

fn body<T: Serialize + Debug>(value: &T) -> (String, Vec<u8>) {
    (format!("{value:?}"), postcard::to_stdvec(value).expect("a value encodes into memory"))
}

macro_rules! bodies {
    ($($name:literal $type:ty),* $(,)?) => {
        &[$(Reply {
            name: $name,
            written: stringify!($type),
            make: |entropy| body(&made::<$type>(entropy)),
            echo: |bytes| decode::<$type>(bytes).map(|value| body(&value).1),
        }),*]
    };
}

/// Every body that is no message's, and a type deep in one of them whose variants are many.
pub const REPLIES: &[Reply] = bodies! {
    "Hello" Hello,
    "Welcome" Welcome,
    "Refusal" Refusal,
    "Joined" Joined,
    "BinaryReply" Result<BinaryReply, Status>,
    "BuildReply" Result<BuildReply, Status>,
    "SubDevices" Result<SubDevices, Status>,
    "bytes" Result<Vec<u8>, Status>,
    "Vec<u64>" Result<Vec<u64>, Status>,
    "[u64; 3]" Result<[u64; 3], Status>,
    "[u64; 4]" Result<[u64; 4], Status>,
    "u64" Result<u64, Status>,
    "u32" Result<u32, Status>,
    "Vec<ImageFormat>" Result<Vec<ImageFormat>, Status>,
    "Waited" Result<Waited, Status>,
    "()" Result<(), Status>,
    "KernelArgInfo" KernelArgInfo,
};

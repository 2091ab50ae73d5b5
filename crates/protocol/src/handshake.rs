//! How a connection begins.
//!
//! Each side sends a [`Preamble`] of 16 bytes and then a body (postcard) of the length given in it: the client a
//! [`Hello`], the server a [`Welcome`] or a [`Refusal`]. Before that answer, the server may send one or more
//! [`Waiting`], which tell the client to wait. The preamble and the meaning of a refusal are the same in all versions
//! of the protocol, so that two ends with different versions can tell each other so.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::SessionId;
pub use crate::types::Property;
use crate::{VERSION, codec, limits};

/// The first eight bytes of every connection.
pub const MAGIC: [u8; 8] = *b"ROPEWAY\n";

/// Bytes of an encoded [`Preamble`].
pub const PREAMBLE_LEN: usize = 16;

/// The kind of the body behind a preamble.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opening {
    /// The client's [`Hello`].
    Hello = 0,
    /// The server's [`Welcome`].
    Welcome = 1,
    /// The server's [`Refusal`].
    Refusal = 2,
    /// A peer's [`Joined`].
    Joined = 3,
    /// The server's [`Waiting`]; another answer follows.
    Waiting = 4,
    /// The server says where memory to share can be handed in.
    Nearby = 5,
    /// The server's [`Part`]; another answer follows.
    Part = 6,
}

/// The first bytes of each direction: [`MAGIC`], then version (u16), opening (u16) and length of the body (u32),
/// little-endian.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Preamble {
    /// The sender's protocol version.
    pub version: u16,
    /// The body that follows.
    pub opening: Opening,
    /// Its length in bytes.
    pub len: u32,
}

/// Why a handshake failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HandshakeError {
    /// The peer does not speak Ropeway's protocol at all.
    NotRopeway,
    /// The peer speaks another version of the protocol.
    Version {
        /// The peer's.
        theirs: u16,
    },
    /// The peer announced a longer body than allowed.
    TooLong {
        /// Bytes announced.
        len: u32,
        /// Bytes allowed.
        limit: usize,
    },
    /// The body does not decode, or is not the one expected.
    Malformed,
    /// The server's machine, or one of its devices, is big-endian.
    BigEndian,
    /// The server refused, and says why.
    Refused(String),
    /// The server is alive, but has kept the client waiting for longer than clients wait.
    TooBusy,
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRopeway => write!(f, "what answers there is not a Ropeway server"),
            Self::Version { theirs } => write!(
                f,
                "it speaks version {theirs} of the protocol and this side version {VERSION}; install the same release of Ropeway on both"
            ),
            Self::TooLong { len, limit } => {
                write!(f, "it announced {len} bytes of handshake, over the limit of {limit}")
            }
            Self::Malformed => write!(f, "its handshake does not decode"),
            Self::BigEndian => write!(
                f,
                "it, or one of its devices, is big-endian; memory travels as it is, so that all machines have to be little-endian"
            ),
            Self::Refused(text) => write!(f, "it refused: {text}"),
            Self::TooBusy => write!(f, "it lets clients wait for more than {} s", limits::MAX_WAITING_SECONDS),
        }
    }
}

impl std::error::Error for HandshakeError {}

impl Preamble {
    /// Encodes the preamble as it is sent.
    pub fn to_bytes(self) -> [u8; PREAMBLE_LEN] {
        let mut out = [0; PREAMBLE_LEN];
        out[..8].copy_from_slice(&MAGIC);
        out[8..10].copy_from_slice(&self.version.to_le_bytes());
        out[10..12].copy_from_slice(&(self.opening as u16).to_le_bytes());
        out[12..].copy_from_slice(&self.len.to_le_bytes());
        out
    }

    /// Reads a preamble, whatever its version.
    ///
    /// # Errors
    /// [`HandshakeError::NotRopeway`], [`HandshakeError::Malformed`], [`HandshakeError::TooLong`].
    pub fn from_bytes(bytes: &[u8; PREAMBLE_LEN]) -> Result<Self, HandshakeError> {
        let [m0, m1, m2, m3, m4, m5, m6, m7, v0, v1, o0, o1, l0, l1, l2, l3] = *bytes;
        if [m0, m1, m2, m3, m4, m5, m6, m7] != MAGIC {
            return Err(HandshakeError::NotRopeway);
        }
        let (opening, limit) = match u16::from_le_bytes([o0, o1]) {
            0 => (Opening::Hello, limits::MAX_HELLO),
            1 => (Opening::Welcome, limits::MAX_WELCOME),
            2 => (Opening::Refusal, limits::MAX_HELLO),
            3 => (Opening::Joined, limits::MAX_HELLO),
            4 => (Opening::Waiting, limits::MAX_HELLO),
            5 => (Opening::Nearby, limits::MAX_HELLO),
            6 => (Opening::Part, limits::MAX_HELLO),
            _ => return Err(HandshakeError::Malformed),
        };
        let len = u32::from_le_bytes([l0, l1, l2, l3]);
        if len as usize > limit {
            return Err(HandshakeError::TooLong { len, limit });
        }
        Ok(Self { version: u16::from_le_bytes([v0, v1]), opening, len })
    }
}

/// The purpose of a connection. All of a session's connections use the daemon's one port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Purpose {
    /// A new session's commands.
    Commands,
    /// Messages from another session to one that already exists. The answer is a [`Joined`].
    Peer {
        /// The session that the connection leads to.
        session: SessionId,
        /// The session that sends it.
        from: SessionId,
        /// Which of the connections between the two sessions this is: 0 carries signals, the others carry bulk data.
        link: u8,
        /// The sender's name for the connection: a different one each time, except when it makes a connection again.
        stream: u64,
        /// Whether the connection has broken and is made again, to go on where it was.
        resumes: bool,
        /// [`peer_proof`] of what the sender knows.
        proof: [u8; 32],
    },
    /// One more of the sockets that carry a session's bytes, for a client that has said [`features::LANES`] and waits for
    /// them to be taken. The answer is a [`Joined`].
    Lane {
        /// The session.
        session: SessionId,
        /// Which of them this is, from 0 on.
        number: u8,
        /// How many there are: 2 to 8.
        of: u8,
        /// [`lane_proof`] of what the client knows.
        proof: [u8; 32],
    },
}

/// The client's first message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// Optional parts of the protocol that the client can use; see [`features`].
    pub features: u64,
    /// The purpose of the connection.
    pub purpose: Purpose,
    /// The client's release of Ropeway, for logs.
    pub release: String,
    /// Program name, for logs.
    pub program: String,
    /// Process id on its machine, for logs.
    pub pid: u32,
    /// Proof of identity; empty for none. Reserved.
    pub credential: Vec<u8>,
    /// What stands at the beginning of each shared memory device that the client's virtual machine has: at most
    /// [`limits::MAX_MEMORY_DEVICES`].
    pub devices: Vec<[u8; 16]>,
}

/// The server's answer to a hello.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Welcome {
    /// Optional parts of the protocol that both will use: a subset of the client's.
    pub features: u64,
    /// The session's name.
    pub session: SessionId,
    /// The server's release of Ropeway.
    pub release: String,
    /// The server's host name.
    pub host: String,
    /// Whether the server's machine is little-endian. Memory travels as it is, so all machines have to be.
    pub little_endian: bool,
    /// Where other servers reach this one, as a URL; `None`: where the client does.
    pub peer_address: Option<String>,
    /// The key by which other servers know this one, for who has come without it.
    pub peer_key: Option<[u8; 32]>,
    /// What the client alone knows of the session: who has this may carry its bytes.
    pub lanes_secret: [u8; 32],
    /// Its native platforms with their devices. Indices into this and into `devices` name them in messages.
    pub platforms: Vec<PlatformInfo>,
}

/// The server is alive, and the client must wait for its [`Welcome`] or [`Refusal`]; another of these messages follows
/// every [`limits::WAITING_SECONDS`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Waiting {
    /// How many clients that came before this one are still waiting.
    pub before: u32,
    /// The reason: part of a sentence for a person, such as "2 workers are being started".
    pub reason: String,
}

/// A server's answer to a client.
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    /// The session begins.
    Welcome(Box<Welcome>),
    /// Another answer follows.
    Waiting(Waiting),
    /// Another answer follows when the client has handed in memory, or has said that it does not.
    Nearby(Nearby),
    /// Another answer follows; both go on through this memory then.
    Part(Part),
}

/// A session's answer to a peer that has joined it, or to one more socket of its client's.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Joined {
    /// The [`peer_proof`], or [`lane_proof`], in the other direction, which shows whom the sender has reached.
    pub proof: [u8; 32],
}

/// The proof by which session `from` shows session `to` that it knows the secret of their group: a keyed hash (BLAKE3)
/// of who speaks to whom by which connection. Compare with [`proofs_equal`].
pub fn peer_proof(secret: &[u8; 32], from: SessionId, to: SessionId, link: u8) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_keyed(secret);
    hasher.update(b"ropeway peer");
    hasher.update(&from.0.to_le_bytes()).update(&to.0.to_le_bytes()).update(&[link]);
    *hasher.finalize().as_bytes()
}

/// Who shows a [`lane_proof`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LaneEnd {
    /// The client, in its hello.
    Client,
    /// The session, in its answer.
    Session,
}

/// The proof by which one end shows the other that it knows the [secret](Welcome::lanes_secret) of this session: a keyed
/// hash (BLAKE3) of who says so about which of how many sockets. Compare with [`proofs_equal`].
pub fn lane_proof(secret: &[u8; 32], session: SessionId, (number, of): (u8, u8), end: LaneEnd) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_keyed(secret);
    hasher.update(match end {
        LaneEnd::Client => b"ropeway lane of a client",
        LaneEnd::Session => b"ropeway lane of a server",
    });
    hasher.update(&session.0.to_le_bytes()).update(&[number, of]);
    *hasher.finalize().as_bytes()
}

/// Whether two proofs are equal, in a time that does not depend on where they differ.
pub fn proofs_equal(one: &[u8; 32], other: &[u8; 32]) -> bool {
    // The comparison of BLAKE3's own hashes takes constant time.
    blake3::Hash::from_bytes(*one) == blake3::Hash::from_bytes(*other)
}

/// Why the server will not serve.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Refusal {
    /// One sentence for a person.
    pub text: String,
}

/// Bits of [`Hello::features`].
pub mod features {
    /// The client, or peer, has connected from an address of its own machine to one, and takes a [`Nearby`](super::Nearby).
    pub const TAKES_NEARBY: u64 = 1;
    /// What a session and its peers on the same machine send each other may go through memory that they share.
    pub const SHARES_WITH_PEERS: u64 = 2;

    /// The client goes on over UCX: behind the welcome, both ends say over the socket where their UCX is reached
    /// (`docs/protocol.md`), and it carries no more messages.
    pub const UCX: u64 = 4;

    /// The client goes on over several sockets, where it does not share memory with the server: behind the welcome, it
    /// makes them ([`Purpose::Lane`](super::Purpose::Lane)), and this one carries no more messages.
    pub const LANES: u64 = 8;
}

/// Where a client, or peer, that has connected from an address of its own machine to one can hand in memory to share, if
/// that is the server's machine; the server waits until it has done so, or has sent one byte, and then goes on as without this.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Nearby {
    /// The abstract name of a Unix datagram socket.
    pub name: String,
    /// What the client shows there, so that the server knows which one it is.
    pub token: [u8; 16],
}

/// Which part of a shared memory device a client in a virtual machine goes on through, behind the welcome. Offsets and
/// lengths are in bytes, and multiples of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Part {
    /// What stands at the beginning of the device.
    pub device: [u8; 16],
    /// Where the part begins.
    pub at: u64,
    /// How long it is.
    pub len: u64,
    /// What the server writes there before it welcomes the client: so that both know that they see the same memory.
    pub mark: u64,
}

/// The queries of clGetDeviceInfo that [`DeviceInfo`] answers: OpenCL 1.0 to 3.0 with Khronos extensions, then vendors'
/// own: NVIDIA's, AMD's, Intel's, ARM's and Qualcomm's. A query without an answer there returns CL_INVALID_VALUE.
pub const DEVICE_QUERIES: [std::ops::RangeInclusive<u32>; 13] = [
    0x1000..=0x1077,
    0x12A9..=0x12AB,
    0x12B9..=0x12BB,
    0x2031..=0x2035,
    0x204C..=0x204F,
    0x4000..=0x400A,
    0x4030..=0x404C,
    0x40A0..=0x40BF,
    0x40E0..=0x40E0,
    0x4104..=0x410F,
    0x417E..=0x4194,
    0x41E0..=0x41EE,
    0x4230..=0x4256,
];

/// A native platform.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PlatformInfo {
    /// clGetPlatformInfo.
    pub properties: Vec<Property>,
    /// Its devices, in native order.
    pub devices: Vec<DeviceInfo>,
}

/// A native device.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// clGetDeviceInfo.
    pub properties: Vec<Property>,
}

/// Encodes a hello, welcome or refusal as it is sent: preamble and body.
pub fn encode_opening<T: Serialize>(opening: Opening, body: &T) -> Vec<u8> {
    let body = postcard::to_stdvec(body).expect("an opening encodes into memory");
    let len = u32::try_from(body.len()).expect("an opening is shorter than 4 GiB");
    let mut out = Preamble { version: VERSION, opening, len }.to_bytes().to_vec();
    out.extend_from_slice(&body);
    out
}

/// Reads a client's hello, whose preamble has been read.
///
/// # Errors
/// [`HandshakeError::Version`] or [`HandshakeError::Malformed`].
pub fn decode_hello(preamble: Preamble, body: &[u8]) -> Result<Hello, HandshakeError> {
    check_version(preamble)?;
    match preamble.opening {
        Opening::Hello => codec::decode(body).map_err(|_| HandshakeError::Malformed),
        _ => Err(HandshakeError::Malformed),
    }
}

/// Reads a peer's answer, whose preamble has been read.
///
/// # Errors
/// As [`decode_welcome`].
pub fn decode_joined(preamble: Preamble, body: &[u8]) -> Result<Joined, HandshakeError> {
    decode_answer(preamble, Opening::Joined, body)
}

/// Reads where memory can be handed in, whose preamble has been read.
///
/// # Errors
/// As [`decode_welcome`].
pub fn decode_nearby(preamble: Preamble, body: &[u8]) -> Result<Nearby, HandshakeError> {
    decode_answer(preamble, Opening::Nearby, body)
}

/// Reads a server's answer to a client, whose preamble has been read.
///
/// # Errors
/// As [`decode_welcome`].
pub fn decode_reply(preamble: Preamble, body: &[u8]) -> Result<Answer, HandshakeError> {
    match preamble.opening {
        Opening::Waiting => decode_answer(preamble, Opening::Waiting, body).map(Answer::Waiting),
        Opening::Nearby => decode_nearby(preamble, body).map(Answer::Nearby),
        Opening::Part => decode_answer(preamble, Opening::Part, body).map(Answer::Part),
        _ => decode_welcome(preamble, body).map(|welcome| Answer::Welcome(Box::new(welcome))),
    }
}

/// Reads a server's welcome, whose preamble has been read.
///
/// # Errors
/// [`HandshakeError::Refused`] with the server's words, [`HandshakeError::Version`], [`HandshakeError::Malformed`] or
/// [`HandshakeError::BigEndian`].
pub fn decode_welcome(preamble: Preamble, body: &[u8]) -> Result<Welcome, HandshakeError> {
    let welcome: Welcome = decode_answer(preamble, Opening::Welcome, body)?;
    let devices = || welcome.platforms.iter().flat_map(|platform| &platform.devices);
    let big = |(name, answer): &Property| *name == ENDIAN_LITTLE && answer.as_deref() == Ok(&FALSE);
    if !welcome.little_endian || devices().any(|device| device.properties.iter().any(big)) {
        return Err(HandshakeError::BigEndian);
    }
    Ok(welcome)
}

/// CL_DEVICE_ENDIAN_LITTLE.
const ENDIAN_LITTLE: u32 = 0x1026;

/// CL_FALSE.
const FALSE: [u8; 4] = [0; 4];

fn decode_answer<'a, T: Deserialize<'a>>(
    preamble: Preamble,
    expected: Opening,
    body: &'a [u8],
) -> Result<T, HandshakeError> {
    // A refusal is read whatever the version: it may be about the version.
    if preamble.opening == Opening::Refusal {
        let refusal: Refusal = codec::decode(body).map_err(|_| HandshakeError::Malformed)?;
        return Err(HandshakeError::Refused(refusal.text));
    }
    check_version(preamble)?;
    if preamble.opening != expected {
        return Err(HandshakeError::Malformed);
    }
    codec::decode(body).map_err(|_| HandshakeError::Malformed)
}

fn check_version(preamble: Preamble) -> Result<(), HandshakeError> {
    if preamble.version == VERSION { Ok(()) } else { Err(HandshakeError::Version { theirs: preamble.version }) }
}

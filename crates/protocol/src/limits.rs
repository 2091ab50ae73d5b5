//! Bounds on everything whose size comes from the wire.
//!
//! A number from the wire is compared with its bound here before memory is taken for it.

/// Most bytes of a frame's body on its way to the server.
pub const MAX_BODY_TO_SERVER: usize = 1 << 20;

/// Most bytes of a frame's body on its way to the client (a build log may be long).
pub const MAX_BODY_TO_CLIENT: usize = 16 << 20;

/// Most bulk bytes behind one frame (its tail).
pub const MAX_TAIL: usize = 1 << 20;

/// Bulk bytes that a sender puts into one frame of a transfer. A large transfer never delays another
/// queue's commands by more than this.
pub const CHUNK: usize = 512 << 10;

/// Writes of at most this many bytes travel with their command ("eager"); larger ones wait until the server says
/// that it has a place for them ("rendezvous").
pub const MAX_EAGER: usize = 256 << 10;

/// Most bytes of the client's hello (postcard), read by the daemon before it trusts the peer.
pub const MAX_HELLO: usize = 4 << 10;

/// Most shared memory devices that a client in a virtual machine tells of.
pub const MAX_MEMORY_DEVICES: usize = 8;

/// Most bytes of the server's welcome (postcard): the properties of all its devices.
pub const MAX_WELCOME: usize = 4 << 20;

/// Most events in one wait list.
pub const MAX_WAITS: usize = 1 << 16;

/// Most bytes of one program source or binary.
pub const MAX_CONTENT: usize = 256 << 20;

/// Most live objects (of all kinds together) of one session.
pub const MAX_OBJECTS: usize = 4 << 20;

/// Most bytes of server memory that a session's unfinished work may occupy: small reads and writes on all queues, and
/// program contents.
pub const MAX_STAGED: usize = 1 << 30;

/// Seconds that a peer has for its half of the handshake.
pub const HANDSHAKE_SECONDS: u64 = 5;

/// Seconds from one sign of life to the next for a client that waits for its welcome.
pub const WAITING_SECONDS: u64 = 1;

/// Seconds without a sign of life after which such a client takes the server for lost.
pub const WAITING_SILENCE_SECONDS: u64 = 15;

/// Most seconds that a client waits for its welcome.
pub const MAX_WAITING_SECONDS: u64 = 300;

//! One stream for several processes. A network, a camera or a FIFO has one reader, and sessions are processes of their
//! own, which may not open any of these: so the server reads the stream, and each session has a socket to it.
//!
//! | where | what |
//! |---|---|
//! | [`feeds`] | all streams of a server: who reads one that a session wants |
//! | `hub` | one stream: a thread that reads it and serves those who want it, and never waits for one of them |
//! | `ffmpeg` | the program that receives from a network or a camera |
//! | `arguments` | what it is told |
//! | `subscriber` | what the hub knows of one session |
//! | `session` | the session's end of the socket |
//! | `message` | what goes over the socket |
//!
//! A session asks for each chunk. So what it has not asked for waits at the server, where the stream's policy says what
//! becomes of it, and chunks that were dropped are counted exactly.

mod arguments;
pub mod feeds;
mod ffmpeg;
mod hub;
mod message;
mod session;
mod subscriber;

pub use feeds::Feeds;
pub use session::Session;

//! The connection to the client: incoming frames and outgoing messages.

pub mod client;
pub mod heartbeat;
pub mod input;
pub mod outgoing;
pub mod printed;

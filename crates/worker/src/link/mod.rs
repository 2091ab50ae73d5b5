//! The connection to the client: incoming frames and outgoing messages.

pub mod client;
pub mod input;
pub mod outgoing;
pub mod printed;
pub mod pulse;

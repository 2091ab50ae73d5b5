//! The connection to the client: the frames that come by it, and what goes out.

pub mod client;
pub mod input;
pub mod outgoing;
pub mod printed;
pub mod pulse;

//! Transfers too large to be kept in memory: their bytes go between the socket and mapped or pinned memory, once both
//! client and queue are ready.

mod enqueue;
pub mod incoming;
mod lending;
mod staged;
mod to_client;
pub mod transfer;

//! Transfers too large to be kept in memory: their bytes go between the socket and mapped or pinned memory, at a meeting of client and queue.

mod enqueue;
pub mod incoming;
pub mod transfer;

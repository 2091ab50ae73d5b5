//! The ends of native commands: who waits for them, and how the client comes to know.

pub mod report;
pub mod waiters;
pub mod watch;

//! The ends of native commands: who waits for them, and how the client comes to know.

pub mod news;
pub mod notifier;
pub mod report;
mod waiters;
mod watched;

//! The ends of native commands: who waits for them, and how the client is notified.

pub mod news;
pub mod notifier;
pub mod report;
mod waiters;
mod watched;

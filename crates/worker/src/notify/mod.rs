//! The ends of native commands: who waits for them, and how the client is notified.

pub mod idle;
#[cfg(all(test, feature = "model"))]
mod model;
pub mod notification;
pub mod notifier;
pub mod report;
mod waiters;
mod watched;

//! What a broker decides. Nothing here waits, reads a clock or does I/O: [`Broker`] is told what has come and what time
//! it is, and says what is to be written down and to whom something is to be said.
//!
//! ```text
//!   connections ──► Broker ──► effects: write this down, then say that
//!                     │
//!         ┌───────────┼───────────┬────────────┐
//!       queue       leases      usage         pool ◄── placement, outlook
//!    (who waits)  (who has)  (who has had)  (what is there, what of it is free, and when)
//! ```

mod alarms;
mod broker;
mod leases;
mod matching;
mod outlook;
mod peer;
mod placement;
mod pool;
mod queue;
mod rules;
mod usage;
mod wants;

pub use broker::{Broker, Effect, Granted, Settings};
pub use leases::{LeaseRecord, Part};
pub use peer::{Peer, User};
pub use pool::{DeviceIndex, Pool, ServerIndex};
pub use rules::{Group, Limits, QueueRules, Reservation, Rules};
pub use usage::UsageRecord;

#[cfg(test)]
mod tests;

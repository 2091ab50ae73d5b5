//! What a broker decides. Nothing here waits, reads a clock or does I/O: [`Broker`] is told what has come and what time
//! it is, and says what is to be written down and to whom something is to be said.
//!
//! ```text
//!   connections ──► Broker ──► effects: write this down, then say that
//!                     │
//!         ┌───────────┼───────────┐
//!       queue       leases      pool ◄── placement
//!    (who waits)  (who has)  (what is there, what of it is free)
//! ```

mod broker;
mod leases;
mod peer;
mod placement;
mod pool;
mod queue;

pub use broker::{Broker, Effect, Granted, Settings};
pub use leases::{LeaseRecord, Part};
pub use peer::{Peer, User};
pub use placement::{place, possible};
pub use pool::{DeviceIndex, Pool, ServerIndex};

#[cfg(test)]
mod tests;

//! The worker: one process for one session, which carries out the client's messages on its machine's OpenCL.
//!
//! The daemon keeps a few workers warm ([`run`]) and gives each one connection ([`handoff`]). When the session ends, so
//! does the process: whatever a driver did to it concerns nobody else.
//!
//! The path of a command: [`link`] cuts the received bytes into frames; [`serve`] has a handler for each message, which
//! enqueues it natively and never waits; work that waits is a [`session::job`], run by the same thread once it has
//! given up the reader's role ([`session::team`]). [`rendezvous`] does large transfers. [`peers`] handles traffic with
//! other sessions of the same client. Only [`native`] calls the native OpenCL, by way of [`objects`]; [`notify`] waits
//! for events that no call of the client's waits for. [`limits`] are those of the client's access rules; [`usage`]
//! is what it takes of the devices, and [`turns`] when it may.
#![deny(unsafe_code)]

mod base;
pub mod handoff;
mod lanes;
mod limits;
mod link;
mod native;
mod notify;
mod objects;
mod options;
mod peers;
mod probe;
mod programs;
mod queue_states;
mod rendezvous;
mod run;
mod serve;
mod session;
mod standby;
mod turns;
mod usage;
mod warmup;

pub use native::process::use_one_heap;
pub use options::WorkerOptions;
pub use ropeway_custom::QUIET_CODECS;
#[cfg(feature = "fuzz")]
pub use run::{Prepared, run_in_turn};
pub use run::{load, run};

//! The worker: one process for one session, which carries out the client's messages on its machine's OpenCL.
//!
//! The daemon keeps a few workers warm ([`run`]) and gives each one connection ([`handoff`]). When the session ends, so
//! does the process: whatever a driver did to it concerns nobody else.
//!
//! The way of a command: [`input`] cuts the received bytes into frames, [`serve`] has a handler for each message, which
//! enqueues it natively and never waits; what waits is a [`job`], run by the same thread once it has given up the
//! reader's role ([`team`]). Large transfers are [`transfer`]'s. What goes to other sessions of the same client, and comes from them, is [`peers`]'.
#![deny(unsafe_code)]

mod alarm;
mod build;
mod cache;
mod command_buffer;
mod common;
mod contents;
mod error;
mod gating;
pub mod handoff;
mod input;
mod job;
mod names;
mod native;
mod objects;
mod outgoing;
mod peers;
mod printed;
mod pulse;
mod report;
mod run;
mod semaphore;
mod serve;
mod session;
mod team;
mod transfer;
mod waiters;
mod warmup;
mod watch;

pub use run::{WorkerOptions, run};

//! Ropeway's client: connections to servers, and the mirror of the OpenCL objects that live there.
//!
//! Safe Rust without C pointers: what belongs to the application's memory comes in through the traits of [`host`], in
//! the shape of a [`region`]. The C boundary is the crate `ropeway-icd`.
//!
//! Its folders are layers: each knows those above it in this list, and none below.
//!
//! | layer | what |
//! |---|---|
//! | `base` | locks, names, status codes, the application's memory ([`host`], [`region`]), [`log`], [`stats`] |
//! | [`residency`] | which homes of a context hold what, and what must move: computed only, with no side effects |
//! | [`link`] | one link to one server: batches out, replies in, who reads when |
//! | `objects` | [`device`], [`context`], [`queue`], [`device_queue`], [`event`], [`memory`], [`image`], [`program`], [`kernel`], [`svm`] and `home`: what a context is made of where it has devices of several servers or platforms |
//! | `planning` | what a command needs in its home before it can be sent there, and how it gets there |
//! | `commands` | what is enqueued: [`command`], [`transfer`], [`command_buffer`], [`semaphore`] |
//! | [`collectives`] | operations over the devices of a context |
//!
//! [`servers`] stands beside `commands`: which servers there are ([`config`], [`discover`]), how they are reached
//! ([`reach`], [`local`], [`ssh`]), and how they come and go ([`watch`]).
#![forbid(unsafe_code)]

mod base;
pub mod collectives;
mod commands;
pub mod link;
mod objects;
mod planning;
pub mod residency;
pub mod servers;

pub use base::status::{Result, SERVER_LOST, Status};
pub use base::{host, log, region, stats, threads};
pub use commands::{command, command_buffer, semaphore, svm, transfer};
pub use objects::{context, device, device_queue, event, image, kernel, memory, pipe, program, queue, sampler};
pub use ropeway_transport::inherited;
pub use servers::{config, discover, local, reach, ssh, tickets, watch};

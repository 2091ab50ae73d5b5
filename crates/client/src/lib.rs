//! Ropeway's client: connections to servers, and the mirror of the OpenCL objects that live there.
//!
//! Safe Rust without C pointers: what belongs to the application's memory comes in through the traits of [`host`], in the shape of a [`region`].
//! The C boundary is the crate `ropeway-icd`.
//!
//! | where | what |
//! |---|---|
//! | [`config`] | which servers, how presented |
//! | [`connection`] | one link to one server: batches out, replies in, who reads when |
//! | [`servers`], [`watch`] | all servers, how they come and go |
//! | [`discover`] | those that announce themselves |
//! | [`local`] | the one that is started on this machine |
//! | [`system`] | their platforms and devices |
//! | `home` | what a context is made of where it has devices of several servers or platforms |
//! | [`context`], [`queue`], [`memory`], [`program`], [`kernel`], [`event`] | the objects |
//! | [`command`], [`transfer`], [`mapping`] | what is enqueued |
//! | [`residency`] | which homes of a context hold what, and what must move |
//! | [`svm`] | shared virtual memory: its addresses and commands |
#![forbid(unsafe_code)]

mod buffer;
pub mod collectives;
pub mod command;
pub mod command_buffer;
pub mod config;
pub mod connection;
pub mod context;
pub mod discover;
pub mod event;
mod home;
pub mod host;
pub mod image;
mod includes;
pub mod kernel;
pub mod local;
pub mod log;
pub mod mapping;
pub mod memory;
pub mod native_kernel;
mod peers;
pub mod pipe;
mod prepare;
pub mod program;
pub mod queue;
pub mod region;
mod relay;
pub mod residency;
pub mod sampler;
pub mod semaphore;
pub mod servers;
mod spans;
pub mod stats;
pub mod svm;
pub mod system;
pub mod transfer;
pub mod watch;

pub use ropeway_protocol::types::Status;

/// What a lost server leaves behind: commands on it end with this, and calls that need it return it.
///
/// CL_DEVICE_NOT_AVAILABLE.
pub const SERVER_LOST: Status = ropeway_abi::CL_DEVICE_NOT_AVAILABLE;

/// The result of what can end with an OpenCL error code.
pub type Result<T> = std::result::Result<T, Status>;

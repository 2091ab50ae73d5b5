//! `ropeway serve`: listens, reads each client's hello, and hands the connection to a worker process that is already
//! warm. Never calls OpenCL itself, so that no driver's fault can reach it.
//!
//! | where | what |
//! |---|---|
//! | [`options`] | what a server can be told |
//! | `listen` | the sockets, and which addresses are refused |
//! | `handshake` | hello read in pieces, without waiting for anybody |
//! | `line` | clients that wait for a worker |
//! | `pool`, `process` | worker processes: warm ones kept ready, sessions watched |
//! | `probe` | what is found out of drivers by trying them, in a process of its own |
//! | `memory` | how much main memory a session takes |
//! | `dial` | connections to other servers, made for workers, which have no network of their own |
//! | `server` | the loop that all of these are driven by |
//! | `stop`, `notify` | signals, and what systemd is told |
//! | `sandbox`, [`worker`] | the worker's side: what it may do, and its start |
#![forbid(unsafe_code)]

mod dial;
mod handshake;
mod line;
mod listen;
mod memory;
mod notify;
pub mod options;
mod pool;
mod probe;
mod process;
mod sandbox;
mod server;
mod stop;
pub mod worker;

pub use options::{ServeError, ServeOptions};
pub use server::serve;

//! `ropeway serve`: listens, reads each client's hello, and hands the connection to a worker process that is already
//! warm. It never calls OpenCL itself, so that no driver fault can reach it.
//!
//! | where | what |
//! |---|---|
//! | [`options`] | the options of a server |
//! | `listen` | the sockets, and which addresses are refused |
//! | `openings`, `handshake` | connections that have not said who they are: read in pieces, without blocking |
//! | `tally` | keeps the log short when strangers try often |
//! | [`access`] | the state folder: the server's key, its clients, and what each may do |
//! | `audit` | a line of JSON for each session and each refusal |
//! | `lending` | lends this server's devices through a broker |
//! | `line` | clients that wait for a worker |
//! | `pool`, `process` | worker processes: warm ones kept ready, sessions watched |
//! | `folders` | each worker's own temporary files, each client's own compiler caches |
//! | `groups` | control groups: what all processes of a session together may take |
//! | `rooms` | the folder and the control group of each worker |
//! | `probe` | finds out facts about drivers by trying them, in a process of its own |
//! | `memory` | how much main memory a session takes |
//! | `usage` | how long a session keeps each device busy |
//! | `turns` | whose turn it is on a device that is shared by weight |
//! | `page` | memory that is shared with workers |
//! | `dial` | connections to other servers, made for workers, which have no network of their own |
//! | `server` | the loop that drives all of these |
//! | `stop`, `notify` | signals, and what systemd is told |
//! | `worker_user` | the user that workers run as, where the server is root's |
//! | `sandbox`, [`worker`] | the worker's side: what it may do, and its start |
#![forbid(unsafe_code)]

pub mod access;
mod audit;
mod dial;
mod feed;
mod folders;
mod groups;
mod handshake;
mod lending;
mod line;
mod listen;
mod memory;
mod notify;
mod openings;
pub mod options;
mod page;
mod pool;
mod probe;
mod process;
mod rooms;
mod sandbox;
mod server;
mod stop;
mod tally;
mod turns;
mod usage;
pub mod worker;
mod worker_user;

pub use lending::LendingOptions;
pub use options::{ServeError, ServeOptions};
pub use server::serve;
pub use worker_user::WorkerUser;

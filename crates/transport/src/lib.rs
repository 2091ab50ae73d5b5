//! Byte links between clients and servers: TCP, Unix sockets, and vsock between a machine and its guests. No messages.
//!
//! [`Endpoint`] says where a server is, [`Link`] is one connected stream, [`Listener`] waits for links. [`inherited`]
//! lists the descriptors that children must not keep open; unsafe code is in `kernel`, `shm::memory` and `ucx` alone.
#![deny(unsafe_code)]

mod connect;
mod crew;
mod encrypted;
mod endpoint;
pub mod inherited;
mod ivshmem;
#[allow(unsafe_code)]
mod kernel;
mod lanes;
mod link;
mod listener;
mod machine;
mod medium;
pub mod nearby;
mod origin;
mod other_end;
mod patience;
pub mod private_file;
mod shared;
mod shm;
mod ssh;
pub mod threads;
pub mod tls;
#[cfg_attr(not(feature = "ucx"), path = "without_ucx.rs")]
mod ucx;
mod vsock;

pub use endpoint::{DEFAULT_PORT, Endpoint, ParseEndpointError, Pass};
pub use ivshmem::{GuestMemory, GuestPart, PartPlace};
pub use lanes::LANES;
pub use link::{GLANCE, Link, Sender};
pub use listener::Listener;
pub use origin::Origin;
pub use other_end::PeerUser;
pub use shared::Side;
pub use shm::{Arena, Files as SharedFiles, NotMapped, Room, map_again};
pub use ssh::SshHost;
pub use vsock::VsockAddress;

//! Memory that a virtual machine shares with the machine it runs on: QEMU's `ivshmem-plain`, a PCI device whose memory is
//! a file on the host.
//!
//! The host's server owns the file, and writes to its beginning who it is; a client in the guest says in its hello what
//! it reads there, and is given a part of the memory for its session. Rings and arena lie in it as in memory that two
//! processes share. Nothing wakes a thread of the other machine but a byte on the socket, and who waits for room in a
//! ring looks again and again.
//!
//! All processes of a guest that may open the device see all of its memory, those of other sessions too. To the worker
//! it is as hostile as any shared memory.

mod guest;
mod host;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub(crate) use guest::Device;
pub use host::{GuestMemory, GuestPart};

/// What it is called before a person.
pub(crate) const IVSHMEM: &str = "ivshmem";

/// What stands at the beginning of each device that a server uses, before its name.
const MAGIC: [u8; 16] = *b"ROPEWAY ivshmem1";

/// The bytes of a server's name for a device.
pub(crate) const NAME: usize = 16;

/// Where the parts begin, and what their length is a multiple of, in bytes.
const STEP: u64 = 64 << 10;

/// A part of such a device's memory, for one session, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PartPlace {
    /// Where it begins.
    pub at: u64,
    /// Its length.
    pub len: u64,
    /// What the worker writes there, to show that it is the same memory.
    pub mark: u64,
}

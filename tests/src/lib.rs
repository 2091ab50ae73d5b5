//! Shared parts of the end-to-end tests: servers, programs, links that misbehave.
//!
//! The tests start the real `ropeway` on this machine's OpenCL (PoCL will do) and run real programs against it, beside
//! the same programs run natively. They use the release build that `make build` leaves behind.
#![forbid(unsafe_code)]

pub mod authority;
pub mod broker;
pub mod capture;
pub mod cluster;
pub mod compare;
pub mod custom;
pub mod daemon;
pub mod encrypted;
pub mod etcd;
pub mod fake;
pub mod groups;
pub mod guest;
pub mod histories;
pub mod interrupted;
pub mod ivshmem;
pub mod keyless;
pub mod kubelet;
pub mod kubernetes;
pub mod natives;
pub mod net;
pub mod notes;
pub mod peering;
pub mod places;
pub mod process;
pub mod program;
pub mod proxy;
pub mod pyopencl;
pub mod python;
pub mod qemu;
pub mod raw;
pub mod server;
pub mod shared_memory;
pub mod small_disk;
pub mod sshd;
pub mod stats;
pub mod turns;
pub mod valve;

use std::time::{Duration, Instant};

/// Tries until something is there.
///
/// # Panics
/// When it is not after `limit`.
pub fn wait_for<T>(what: &str, limit: Duration, mut attempt: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(begin.elapsed() < limit, "no {what} after {limit:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

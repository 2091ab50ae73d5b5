//! Descriptors that tokio waits for. The crate's only unsafe code is here.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use tokio::io::unix::AsyncFd;

/// The owner of a descriptor.
#[derive(Debug)]
pub(super) struct Waited<T>(T);

impl<T> Waited<T> {
    /// What owns the descriptor.
    pub(super) fn get(&self) -> &T {
        &self.0
    }

    /// The same, to change it.
    pub(super) fn get_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: AsFd> AsRawFd for Waited<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// Lets tokio wait for the descriptor that `owner` owns: a link, a listener, a descriptor itself. These never have
/// another one in its place.
///
/// # Errors
/// The system's.
#[allow(unsafe_code)]
pub(super) fn wait_for<T: AsFd>(owner: T) -> io::Result<AsyncFd<Waited<T>>> {
    // SAFETY: `owner` keeps its descriptor open as long as it lives, which is as long as the registration does, and
    // the types that are given here do not replace it.
    let registered = unsafe { AsyncFd::register(Waited(owner)) };
    Ok(registered?)
}

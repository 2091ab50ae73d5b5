//! The worker's log.

use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The log's destination: the standard error that the worker was started with.
#[derive(Clone)]
pub struct Log(Arc<OwnedFd>);

impl Log {
    /// Words go to `fd`.
    pub fn new(fd: OwnedFd) -> Self {
        Self(Arc::new(fd))
    }

    /// Says something on a line of its own.
    pub fn line(&self, text: &str) {
        let line = format!("ropeway worker[{}]: {text}\n", std::process::id());
        // If writing fails, there is nobody to tell.
        let _ = rustix::io::write(&*self.0, line.as_bytes());
    }
}

//! The worker's own words.

use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Where they go: the standard error that the worker was started with.
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
        // With nowhere to write there is nobody to tell.
        let _ = rustix::io::write(&*self.0, line.as_bytes());
    }
}

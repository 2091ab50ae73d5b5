//! What stands for `ucx` in a build without it.

use std::io::{self, ErrorKind};
use std::time::Instant;

use crate::Link;

/// Whether links over UCX can be had on this machine.
///
/// # Errors
/// [`ErrorKind::Unsupported`]: they cannot.
pub(crate) fn check() -> io::Result<()> {
    Err(io::Error::new(ErrorKind::Unsupported, "ucx:// is not a part of this build of Ropeway (feature ucx)"))
}

impl Link {
    /// Goes on over UCX with the process at the other end.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`]: this build cannot.
    pub fn go_over_to_ucx(self, _deadline: Instant) -> io::Result<Self> {
        check().map(|()| self)
    }
}

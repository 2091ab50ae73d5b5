//! How long a call of the kernel's waits at most.

use std::time::Duration;

use rustix::event::Timespec;

/// `patience` as `poll` and `epoll_wait` take it.
pub(crate) fn timespec(patience: Duration) -> Timespec {
    Timespec { tv_sec: patience.as_secs().cast_signed(), tv_nsec: patience.subsec_nanos().into() }
}

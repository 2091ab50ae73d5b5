//! Waiting for one descriptor, for a limited time.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// `patience` as `poll` and `epoll_wait` take it.
pub(crate) fn timespec(patience: Duration) -> Timespec {
    Timespec { tv_sec: patience.as_secs().cast_signed(), tv_nsec: patience.subsec_nanos().into() }
}

/// Whether this is so of a descriptor within `patience`. An interrupted look is as good as one that has found nothing.
pub(crate) fn is_ready(descriptor: BorrowedFd<'_>, what: PollFlags, patience: Duration) -> bool {
    poll(&mut [PollFd::from_borrowed_fd(descriptor, what)], Some(&timespec(patience))).is_ok_and(|ready| ready > 0)
}

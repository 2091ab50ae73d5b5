//! How waiting for a chunk is ended.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;

/// Ends the waits of all who have a copy of it, for good.
#[derive(Clone, Debug)]
pub struct Cancel {
    event: Arc<OwnedFd>,
}

impl Cancel {
    /// Has cancelled nothing yet.
    ///
    /// # Errors
    /// The operating system's error: there are too many open files.
    pub fn new() -> io::Result<Self> {
        Ok(Self { event: Arc::new(bell()?) })
    }

    /// Ends all waits, those under way and all later ones.
    pub fn cancel(&self) {
        ring(&self.event);
    }

    /// Whether waits are ended.
    pub fn is_cancelled(&self) -> bool {
        let mut fds = [PollFd::new(&*self.event, PollFlags::IN)];
        let none = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut fds, Some(&none)), Ok(1))
    }
}

impl AsFd for Cancel {
    /// Becomes readable, and stays so, when waits are ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// Something that can be waited for together with sockets.
pub(crate) fn bell() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Wakes who waits for it.
pub(crate) fn ring(bell: &OwnedFd) {
    // The only error is that it has been rung 2^64 times, and then it is readable.
    let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
}

/// Makes it silent again.
pub(crate) fn silence(bell: &OwnedFd) {
    // The only error is that it is silent.
    let _ = rustix::io::read(bell, &mut [0; 8]);
}

/// Waits without end until one of these is readable or at its end; returns which are.
///
/// # Errors
/// The operating system's error.
pub(crate) fn await_any<const N: usize>(fds: [BorrowedFd<'_>; N]) -> io::Result<[bool; N]> {
    let mut polled = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    loop {
        match poll(&mut polled, None) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok(polled.map(|fd| !fd.revents().is_empty())),
        }
    }
}

//! A thread that sleeps until something has come of what is under way, which another thread may go on with.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// What wakes it.
#[derive(Debug)]
pub(super) struct Sleeper {
    bell: OwnedFd,
    /// It sleeps, or is about to.
    is_asleep: bool,
    has_rung: bool,
}

impl Sleeper {
    /// One that is awake.
    ///
    /// # Errors
    /// The operating system's error.
    pub(super) fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { bell, is_asleep: false, has_rung: false })
    }

    /// From now on it is woken.
    pub(super) fn falls_asleep(&mut self) {
        self.is_asleep = true;
    }

    /// It looks for itself again.
    pub(super) fn wakes_up(&mut self) {
        self.is_asleep = false;
        if std::mem::take(&mut self.has_rung) {
            let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        }
    }

    /// Wakes it, if it sleeps.
    pub(super) fn wake(&mut self) {
        if std::mem::take(&mut self.is_asleep) {
            self.has_rung = true;
            // It is full only if nobody has looked for ages.
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }
}

impl AsFd for Sleeper {
    /// Readable once it is woken.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

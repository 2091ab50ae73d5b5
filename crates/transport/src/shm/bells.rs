//! What wakes a reader of the rings that sleeps: an eventfd for each of the two, which both processes have.
//!
//! Through a byte on a socket the reader would wake later: over loopback, that goes through all of TCP, which for a thread
//! that sleeps is most of the way.
//!
//! A bell's count is never 0, and it is rung by adding 0: that never waits, whatever the other process has done to the
//! bell, and a wait for edges notices it. Nobody has to read it.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::Errno;

use crate::patience::timespec;

/// What `/proc` says that such a descriptor is.
const KIND: &str = "anon_inode:[eventfd]";

/// A bell's number among what is watched.
const BELL: epoll::EventData = epoll::EventData::new_u64(0);

/// The socket's.
const SOCKET: u64 = 1;

/// Makes one.
///
/// # Errors
/// The operating system's error.
pub(super) fn make() -> io::Result<OwnedFd> {
    Ok(eventfd(1, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Whether another process has passed what [`make`] makes: a thread that rings something else could wait there for ever.
pub(super) fn is_one(bell: &OwnedFd) -> bool {
    fs::read_link(format!("/proc/self/fd/{}", bell.as_raw_fd())).is_ok_and(|kind| kind.as_os_str() == KIND)
}

/// Wakes who watches it.
pub(super) fn ring(bell: &OwnedFd) {
    // It takes any number that is as small.
    let _ = rustix::io::write(bell, &0_u64.to_ne_bytes());
}

/// A bell, and the socket whose end is the other process's.
#[derive(Debug)]
pub(super) struct Watch(OwnedFd);

impl Watch {
    /// Watches both.
    ///
    /// # Errors
    /// The operating system's error.
    pub(super) fn new(bell: &OwnedFd, socket: BorrowedFd<'_>) -> io::Result<Self> {
        let watch = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&watch, bell, BELL, epoll::EventFlags::IN | epoll::EventFlags::ET)?;
        epoll::add(&watch, socket, epoll::EventData::new_u64(SOCKET), epoll::EventFlags::RDHUP)?;
        Ok(Self(watch))
    }

    /// Waits until the bell has been rung since the last time, at most for `patience`, or only looks; 0: the socket is at its
    /// end.
    ///
    /// # Errors
    /// [`Errno::AGAIN`] if it has not been rung; the operating system's error.
    pub(super) fn wait(&self, patience: Duration) -> Result<usize, Errno> {
        let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: BELL }; 2];
        let found = epoll::wait(&self.0, &mut events[..], Some(&timespec(patience)))?;
        let found = &events[..found];
        if found.is_empty() {
            return Err(Errno::AGAIN);
        }
        let has_ended = found.iter().any(|event| event.data.u64() == SOCKET);
        Ok(if has_ended { 0 } else { found.len() })
    }
}

impl AsFd for Watch {
    /// Readable when [`Watch::wait`] would not wait.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

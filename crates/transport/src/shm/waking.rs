//! How the two processes wake each other: by [bells] of one machine, or, where one of them is in a guest, by bytes over the
//! link's socket that mean nothing but "look".

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::Files;
use super::bells::{self, Watch};
use crate::patience::timespec;

/// Bytes that are taken off a socket at once.
const AT_ONCE: usize = 64;

/// What wakes this side, and the other one.
#[derive(Debug)]
pub(super) enum Waking {
    Bells { own: Watch, other: OwnedFd },
    Socket(OwnedFd),
}

impl Waking {
    /// By the bells that come with the memory: `own` is the number of this side's.
    ///
    /// # Errors
    /// The operating system's error.
    pub(super) fn by_bells(files: &Files, own: usize, socket: BorrowedFd<'_>) -> io::Result<Self> {
        let other = files.bells[1 - own].try_clone()?;
        Ok(Self::Bells { own: Watch::new(&files.bells[own], socket)?, other })
    }

    /// By bytes over this socket.
    ///
    /// # Errors
    /// The operating system's error.
    pub(super) fn by_socket(socket: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self::Socket(socket.try_clone_to_owned()?))
    }

    /// Wakes the other side.
    pub(super) fn wake(&self) {
        match self {
            Self::Bells { other, .. } => bells::ring(other),
            Self::Socket(socket) => {
                // A socket that is full of such bytes wakes as well as one more would; one that has ended is noticed by who reads.
                while let Err(Errno::INTR) = send(socket, &[0], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {}
            }
        }
    }

    /// Waits until the other side has woken this one, at most for `patience`, or only looks; returns how often it was, or
    /// 0: the socket is at its end.
    ///
    /// # Errors
    /// [`Errno::AGAIN`] if it was not woken; the operating system's error.
    pub(super) fn wait(&self, patience: Duration) -> Result<usize, Errno> {
        let socket = match self {
            Self::Bells { own, .. } => return own.wait(patience),
            Self::Socket(socket) => socket,
        };
        if !patience.is_zero() {
            poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&timespec(patience)))?;
        }
        let mut bytes = [0; AT_ONCE];
        recv(socket, &mut bytes, RecvFlags::DONTWAIT).map(|(count, _)| count)
    }
}

impl AsFd for Waking {
    /// Readable when [`Waking::wait`] would not wait.
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Bells { own, .. } => own.as_fd(),
            Self::Socket(socket) => socket.as_fd(),
        }
    }
}

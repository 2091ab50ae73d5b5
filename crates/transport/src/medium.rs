//! What a link's bytes go through where that is not its socket. The socket then says that the other process is there.

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::shm::Arena;

/// About the time that it takes to fall asleep and be woken.
pub(crate) const SOON: Duration = Duration::from_micros(10);

/// One side of a stream of bytes to the other process, and one back. One thread writes and one reads at a time; any may
/// ask.
pub(crate) trait Medium: Send + Sync + Debug {
    /// What it is, for a person.
    fn name(&self) -> &'static str;

    /// Called once, when both sides have agreed on it: does ahead what the first bytes would wait for.
    fn prepare(&self) {}

    /// Takes the beginning of `bytes`; returns how much.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] when the other side says what cannot be; that the medium has broken.
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;

    /// What was written goes to the other side, whatever this thread does next.
    ///
    /// # Errors
    /// As [`Self::write`].
    fn push(&self) -> io::Result<()> {
        Ok(())
    }

    /// Waits for room at most for `patience`, which is below a second; returns whether there is some.
    ///
    /// # Errors
    /// As [`Self::write`].
    fn wait_for_room(&self, patience: Duration) -> io::Result<bool>;

    /// Reads what is there; 0 if nothing is.
    ///
    /// # Errors
    /// As [`Self::write`].
    fn read(&self, into: &mut [u8]) -> io::Result<usize>;

    /// As [`Self::read`], for a reader that wants all of `into`: may wait for it here, for a [`crate::GLANCE`].
    ///
    /// # Errors
    /// As [`Self::write`].
    fn read_whole(&self, into: &mut [u8]) -> io::Result<usize> {
        self.read(into)
    }

    /// Whether a read would find something, if only a fault.
    fn has_more(&self) -> bool;

    /// Whether a read would find something, now or within less time than a system call takes.
    fn has_more_in_a_moment(&self) -> bool;

    /// Whether bytes come within the time that it takes to fall asleep and be woken. For a reader in the midst of a
    /// transfer.
    fn comes_soon(&self) -> bool {
        let begun = Instant::now();
        loop {
            if self.has_more_in_a_moment() {
                return true;
            }
            if begun.elapsed() > SOON {
                return false;
            }
        }
    }

    /// Whether there is something to read where the other side has closed the socket, and writes no more.
    fn has_more_at_the_end(&self) -> bool {
        self.has_more()
    }

    /// Has this side woken when bytes come; returns whether there are some already.
    fn ask_to_be_woken(&self) -> bool;

    /// Waits until this side is woken, at most for `patience`; returns how often it was, or 0: the other side has closed.
    /// That it was woken before is over with this.
    ///
    /// # Errors
    /// [`Errno::AGAIN`] if it was not woken; the operating system's error.
    fn await_waking(&self, patience: Duration) -> Result<usize, Errno>;

    /// What is polled for being woken, and for the end of the other side.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Memory for bulk data that both processes see, where there is any.
    fn arena(&self) -> Option<&Arc<Arena>> {
        None
    }

    /// Checks whether the other machine answers, as [`crate::Link::check_machine`] does; the link's own socket is not its
    /// business.
    ///
    /// # Errors
    /// As [`crate::Link::check_machine`].
    fn check_machine(&self) -> io::Result<()> {
        Ok(())
    }

    /// Bytes that the other side says that it has read.
    fn taken(&self) -> u64;

    /// Nothing more is to be read or written here.
    fn end(&self);

    /// Whether this side has ended the link.
    fn is_over(&self) -> bool;

    /// The shared memory, for tests.
    #[cfg(test)]
    fn rings(&self) -> Option<&crate::shm::Rings> {
        None
    }
}

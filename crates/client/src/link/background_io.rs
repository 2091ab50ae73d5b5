//! The state of a connection's background I/O thread: its work, and when it sleeps.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use rustix::event::{EventfdFlags, eventfd};

use crate::base::modelled::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::base::modelled::thread::{self, ThreadId};

/// State shared between the background I/O thread and the other threads.
#[derive(Debug)]
pub(super) struct BackgroundIo {
    /// Nothing was sent for a while, and the background I/O thread sleeps.
    quiet: AtomicBool,
    /// Readable when the background I/O thread should wake.
    wake: OwnedFd,
    /// Things that will come over the link and that nobody may be waiting for.
    outstanding: AtomicUsize,
    thread: OnceLock<ThreadId>,
}

impl BackgroundIo {
    pub(super) fn new() -> std::io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { quiet: AtomicBool::new(true), wake, outstanding: AtomicUsize::new(0), thread: OnceLock::new() })
    }

    /// Something is about to be sent. Returns whether the link was quiet until now.
    #[inline]
    pub(super) fn note_activity(&self) -> bool {
        if !self.quiet.load(Ordering::Relaxed) || !self.quiet.swap(false, Ordering::AcqRel) {
            return false;
        }
        self.rouse();
        true
    }

    /// Whether the background I/O thread sleeps.
    pub(super) fn is_quiet(&self) -> bool {
        self.quiet.load(Ordering::Relaxed)
    }

    /// Something will come that nobody may wait for.
    pub(super) fn expect(&self) {
        if self.outstanding.fetch_add(1, Ordering::AcqRel) == 0 && self.quiet.load(Ordering::Acquire) {
            self.rouse();
        }
    }

    /// It came.
    pub(super) fn settled(&self) {
        self.outstanding.fetch_sub(1, Ordering::AcqRel);
    }

    /// Notes that no thread waits any more: the background I/O thread has to receive what is still to come.
    pub(super) fn left_alone(&self) {
        if self.outstanding.load(Ordering::SeqCst) > 0 && self.quiet.load(Ordering::SeqCst) {
            self.rouse();
        }
    }

    /// The calling thread is the background thread.
    pub(super) fn begin(&self) {
        let _ = self.thread.set(thread::current().id());
    }

    /// Whether the calling thread is the background thread.
    pub(super) fn is_this_thread(&self) -> bool {
        self.thread.get() == Some(&thread::current().id())
    }

    pub(super) fn rouse(&self) {
        // Fails only when the counter is full, and then the background I/O thread wakes anyway.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Whether something will come that nobody may be waiting for.
    pub(super) fn is_expecting(&self) -> bool {
        self.outstanding.load(Ordering::Acquire) > 0
    }

    /// It sleeps from now on.
    pub(super) fn fall_quiet(&self) {
        self.quiet.store(true, Ordering::SeqCst);
    }

    /// Readable when it should wake.
    pub(super) fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

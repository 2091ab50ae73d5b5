//! Which threads are using memory of the application's at this moment.

use std::sync::PoisonError;

use crate::base::modelled::atomic::{AtomicUsize, Ordering};
use crate::base::modelled::{Condvar, Mutex, lock};

/// Counts the threads that are copying to or from memory that the application lends until it is told that a transfer is
/// over.
#[derive(Default, Debug)]
pub(super) struct InUse {
    threads: AtomicUsize,
    /// Threads that wait until there are none.
    waiting: AtomicUsize,
    waiting_lock: Mutex<()>,
    none_left: Condvar,
}

/// Marks, while it lives, a thread as using such memory.
#[derive(Debug)]
pub(super) struct Using<'a>(&'a InUse);

impl InUse {
    /// A thread begins.
    pub(super) fn begin(&self) -> Using<'_> {
        self.threads.fetch_add(1, Ordering::SeqCst);
        Using(self)
    }

    /// Waits until no thread is using such memory. The caller ensures that none begins anew, and that none takes long:
    /// a socket that has been shut down holds nobody up.
    pub(super) fn wait(&self) {
        if self.threads.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut guard = lock(&self.waiting_lock);
        self.waiting.fetch_add(1, Ordering::SeqCst);
        // A thread that ends looks at `waiting` afterwards: either it sees this one, or this one sees that it has
        // ended.
        while self.threads.load(Ordering::SeqCst) > 0 {
            guard = self.none_left.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Using<'_> {
    fn drop(&mut self) {
        self.0.threads.fetch_sub(1, Ordering::SeqCst);
        if self.0.waiting.load(Ordering::SeqCst) > 0 {
            drop(lock(&self.0.waiting_lock));
            self.0.none_left.notify_all();
        }
    }
}

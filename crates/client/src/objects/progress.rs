//! How far a queue has come, as far as this process knows without asking.

use std::sync::Arc;

use crate::base::modelled::atomic::{AtomicU64, Ordering};

/// How far a queue has come. Its commands are numbered from 1 on, in the order in which they begin to be enqueued.
#[derive(Default, Debug)]
pub(crate) struct Progress {
    /// Commands that a thread has begun to enqueue.
    begun: AtomicU64,
    /// Those of them whose messages are on their way, or that were given up.
    posted: AtomicU64,
    /// All commands up to this number are known to have ended.
    ended: AtomicU64,
    /// As `ended`, and the server has also told of the errors of those without an event.
    settled: AtomicU64,
}

/// A command that is being enqueued: until it is dropped, nobody takes it for posted.
#[derive(Debug)]
pub(crate) struct Enqueuing {
    progress: Arc<Progress>,
    number: u64,
}

impl Progress {
    /// A command is about to be enqueued.
    pub(crate) fn begin(self: &Arc<Self>) -> Enqueuing {
        Enqueuing { progress: Arc::clone(self), number: self.begun.fetch_add(1, Ordering::SeqCst) + 1 }
    }

    /// The number of the last command that was begun.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::SeqCst)
    }

    /// The number of the last command, if no thread is just enqueuing one: all up to it are posted.
    pub(crate) fn posted(&self) -> Option<u64> {
        // In this order: no command is begun between the two looks where the numbers are the same.
        let posted = self.posted.load(Ordering::SeqCst);
        (self.begun.load(Ordering::SeqCst) == posted).then_some(posted)
    }

    /// All commands up to this one have ended.
    pub(crate) fn note_ended(&self, number: u64) {
        self.ended.fetch_max(number, Ordering::SeqCst);
    }

    /// All commands up to this one have ended, and the server has told of their errors.
    pub(crate) fn note_settled(&self, number: u64) {
        self.settled.fetch_max(number, Ordering::SeqCst);
        self.note_ended(number);
    }

    /// Whether all commands up to this one are known to have ended.
    pub(crate) fn has_ended(&self, number: u64) -> bool {
        self.ended.load(Ordering::SeqCst) >= number
    }

    /// Whether all commands are known to have ended.
    pub(crate) fn is_over(&self) -> bool {
        self.posted().is_some_and(|last| self.has_ended(last))
    }

    /// Whether there are commands, and nothing that the server has still to tell of any.
    pub(crate) fn is_settled(&self) -> bool {
        self.posted().is_some_and(|last| last > 0 && self.settled.load(Ordering::SeqCst) >= last)
    }
}

impl Enqueuing {
    /// The progress of its queue.
    pub(crate) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// The command's number, whatever other threads are enqueuing.
    pub(crate) fn place(&self) -> u64 {
        self.number
    }

    /// The command's number, if all commands with smaller ones are posted: where a queue runs its commands in order,
    /// they have ended when this one has. 0 otherwise.
    pub(crate) fn number(&self) -> u64 {
        if self.progress.posted.load(Ordering::SeqCst) + 1 == self.number { self.number } else { 0 }
    }
}

impl Drop for Enqueuing {
    fn drop(&mut self) {
        self.progress.posted.fetch_add(1, Ordering::SeqCst);
    }
}

#[cfg(all(test, not(feature = "model")))]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_settled_only_when_no_command_is_just_being_enqueued() {
        let progress = Arc::<Progress>::default();
        assert!(progress.is_over() && !progress.is_settled(), "nothing was enqueued");
        let first = progress.begin();
        assert_eq!((first.number(), progress.posted(), progress.is_settled()), (1, None, false));
        let second = progress.begin();
        assert_eq!(second.number(), 0, "the first one may be posted after it");
        drop(second);
        assert_eq!(progress.posted(), None, "it may be the first or the second that is posted");
        drop(first);
        assert_eq!(progress.posted(), Some(2));
        progress.note_ended(2);
        assert!(progress.is_over() && !progress.is_settled());
        progress.note_settled(2);
        assert!(progress.is_settled());
        drop(progress.begin());
        assert!(!progress.is_over() && !progress.is_settled() && progress.has_ended(2));
    }
}

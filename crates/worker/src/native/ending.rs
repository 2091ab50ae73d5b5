//! Ends that the worker itself tells of: those of its user events, and of commands whose queue has a thread that waits in
//! the driver for all of them ([`super::outstanding`]). Whoever wants to know waits here, or is called.
//!
//! Threads that wait in NVIDIA's driver spin there, and contend for its lock with those that have something to do.

use std::sync::{Arc, PoisonError};

use ropeway_protocol::types::Status;

use crate::base::modelled::{Condvar, Mutex, lock};

/// Called once with the status of the end.
type Then = Box<dyn FnOnce(Status) + Send>;

/// An end that is told once.
#[derive(Clone, Default)]
pub struct Ending(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// CL_COMPLETE or an error, once it was told.
    status: Option<Status>,
    /// Whom to call then.
    thens: Vec<Then>,
}

impl std::fmt::Debug for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Ending").field(&self.status()).finish()
    }
}

impl Ending {
    /// Tells of it, and calls those who are to be called, here: they must take no time. Only the first status counts.
    pub(super) fn tell(&self, status: Status) {
        let mut state = lock(&self.0.state);
        if state.status.is_some() {
            return;
        }
        state.status = Some(status);
        let thens = std::mem::take(&mut state.thens);
        drop(state);
        self.0.changed.notify_all();
        thens.into_iter().for_each(|then| then(status));
    }

    /// CL_COMPLETE or an error, if it was told.
    pub(super) fn status(&self) -> Option<Status> {
        lock(&self.0.state).status
    }

    /// Blocks until it is told; gives CL_COMPLETE or the error.
    pub(super) fn wait(&self) -> Status {
        let mut state = lock(&self.0.state);
        loop {
            if let Some(status) = state.status {
                return status;
            }
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Calls `then`, which must take no time, once it is told: on the thread that tells, or here if it was told before.
    pub fn then(&self, then: impl FnOnce(Status) + Send + 'static) {
        let mut state = lock(&self.0.state);
        match state.status {
            None => state.thens.push(Box::new(then)),
            Some(status) => {
                drop(state);
                then(status);
            }
        }
    }

    /// Whether anybody but the caller can still hear of it: without, it need not be told.
    pub(super) fn is_wanted(&self) -> bool {
        // Where the caller has the only reference, nobody comes to be called any more.
        Arc::strong_count(&self.0) > 1 || !lock(&self.0.state).thens.is_empty()
    }
}

#[cfg(all(test, not(feature = "model")))]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn who_is_to_be_called_is_called_once() {
        let ending = Ending::default();
        let (sender, calls) = channel();
        for number in 0..2 {
            let sender = sender.clone();
            ending.then(move |status| sender.send((number, status)).unwrap());
        }
        assert_eq!((ending.status(), calls.try_recv().ok()), (None, None));
        ending.tell(-5);
        ending.tell(0);
        assert_eq!((ending.status(), ending.wait()), (Some(-5), -5), "the first counts");
        assert_eq!(calls.try_iter().collect::<Vec<_>>(), [(0, -5), (1, -5)]);
        ending.then(move |status| sender.send((2, status)).unwrap());
        assert_eq!(calls.try_iter().collect::<Vec<_>>(), [(2, -5)], "late");
    }

    #[test]
    fn an_ending_is_wanted_by_who_holds_it_and_who_is_called() {
        let ending = Ending::default();
        assert!(!ending.is_wanted());
        let other = ending.clone();
        assert!(ending.is_wanted());
        other.then(drop);
        drop(other);
        assert!(ending.is_wanted());
        ending.tell(0);
        assert!(!ending.is_wanted());
    }
}

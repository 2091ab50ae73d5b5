//! Threads that move bytes to peers: each is busy only with what is ready to be moved, so none waits for another.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use crate::base::lock::lock;

/// Most of them.
const MOST: usize = 32;

/// The work of one thread of the pool.
pub type Work = Box<dyn FnOnce() + Send>;

/// The threads, and what waits for one.
#[derive(Default)]
pub struct TransferPool {
    state: Mutex<State>,
    more: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Work>,
    idle: usize,
    threads: usize,
}

impl TransferPool {
    /// Runs work that may take as long as moving bytes does.
    pub fn run(self: &Arc<Self>, work: Work) {
        let mut state = lock(&self.state);
        state.queue.push_back(work);
        if state.idle >= state.queue.len() || state.threads == MOST {
            drop(state);
            self.more.notify_one();
            return;
        }
        let transfer_pool = self.clone();
        // If no thread can be started, an existing one does the work later; the first thread has to start.
        if thread::Builder::new().name("mover".into()).spawn(move || transfer_pool.move_for_ever()).is_ok() {
            state.threads += 1;
        } else if state.threads == 0
            && let Some(work) = state.queue.pop_back()
        {
            drop(state);
            work();
        }
    }

    fn move_for_ever(self: Arc<Self>) {
        loop {
            let mut state = lock(&self.state);
            let work = loop {
                if let Some(next) = state.queue.pop_front() {
                    break next;
                }
                state.idle += 1;
                state = self.more.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            };
            drop(state);
            work();
        }
    }
}

//! Threads that run kernels and long copies.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

type Job = Box<dyn FnOnce() + Send>;

/// How long a thread without work stays.
const PATIENCE: Duration = Duration::from_secs(5);

/// Most threads. One for each command that runs at the same time: with so many commands that wait for streams, others wait too.
const MOST: usize = 256;

struct Pool {
    state: Mutex<State>,
    work: Condvar,
}

struct State {
    jobs: VecDeque<Job>,
    idle: usize,
    threads: usize,
}

static POOL: Pool =
    Pool { state: Mutex::new(State { jobs: VecDeque::new(), idle: 0, threads: 0 }), work: Condvar::new() };

/// Runs this on another thread, soon: no job waits for another while there are fewer than [`MOST`].
pub(super) fn run(job: Job) {
    let mut state = POOL.state.lock().unwrap_or_else(PoisonError::into_inner);
    state.jobs.push_back(job);
    if state.jobs.len() > state.idle && state.threads < MOST {
        let started = std::thread::Builder::new().name("custom".to_owned()).spawn(serve);
        match started {
            Ok(_) => state.threads += 1,
            // There is another one that comes to it.
            Err(_) if state.threads > 0 => {}
            Err(_) => {
                // Nobody else ever would.
                let job = state.jobs.pop_back();
                drop(state);
                if let Some(job) = job {
                    job();
                }
                return;
            }
        }
    }
    drop(state);
    POOL.work.notify_one();
}

fn serve() {
    let mut state = POOL.state.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(job) = state.jobs.pop_front() {
            drop(state);
            job();
            state = POOL.state.lock().unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        state.idle += 1;
        let (woken, waited) = POOL.work.wait_timeout(state, PATIENCE).unwrap_or_else(PoisonError::into_inner);
        state = woken;
        state.idle -= 1;
        if waited.timed_out() && state.jobs.is_empty() {
            state.threads -= 1;
            return;
        }
    }
}

//! The thread that runs the application's callbacks.
//!
//! A callback may call OpenCL, even where the specification leaves that undefined, so it must not run on a thread that
//! others need, nor under a lock. One thread keeps callbacks in the order in which they became due. The callers keep
//! the queue bounded: a callback that the application registered runs once, and only a limited number of the context
//! errors that servers report are queued.

use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

use crate::base::threads;

type Job = Box<dyn FnOnce() + Send>;

/// Runs `job` soon, after those given before it.
pub(crate) fn run_later(job: impl FnOnce() + Send + 'static) {
    static JOBS: OnceLock<Option<Sender<Job>>> = OnceLock::new();
    let jobs = JOBS.get_or_init(|| {
        let (sender, jobs) = channel::<Job>();
        let thread = std::thread::Builder::new().name("ropeway-callback".into());
        let run = move || {
            for job in jobs {
                job();
            }
        };
        let started = threads::start(|| thread.spawn(run));
        match started {
            Ok(_) => Some(sender),
            Err(error) => {
                crate::error!("no thread for callbacks: {error}; none will be called");
                None
            }
        }
    });
    if let Some(jobs) = jobs {
        // The thread ends only with the process.
        let _ = jobs.send(Box::new(job));
    }
}

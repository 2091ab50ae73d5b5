//! Queues: the order of commands, and their running.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ropeway_abi as cl;

use super::event::{Event, when_all};
use super::pool;

/// What a command does: CL_COMPLETE, or the error that it ends with.
pub type Work = Box<dyn FnOnce() -> cl::cl_int + Send>;

/// What a command does, and where.
pub enum Action {
    /// So little that whoever finds it ready does it.
    Quick(Work),
    /// On a thread of the pool.
    Long(Work),
}

/// A command queue.
pub struct Queue {
    in_order: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Commands that have not ended, in their order.
    pending: VecDeque<Arc<Event>>,
    /// What all later commands of an out-of-order queue wait for.
    barrier: Option<Arc<Event>>,
}

impl Queue {
    /// A queue that runs its commands in order, or each as soon as what it waits for has ended.
    pub fn new(in_order: bool) -> Arc<Self> {
        Arc::new(Self { in_order, state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enqueues a command that waits for `waits`; fails if one of them does.
    pub fn enqueue(self: &Arc<Self>, command: cl::cl_command_type, waits: &[Arc<Event>], action: Action) -> Arc<Event> {
        self.add(command, waits, action, false)
    }

    /// A command that does nothing: it waits for `waits`, or without any for all commands before it. A barrier also holds up all
    /// commands behind it.
    pub fn mark(self: &Arc<Self>, command: cl::cl_command_type, waits: &[Arc<Event>]) -> Arc<Event> {
        self.add(command, waits, Action::Quick(Box::new(|| cl::CL_COMPLETE)), true)
    }

    fn add(
        self: &Arc<Self>,
        command: cl::cl_command_type,
        waits: &[Arc<Event>],
        action: Action,
        is_mark: bool,
    ) -> Arc<Event> {
        let event = Event::new(command);
        let mut all = waits.to_vec();
        let mut state = self.lock();
        // What comes before in the queue only has to have ended, in whatever way.
        if self.in_order {
            all.extend(state.pending.back().cloned());
        } else if is_mark && waits.is_empty() {
            all.extend(state.pending.iter().cloned());
        } else {
            all.extend(state.barrier.clone());
        }
        if command == cl::CL_COMMAND_BARRIER && !self.in_order {
            state.barrier = Some(event.clone());
        }
        state.pending.push_back(event.clone());
        drop(state);
        let (queue, own) = (self.clone(), event.clone());
        when_all(&all, waits.len(), move |failed| {
            own.reach(cl::CL_SUBMITTED);
            if failed {
                queue.end(&own, cl::CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
                return;
            }
            match action {
                Action::Quick(work) => in_turn(Box::new(move || queue.carry_out(&own, work))),
                Action::Long(work) => pool::run(Box::new(move || queue.carry_out(&own, work))),
            }
        });
        event
    }

    fn carry_out(&self, event: &Arc<Event>, work: Work) {
        event.reach(cl::CL_RUNNING);
        // The command fails, and the session goes on.
        let status = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(cl::CL_OUT_OF_RESOURCES);
        self.end(event, status);
    }

    fn end(&self, event: &Arc<Event>, status: cl::cl_int) {
        let mut state = self.lock();
        // In order, it is the first.
        if let Some(at) = state.pending.iter().position(|pending| Arc::ptr_eq(pending, event)) {
            state.pending.remove(at);
        }
        if state.barrier.as_ref().is_some_and(|barrier| Arc::ptr_eq(barrier, event)) {
            state.barrier = None;
        }
        drop(state);
        event.reach(status);
    }

    /// Blocks until all commands that there are now have ended.
    pub fn finish(&self) {
        let pending = self.lock().pending.clone();
        for event in pending {
            event.wait();
        }
    }
}

/// Does this now, or, where this thread is within another command's end, after that: a long chain of commands does not
/// take up stack.
fn in_turn(job: Box<dyn FnOnce()>) {
    type Jobs = VecDeque<Box<dyn FnOnce()>>;
    thread_local! {
        static JOBS: RefCell<Option<Jobs>> = const { RefCell::new(None) };
    }
    let first = JOBS.with_borrow_mut(|jobs| match jobs {
        Some(jobs) => {
            jobs.push_back(job);
            None
        }
        None => {
            *jobs = Some(VecDeque::new());
            Some(job)
        }
    });
    let mut next = first;
    while let Some(job) = next {
        job();
        next = JOBS.with_borrow_mut(|jobs| {
            let job = jobs.as_mut().and_then(VecDeque::pop_front);
            if job.is_none() {
                *jobs = None;
            }
            job
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logging(log: &Arc<Mutex<Vec<u32>>>, number: u32, status: cl::cl_int) -> Work {
        let log = log.clone();
        Box::new(move || {
            log.lock().unwrap().push(number);
            status
        })
    }

    #[test]
    fn a_long_chain_runs_in_order() {
        let (queue, log, gate) = (Queue::new(true), Arc::default(), Event::new(cl::CL_COMMAND_USER));
        let first = queue.enqueue(cl::CL_COMMAND_TASK, std::slice::from_ref(&gate), Action::Long(logging(&log, 0, -3)));
        for number in 1..100_000 {
            let (work, long) = (logging(&log, number, 0), number % 1000 == 0);
            let action = if long { Action::Long(work) } else { Action::Quick(work) };
            queue.enqueue(cl::CL_COMMAND_TASK, &[], action);
        }
        let waiting =
            queue.enqueue(cl::CL_COMMAND_TASK, std::slice::from_ref(&first), Action::Quick(logging(&log, 7, 0)));
        assert!(log.lock().unwrap().is_empty());
        gate.reach(cl::CL_COMPLETE);
        queue.finish();
        assert_eq!(*log.lock().unwrap(), (0..100_000).collect::<Vec<_>>());
        // It failed, and so does who waits for it by a list; the order alone is no such wait.
        assert_eq!((first.status(), waiting.status()), (-3, cl::CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST));
        assert!(queue.lock().pending.is_empty());
    }

    #[test]
    fn out_of_order_only_barriers_order() {
        let (queue, log, gate) = (Queue::new(false), Arc::default(), Event::new(cl::CL_COMMAND_USER));
        let held = queue.enqueue(cl::CL_COMMAND_TASK, std::slice::from_ref(&gate), Action::Quick(logging(&log, 1, 0)));
        queue.enqueue(cl::CL_COMMAND_TASK, &[], Action::Long(logging(&log, 2, 0))).wait();
        assert_eq!(*log.lock().unwrap(), [2]);
        let barrier = queue.mark(cl::CL_COMMAND_BARRIER, &[]);
        let behind = queue.enqueue(cl::CL_COMMAND_TASK, &[], Action::Quick(logging(&log, 3, 0)));
        assert!(!barrier.ended() && !behind.ended());
        gate.reach(cl::CL_COMPLETE);
        queue.finish();
        assert!(held.ended() && barrier.ended());
        assert_eq!(*log.lock().unwrap(), [2, 1, 3]);
    }

    #[test]
    fn a_kernel_that_panics_fails() {
        let queue = Queue::new(true);
        let event = queue.enqueue(cl::CL_COMMAND_TASK, &[], Action::Long(Box::new(|| panic!("a defect"))));
        assert_eq!(event.wait(), cl::CL_OUT_OF_RESOURCES);
    }
}

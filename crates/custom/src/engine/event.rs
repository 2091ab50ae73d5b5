//! Events, and what happens when they come about.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ropeway_abi as cl;

/// Called with the status that an event has come to.
pub type Callback = Box<dyn FnOnce(cl::cl_int) + Send>;

/// The state of a command, or of a user event.
pub struct Event {
    /// CL_EVENT_COMMAND_TYPE.
    pub command: cl::cl_command_type,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    status: cl::cl_int,
    /// Queued, submitted, started, ended: nanoseconds of [`now`].
    times: [u64; 4],
    callbacks: Vec<(cl::cl_int, Callback)>,
    /// Threads that wait: usually there is none, and nobody to be woken.
    waiting: usize,
}

/// Nanoseconds since this process first asked: the devices' clock.
pub fn now() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    // It never says 0, which programs take for "no time".
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64 + 1
}

impl Event {
    /// The event of a command, which is queued; or a user event, which counts as submitted.
    pub fn new(command: cl::cl_command_type) -> Arc<Self> {
        let status = if command == cl::CL_COMMAND_USER { cl::CL_SUBMITTED } else { cl::CL_QUEUED };
        let state = State { status, times: [now(), 0, 0, 0], callbacks: Vec::new(), waiting: 0 };
        Arc::new(Self { command, state: Mutex::new(state), changed: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// CL_EVENT_COMMAND_EXECUTION_STATUS.
    pub fn status(&self) -> cl::cl_int {
        self.lock().status
    }

    /// Whether it has ended, well or not.
    #[cfg(test)]
    pub fn ended(&self) -> bool {
        self.status() <= cl::CL_COMPLETE
    }

    /// Queued, submitted, started, ended, in nanoseconds; `None` before the end.
    pub fn times(&self) -> Option<[u64; 4]> {
        let state = self.lock();
        (state.status <= cl::CL_COMPLETE).then_some(state.times)
    }

    /// Comes to `status`, which must be later than the present one; says whether it was.
    pub fn reach(&self, status: cl::cl_int) -> bool {
        let mut state = self.lock();
        if status >= state.status || state.status <= cl::CL_COMPLETE {
            return false;
        }
        let time = now();
        // A command that fails before it runs has been submitted and started at its end.
        let first = match state.status {
            cl::CL_QUEUED => 1,
            cl::CL_SUBMITTED => 2,
            _ => 3,
        };
        let last = if status <= cl::CL_COMPLETE { 3 } else { (cl::CL_QUEUED - status) as usize };
        for at in first..=last {
            state.times[at] = time;
        }
        state.status = status;
        let (due, later) = std::mem::take(&mut state.callbacks).into_iter().partition(|(at, _)| *at >= status);
        state.callbacks = later;
        let is_awaited = state.waiting > 0;
        drop(state);
        if is_awaited {
            self.changed.notify_all();
        }
        for (at, callback) in due {
            let due: cl::cl_int = if status < 0 { status } else { at };
            callback(due);
        }
        true
    }

    /// Calls back once it has come to `at` or has failed; at once where it has.
    pub fn on(&self, at: cl::cl_int, callback: Callback) {
        let mut state = self.lock();
        if state.status > at {
            state.callbacks.push((at, callback));
            return;
        }
        let due = if state.status < 0 { state.status } else { at };
        drop(state);
        callback(due);
    }

    /// Blocks until it has ended; CL_COMPLETE or the error.
    pub fn wait(&self) -> cl::cl_int {
        let mut state = self.lock();
        state.waiting += 1;
        while state.status > cl::CL_COMPLETE {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
        state.status
    }
}

/// Calls `then` once all of these have ended, with whether one of the first `strict` has failed; at once where they all have.
pub fn when_all(events: &[Arc<Event>], strict: usize, then: impl FnOnce(bool) + Send + 'static) {
    type Then = Box<dyn FnOnce(bool) + Send>;
    struct Rest {
        left: AtomicUsize,
        failed: AtomicUsize,
        then: Mutex<Option<Then>>,
    }
    impl Rest {
        fn one_less(&self) {
            if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                let then = self.then.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(then) = then {
                    then(self.failed.load(Ordering::Acquire) > 0);
                }
            }
        }
    }
    // One more than there are events: it does not end before all have been asked.
    let left = AtomicUsize::new(events.len() + 1);
    let rest = Arc::new(Rest { left, failed: AtomicUsize::new(0), then: Mutex::new(Some(Box::new(then))) });
    for (index, event) in events.iter().enumerate() {
        let of_event = rest.clone();
        let callback = move |status: cl::cl_int| {
            if status < 0 && index < strict {
                of_event.failed.fetch_add(1, Ordering::AcqRel);
            }
            of_event.one_less();
        };
        event.on(cl::CL_COMPLETE, Box::new(callback));
    }
    rest.one_less();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callbacks_come_once_each_in_their_state() {
        let event = Event::new(cl::CL_COMMAND_MARKER);
        let heard = Arc::new(Mutex::new(Vec::new()));
        for at in [cl::CL_COMPLETE, cl::CL_RUNNING, cl::CL_SUBMITTED] {
            let heard = heard.clone();
            event.on(at, Box::new(move |status| heard.lock().unwrap().push((at, status))));
        }
        assert!(event.times().is_none());
        assert!(event.reach(cl::CL_SUBMITTED) && !event.reach(cl::CL_SUBMITTED));
        assert_eq!(*heard.lock().unwrap(), [(cl::CL_SUBMITTED, cl::CL_SUBMITTED)]);
        assert!(event.reach(-7) && !event.reach(cl::CL_COMPLETE));
        assert_eq!(heard.lock().unwrap()[1..], [(cl::CL_COMPLETE, -7), (cl::CL_RUNNING, -7)]);
        let times = event.times().unwrap();
        assert!(times.is_sorted() && times[0] > 0 && times[2] == times[3], "{times:?}");
        assert_eq!(event.wait(), -7);
    }

    #[test]
    fn all_of_none_is_at_once() {
        let (told, telling) = (Arc::new(Mutex::new(None)), Event::new(cl::CL_COMMAND_USER));
        let tell = |told: &Arc<Mutex<Option<bool>>>| {
            let told = told.clone();
            move |failed| *told.lock().unwrap() = Some(failed)
        };
        when_all(&[], 0, tell(&told));
        assert_eq!(told.lock().unwrap().take(), Some(false));
        let other = Event::new(cl::CL_COMMAND_USER);
        when_all(&[telling.clone(), other.clone()], 1, tell(&told));
        other.reach(-1);
        assert_eq!(*told.lock().unwrap(), None);
        telling.reach(cl::CL_COMPLETE);
        // The one that has failed is not among those that matter.
        assert_eq!(*told.lock().unwrap(), Some(false));
    }
}

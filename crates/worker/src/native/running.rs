//! Commands that have not ended, watched in sessions whose kernels may run for a limited time only, and where sessions
//! take turns.
//!
//! A driver says of an event whether its command runs (CL_RUNNING), but some never do: with NVIDIA's, a command is
//! submitted until it has ended; and PoCL compiles for a kernel that is submitted. So a kernel also counts as running
//! while it is submitted, nothing is left that it has to wait for (neither an event of its wait list nor an earlier
//! command of its queue), and no command of the session is said to run, for which it may wait.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ropeway_abi as cl;
use ropeway_protocol::types::Status;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::Event;

/// Who watches commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watcher {
    /// The limit on the time of kernels.
    Clock,
    /// The turns of sessions on a device.
    Turns,
}

/// The number of watchers.
const WATCHERS: usize = 2;

/// Whether commands are watched, by each. There is one session in a process.
static WATCHING: [AtomicBool; WATCHERS] = [const { AtomicBool::new(false) }; WATCHERS];

/// Commands that were enqueued since each watcher's last look.
static NEW: [Mutex<Vec<Command<Event>>>; WATCHERS] = [const { Mutex::new(Vec::new()) }; WATCHERS];

/// Whether the calls that launch kernels are counted.
static COUNTING: AtomicBool = AtomicBool::new(false);

/// Calls that launch kernels, begun and ended; an odd number while one lasts. Drivers compile in some of them. Only
/// one thread launches at a time: the one that carries out the client's commands.
static LAUNCHES: AtomicU64 = AtomicU64::new(0);

/// Watches all commands from now on, each of which has an event then; or no more.
pub fn watch(watcher: Watcher, watches: bool) {
    WATCHING[watcher as usize].store(watches, Ordering::Relaxed);
    if !watches {
        drop(take_new(watcher));
    }
}

fn take_new(watcher: Watcher) -> Vec<Command<Event>> {
    std::mem::take(&mut *NEW[watcher as usize].lock().unwrap_or_else(PoisonError::into_inner))
}

/// Counts the calls that launch kernels from now on.
pub fn count_launches() {
    COUNTING.store(true, Ordering::Relaxed);
}

/// Whether commands are watched.
pub(super) fn is_watching() -> bool {
    WATCHING.iter().any(|watching| watching.load(Ordering::Relaxed))
}

/// A call that launches a kernel, while it lasts.
pub(super) struct Launching(());

impl Launching {
    /// Begins, if these calls are counted.
    pub(super) fn begin() -> Option<Self> {
        COUNTING.load(Ordering::Relaxed).then(|| {
            LAUNCHES.fetch_add(1, Ordering::Relaxed);
            Self(())
        })
    }
}

impl Drop for Launching {
    fn drop(&mut self) {
        LAUNCHES.fetch_add(1, Ordering::Relaxed);
    }
}

/// A number for the launching call that lasts, if one does.
pub fn launch() -> Option<u64> {
    let number = LAUNCHES.load(Ordering::Relaxed);
    (!number.is_multiple_of(2)).then_some(number)
}

/// The state of an event.
pub trait Progress {
    /// CL_EVENT_COMMAND_EXECUTION_STATUS.
    fn status(&self) -> Status;
}

impl Progress for Event {
    fn status(&self) -> Status {
        Event::status(self)
    }
}

/// A command that was enqueued.
#[derive(Clone)]
pub struct Command<E> {
    /// Its queue, by the native handle's address.
    pub queue: usize,
    /// Whether that runs its commands in order.
    pub in_order: bool,
    /// Whether it launches a kernel. Other commands end by themselves.
    pub is_kernel: bool,
    /// Its event.
    pub event: E,
    /// Its wait list.
    pub waits: SmallVec<[E; 1]>,
    /// How far it was at the last look.
    pub stage: Stage,
    /// Since when it has been seen to run.
    pub since: Option<Instant>,
}

/// How far a command is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// It waits for something.
    Waits,
    /// It is submitted, and nothing is known that it waits for.
    Next,
    /// The driver says that it runs.
    Runs,
}

/// Watches a command that was enqueued.
pub(super) fn note(command: Command<Event>) {
    for (new, watching) in NEW.iter().zip(&WATCHING) {
        if watching.load(Ordering::Relaxed) {
            new.lock().unwrap_or_else(PoisonError::into_inner).push(command.clone());
        }
    }
}

/// The commands that have not been seen to end.
pub struct UnderWay<E = Event> {
    watcher: Watcher,
    queues: FxHashMap<usize, VecDeque<Command<E>>>,
}

impl UnderWay {
    /// Takes in the commands that were enqueued since the last look, and returns how long the kernel that has been
    /// running longest has.
    pub fn look(&mut self, now: Instant) -> Option<Duration> {
        take_new(self.watcher).into_iter().for_each(|command| self.add(command));
        self.longest(now)
    }
}

impl<E: Progress> UnderWay<E> {
    /// None yet, for this watcher.
    pub fn of(watcher: Watcher) -> Self {
        Self { watcher, queues: FxHashMap::default() }
    }

    fn add(&mut self, command: Command<E>) {
        self.queues.entry(command.queue).or_default().push_back(command);
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    fn longest(&mut self, now: Instant) -> Option<Duration> {
        let mut does_any_run = false;
        self.queues.retain(|_, commands| {
            let mut is_first = true;
            let mut is_held_up = false;
            commands.retain_mut(|command| {
                command.stage = Stage::Waits;
                if is_held_up {
                    return true;
                }
                let status = command.event.status();
                if status <= cl::CL_COMPLETE {
                    return false;
                }
                // An event that has ended is not looked at again.
                command.waits.retain(|event| event.status() > cl::CL_COMPLETE);
                let is_next = is_first && command.waits.is_empty();
                is_first &= !is_next;
                is_held_up = command.in_order;
                command.stage = match status {
                    cl::CL_RUNNING => Stage::Runs,
                    cl::CL_SUBMITTED if is_next => Stage::Next,
                    _ => Stage::Waits,
                };
                does_any_run |= command.stage == Stage::Runs;
                true
            });
            !commands.is_empty()
        });
        let running = if does_any_run { Stage::Runs } else { Stage::Next };
        let all = self.queues.values_mut().flatten();
        let times = all.filter_map(|command| {
            let runs = command.is_kernel && command.stage == running;
            command.since = command.since.or(Some(now)).filter(|_| runs);
            command.since.map(|since| now.duration_since(since))
        });
        times.max()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicI32;

    use super::*;

    #[derive(Clone)]
    struct Fake(Arc<AtomicI32>);

    impl Fake {
        fn new(status: Status) -> Self {
            Self(Arc::new(AtomicI32::new(status)))
        }

        fn set(&self, status: Status) {
            self.0.store(status, Ordering::Relaxed);
        }
    }

    impl Progress for Fake {
        fn status(&self) -> Status {
            self.0.load(Ordering::Relaxed)
        }
    }

    /// What is enqueued on one queue, and looked at once a second.
    struct Watch {
        under_way: UnderWay<Fake>,
        in_order: bool,
        now: Instant,
    }

    impl Watch {
        fn new(in_order: bool) -> Self {
            Self { under_way: UnderWay::of(Watcher::Clock), in_order, now: Instant::now() }
        }

        fn enqueue(&mut self, queue: usize, status: Status, waits: &[&Fake]) -> Fake {
            self.enqueue_as(queue, status, waits, true)
        }

        fn enqueue_as(&mut self, queue: usize, status: Status, waits: &[&Fake], is_kernel: bool) -> Fake {
            let event = Fake::new(status);
            let waits = waits.iter().map(|&wait| wait.clone()).collect();
            let in_order = self.in_order;
            self.under_way.add(Command {
                queue,
                in_order,
                is_kernel,
                event: event.clone(),
                waits,
                stage: Stage::Waits,
                since: None,
            });
            event
        }

        /// The seconds that the longest has been running.
        fn look(&mut self) -> Option<u64> {
            self.now += Duration::from_secs(1);
            self.under_way.longest(self.now).map(|time| time.as_secs())
        }
    }

    const HELD: Status = cl::CL_QUEUED;
    const SUBMITTED: Status = cl::CL_SUBMITTED;
    const RUNNING: Status = cl::CL_RUNNING;

    #[test]
    fn a_kernel_that_may_wait_for_one_that_runs_does_not_run() {
        for in_order in [true, false] {
            let mut watch = Watch::new(in_order);
            let first = watch.enqueue(1, RUNNING, &[]);
            let others = [watch.enqueue(1, SUBMITTED, &[]), watch.enqueue(2, SUBMITTED, &[])];
            assert_eq!([watch.look(), watch.look(), watch.look()], [Some(0), Some(1), Some(2)]);
            first.set(cl::CL_COMPLETE);
            assert_eq!([watch.look(), watch.look()], [Some(0), Some(1)], "nothing else runs");
            others[1].set(RUNNING);
            assert_eq!([watch.look(), watch.look()], [Some(2), Some(3)], "and now the driver says so");
            others[1].set(-5);
            assert_eq!([watch.look(), watch.look()], [Some(0), Some(1)]);
            others[0].set(cl::CL_COMPLETE);
            assert_eq!(watch.look(), None);
            assert!(watch.under_way.is_empty());
        }
    }

    #[test]
    fn where_the_driver_does_not_say_the_first_that_waits_for_nothing_runs() {
        for in_order in [true, false] {
            let mut watch = Watch::new(in_order);
            let all: Vec<_> = (0..10).map(|_| watch.enqueue(1, SUBMITTED, &[])).collect();
            // Each takes two seconds, which together are many.
            for event in all {
                assert_eq!([watch.look(), watch.look()], [Some(0), Some(1)]);
                event.set(cl::CL_COMPLETE);
            }
            assert_eq!(watch.look(), None);
        }
    }

    #[test]
    fn commands_that_wait_do_not_run() {
        for in_order in [true, false] {
            let mut watch = Watch::new(in_order);
            let user = Fake::new(SUBMITTED);
            let waiting = watch.enqueue(1, SUBMITTED, &[&user]);
            watch.enqueue(2, SUBMITTED, &[&waiting]);
            watch.enqueue(3, HELD, &[]);
            let behind = watch.enqueue(1, SUBMITTED, &[]);
            let seen = [watch.look(), watch.look()];
            // In order, it is held up; otherwise it is the first that is not.
            assert_eq!(seen, if in_order { [None, None] } else { [Some(0), Some(1)] });
            behind.set(cl::CL_COMPLETE);
            assert_eq!(watch.look(), None);
            user.set(cl::CL_COMPLETE);
            assert_eq!([watch.look(), watch.look()], [Some(0), Some(1)]);
        }
    }

    #[test]
    fn only_kernels_run_too_long() {
        let mut watch = Watch::new(true);
        let copy = watch.enqueue_as(1, RUNNING, &[], false);
        watch.enqueue(1, HELD, &[]);
        assert_eq!([watch.look(), watch.look()], [None, None]);
        copy.set(cl::CL_COMPLETE);
        assert_eq!(watch.look(), None);
    }

    #[test]
    fn the_longest_counts() {
        let mut watch = Watch::new(false);
        let endless = watch.enqueue(1, RUNNING, &[]);
        for _ in 0..5 {
            let brief = watch.enqueue(2, RUNNING, &[]);
            watch.look();
            brief.set(cl::CL_COMPLETE);
        }
        assert_eq!(watch.look(), Some(5));
        endless.set(cl::CL_COMPLETE);
        assert_eq!(watch.look(), None);
    }
}

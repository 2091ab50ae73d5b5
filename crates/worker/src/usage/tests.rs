//! Every time here is a model's: nothing depends on the machine.

use std::sync::Mutex;
use std::time::Duration;

use super::*;
use crate::base::lock::lock;

/// The least time that counts, in nanoseconds.
const UNIT: u64 = 1 << UNIT_BITS;

/// A clock that goes on by one unit whenever it is asked, and by as much as a test wants.
#[derive(Default)]
struct Model {
    units: AtomicU64,
    /// What other threads do after a thread has asked for the time, and before it goes on.
    meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Clock for Model {
    fn now(&self) -> u64 {
        let now = self.units.fetch_add(1, Ordering::SeqCst) + 1;
        let meanwhile = lock(&self.meanwhile).take();
        meanwhile.into_iter().for_each(|run| run());
        now * UNIT
    }
}

fn usage() -> Arc<Usage<Model>> {
    Usage::by(Model::default(), None)
}

impl Usage<Model> {
    fn pass(&self, units: u64) {
        self.clock.units.fetch_add(units, Ordering::SeqCst);
    }

    fn time(&self) -> u64 {
        self.clock.units.load(Ordering::SeqCst)
    }

    /// What the device 3 has been used, in units.
    fn sum(&self) -> u64 {
        let sum = self.sums()[3].load(Ordering::Relaxed);
        assert_eq!(sum % UNIT, 0);
        sum / UNIT
    }
}

#[test]
fn a_device_is_busy_while_one_of_its_queues_is() {
    let usage = usage();
    let [one, other] = [(); 2].map(|()| usage.queue(Some(3)));
    one.handed_over(1);
    usage.pass(100);
    other.handed_over(4);
    usage.pass(100);
    one.ended(1);
    usage.pass(100);
    other.ended(4);
    assert_eq!(usage.sum(), 303);
    usage.pass(1000);
    usage.add_up();
    assert_eq!((usage.sum(), usage.sums()[0].load(Ordering::Relaxed)), (303, 0), "both are idle");
    // What is added up early is not added up again.
    one.handed_over(2);
    for times in 1..=3 {
        usage.pass(100);
        usage.add_up();
        assert_eq!(usage.sum(), 303 + times * 101);
    }
    one.ended(2);
    assert_eq!(usage.sum(), 303 + 304);
}

#[test]
fn a_session_may_last_longer_than_the_times_that_are_kept() {
    let usage = usage();
    let queue = usage.queue(Some(3));
    let round = TIME >> TIME_AT;
    usage.pass(round - 50);
    queue.handed_over(1);
    usage.pass(100);
    queue.ended(1);
    assert_eq!(usage.sum(), 101);
    usage.pass(round / 2 + 50);
    queue.handed_over(2);
    usage.pass(100);
    queue.ended(2);
    assert_eq!(usage.sum(), 202);
}

#[test]
fn the_time_in_which_a_session_waits_for_its_turn_does_not_count() {
    let usage = usage();
    let queue = usage.queue(Some(3));
    queue.handed_over(1);
    usage.pass(100);
    usage.pause(3, true);
    usage.pause(3, true);
    usage.pass(1000);
    usage.add_up();
    usage.pause(3, false);
    usage.pass(100);
    queue.ended(1);
    assert_eq!(usage.sum(), 202);
    usage.pause(3, true);
    queue.handed_over(2);
    usage.pass(100);
    queue.ended(2);
    assert_eq!(usage.sum(), 202);
}

#[test]
fn a_queue_is_busy_until_its_last_command_has_ended() {
    let usage = usage();
    let queue = usage.queue(Some(3));
    queue.handed_over(2);
    queue.handed_over(3);
    queue.ended(2);
    assert!(queue.is_busy());
    queue.ended(3);
    assert_eq!((queue.is_busy(), usage.is_busy()), (false, false));
    queue.ended(3);
    queue.handed_over(3);
    assert!(!usage.is_busy(), "nothing new");
    queue.handed_over(4);
    assert_eq!((queue.is_busy(), usage.is_busy()), (true, true));
    drop(queue);
    assert!(!usage.is_busy());
}

#[test]
fn a_device_without_a_number_is_not_counted() {
    let usage = usage();
    for device in [None, Some(METERED_DEVICES)] {
        let queue = usage.queue(device);
        queue.handed_over(1);
        assert_eq!((queue.is_busy(), usage.is_busy()), (false, false));
    }
}

/// What a thread does.
#[derive(Clone, Copy, Debug)]
enum Step {
    Begin(usize),
    End(usize),
    AddUp,
}

/// Two queues, and what threads have done with them: whether a queue became busy or idle, and when.
struct Schedule {
    usage: Arc<Usage<Model>>,
    queues: [QueueUsage<Model>; 2],
    counts: [AtomicU64; 2],
    done: Mutex<Vec<(i64, u64)>>,
}

impl Schedule {
    fn run(&self, step: Step) {
        match step {
            Step::Begin(queue) => {
                self.queues[queue].handed_over(self.counts[queue].fetch_add(1, Ordering::SeqCst) + 1);
                lock(&self.done).push((1, self.usage.time()));
            }
            Step::End(queue) => {
                self.queues[queue].ended(self.counts[queue].load(Ordering::SeqCst));
                lock(&self.done).push((-1, self.usage.time()));
            }
            Step::AddUp => self.usage.add_up(),
        }
    }

    /// The time in which a queue was busy.
    fn expected(&self) -> u64 {
        let (mut busy, mut since, mut sum) = (0, 0, 0);
        for (by, at) in lock(&self.done).iter() {
            sum += if busy > 0 { at - since } else { 0 };
            (busy, since) = (busy + by, *at);
        }
        assert_eq!(busy, 0);
        sum
    }
}

/// All ways to put `left` steps into `places`, by how many go into each.
fn ways(left: usize, places: usize) -> Vec<Vec<usize>> {
    if places == 1 {
        return vec![vec![left]];
    }
    let with = |first| ways(left - first, places - 1).into_iter().map(move |rest| [vec![first], rest].concat());
    (0..=left).flat_map(with).collect()
}

#[test]
fn threads_that_come_in_any_order_count_right() {
    let ours = [Step::Begin(0), Step::End(0), Step::Begin(0), Step::End(0)];
    let theirs = [Step::Begin(1), Step::AddUp, Step::End(1), Step::Begin(1), Step::AddUp, Step::End(1)];
    // Before each step of ours, in its middle, and after the last.
    for way in ways(theirs.len(), 2 * ours.len() + 1) {
        let usage = usage();
        let queues = [(); 2].map(|()| usage.queue(Some(3)));
        let schedule = Schedule { usage, queues, counts: Default::default(), done: Mutex::default() };
        let schedule = Arc::new(schedule);
        let mut left = theirs.into_iter();
        for (at, count) in way.iter().enumerate() {
            let steps: Vec<_> = left.by_ref().take(*count).collect();
            let other = schedule.clone();
            let run = move || steps.into_iter().for_each(|step| other.run(step));
            if at % 2 == 0 {
                run();
            } else {
                *lock(&schedule.usage.clock.meanwhile) = Some(Box::new(run));
                schedule.run(ours[at / 2]);
            }
        }
        assert!(!schedule.usage.is_busy(), "{way:?}");
        assert_eq!(schedule.usage.sum(), schedule.expected(), "{way:?}: {:?}", lock(&schedule.done));
    }
}

#[test]
fn an_end_that_is_found_before_the_device_is_busy_leaves_nothing_busy() {
    let usage = usage();
    let queue = Arc::new(usage.queue(Some(3)));
    for count in 1..10 {
        let other = queue.clone();
        *lock(&usage.clock.meanwhile) = Some(Box::new(move || other.ended(count)));
        queue.handed_over(count);
        queue.ended(count);
        assert_eq!((queue.is_busy(), usage.is_busy()), (false, false));
    }
}

#[test]
fn threads_at_one_time_never_count_more_than_has_passed() {
    let usage = usage();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let queue = usage.queue(Some(3));
            scope.spawn(move || {
                for count in 1..5_000 {
                    queue.handed_over(count);
                    queue.ended(count);
                }
            });
        }
        (0..1000).for_each(|_| usage.add_up());
    });
    assert!(!usage.is_busy());
    let (sum, time) = (usage.sum(), usage.time());
    assert!(sum > 0 && sum <= time, "{sum} of {time}");
}

#[test]
fn who_adds_up_sleeps_until_a_device_is_busy() {
    let usage = usage();
    usage.rings(Arc::new(Alarm::new().unwrap()));
    let queue = usage.queue(Some(3));
    let ((told, awake), (go_on, next)) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for () in next {
                usage.sleep();
                told.send(()).unwrap();
            }
        });
        let go_on = go_on;
        for count in 1..=20 {
            go_on.send(()).unwrap();
            queue.handed_over(count);
            awake.recv_timeout(Duration::from_secs(60)).unwrap();
            queue.ended(count);
        }
    });
}

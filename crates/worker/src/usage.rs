//! How long a session's commands keep each device busy.
//!
//! A queue is busy from when the worker has handed it a command until the worker knows that all of its commands have
//! ended; a device is busy while one of its queues is. Threads that hand over commands or learn of ends count with a few
//! atomic operations and never wait for each other. The sums are in a page that the daemon reads whenever it likes, also
//! after the worker was killed. [`crate::notify::idle`] finds out about queues that nobody waits for, and adds what has
//! passed so far to the sums.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Instant;

use crate::handoff::METERED_DEVICES;
use crate::native::SharedNumbers;

/// The bits of a device's state that count its busy queues: more than a session may have queues. The others are the
/// time at which the device became busy, or at which its sum was last added to, less all that is beyond 3 days.
const COUNT_BITS: u32 = 23;

const COUNT: u64 = (1 << COUNT_BITS) - 1;

/// The bit of a state that says that no time counts, as the session waits for its turn.
const PAUSED: u64 = COUNT + 1;

/// Where the time begins.
const TIME_AT: u32 = COUNT_BITS + 1;

const TIME: u64 = !(COUNT | PAUSED);

/// Such a time counts units of 256 ns.
const UNIT_BITS: u32 = 8;

/// What a session uses of its devices.
pub struct Usage {
    /// Where the nanoseconds of each device are summed up.
    page: Option<SharedNumbers>,
    /// The sums, if nobody else wants to know them.
    own: Vec<AtomicU64>,
    devices: Vec<AtomicU64>,
    start: Instant,
    /// The thread that adds up, ...
    adder: OnceLock<Thread>,
    /// ... and whether it sleeps until a device becomes busy.
    is_asleep: AtomicBool,
}

impl Usage {
    /// Of idle devices; the sums are in `page`, which has [`METERED_DEVICES`] numbers.
    pub fn new(page: Option<SharedNumbers>) -> Arc<Self> {
        let zeros = || (0..METERED_DEVICES).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let own = if page.is_some() { Vec::new() } else { zeros() };
        let (start, adder) = (Instant::now(), OnceLock::new());
        Arc::new(Self { page, own, devices: zeros(), start, adder, is_asleep: AtomicBool::new(false) })
    }

    /// A new queue of this device, which nothing is counted for if the device is none of the first [`METERED_DEVICES`].
    pub fn queue(self: &Arc<Self>, device: Option<usize>) -> QueueUsage {
        let usage = device.filter(|device| *device < METERED_DEVICES).map(|device| (self.clone(), device));
        QueueUsage { usage, state: AtomicU64::new(0) }
    }

    fn sums(&self) -> &[AtomicU64] {
        self.page.as_ref().map_or(&self.own, SharedNumbers::all)
    }

    fn now(&self) -> u64 {
        (self.start.elapsed().as_nanos() as u64 >> UNIT_BITS) << TIME_AT
    }

    /// Changes how many queues of a device are busy, or whether it is paused; returns how many were.
    fn change(&self, device: usize, by: impl Fn(u64) -> u64, paused: Option<bool>) -> u64 {
        let now = self.now();
        // The new state, and the time to add.
        let step = |state: u64| {
            let (count, was_paused, since) = (state & COUNT, state & PAUSED, state & TIME);
            let next = by(count);
            let pause = paused.map_or(was_paused, |paused| if paused { PAUSED } else { 0 });
            let passed = now.wrapping_sub(since).cast_signed();
            // A thread that has looked at the clock earlier may come later.
            let keeps = count > 0 && (passed < 0 || next > count);
            let adds = count > 0 && !keeps && was_paused == 0;
            let passed = if adds { passed.cast_unsigned() >> TIME_AT << UNIT_BITS } else { 0 };
            (next | pause | if keeps { since } else { now }, passed)
        };
        let state = &self.devices[device];
        let before = state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |state| Some(step(state).0));
        let before = before.unwrap_or_else(|before| before);
        let (_, passed) = step(before);
        if passed > 0 {
            self.sums()[device].fetch_add(passed, Ordering::Relaxed);
        }
        before & COUNT
    }

    fn begin(&self, device: usize) {
        let before = self.change(device, |count| (count + 1).min(COUNT), None);
        if before == 0 && self.is_asleep.load(Ordering::SeqCst) && self.is_asleep.swap(false, Ordering::SeqCst) {
            self.adder.get().into_iter().for_each(Thread::unpark);
        }
    }

    fn end(&self, device: usize) {
        self.change(device, |count| count.saturating_sub(1), None);
    }

    /// Adds to the sums what has passed until now.
    pub fn add_up(&self) {
        let busy = (0..METERED_DEVICES).filter(|&device| self.devices[device].load(Ordering::Relaxed) & COUNT > 0);
        busy.for_each(|device| {
            self.change(device, |count| count, None);
        });
    }

    /// Whether a device is busy.
    pub fn is_busy(&self) -> bool {
        self.devices.iter().any(|state| state.load(Ordering::SeqCst) & COUNT > 0)
    }

    /// Whether this device is busy.
    pub fn is_device_busy(&self, device: usize) -> bool {
        self.devices.get(device).is_some_and(|state| state.load(Ordering::SeqCst) & COUNT > 0)
    }

    /// Has no more time of this device counted, as the session waits for its turn there; or has it counted again.
    pub fn pause(&self, device: usize, paused: bool) {
        if device < METERED_DEVICES {
            self.change(device, |count| count, Some(paused));
        }
    }

    /// Blocks the calling thread, always the same, while no device is busy.
    pub fn sleep(&self) {
        self.adder.get_or_init(std::thread::current);
        self.is_asleep.store(true, Ordering::SeqCst);
        while self.is_asleep.load(Ordering::SeqCst) {
            if self.is_busy() {
                return self.is_asleep.store(false, Ordering::SeqCst);
            }
            std::thread::park();
        }
    }

    /// For how many nanoseconds this device has been busy, as far as they have been added up.
    pub fn used(&self, device: usize) -> u64 {
        self.sums()[device].load(Ordering::Relaxed)
    }
}

/// A queue's part in what its device is used.
pub struct QueueUsage {
    usage: Option<(Arc<Usage>, usize)>,
    /// How many commands have been handed over, doubled, and one more while it is busy.
    state: AtomicU64,
}

impl QueueUsage {
    /// Records that the first `count` commands of the queue have been handed over. Only the thread that hands over
    /// commands calls this.
    pub fn handed_over(&self, count: u64) {
        let Some((usage, device)) = &self.usage else { return };
        if self.state.load(Ordering::Relaxed) >> 1 == count {
            return;
        }
        if self.state.swap(count << 1 | 1, Ordering::SeqCst) & 1 == 0 {
            usage.begin(*device);
        }
    }

    /// Records that the first `count` commands of the queue have ended.
    pub fn ended(&self, count: u64) {
        let Some((usage, device)) = &self.usage else { return };
        let idle = |state: u64| (state & 1 == 1 && state >> 1 <= count).then_some(state & !1);
        if self.state.fetch_update(Ordering::SeqCst, Ordering::Relaxed, idle).is_ok() {
            usage.end(*device);
        }
    }

    /// The number of its device, if that is counted.
    pub fn device(&self) -> Option<usize> {
        self.usage.as_ref().map(|(_, device)| *device)
    }

    /// Whether it is busy.
    pub fn is_busy(&self) -> bool {
        self.state.load(Ordering::SeqCst) & 1 == 1
    }
}

impl Drop for QueueUsage {
    fn drop(&mut self) {
        self.ended(u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;

    const PART: Duration = Duration::from_millis(20);

    /// What `during` adds to the sum of device 3, and how long it took, in nanoseconds.
    fn used(usage: &Usage, during: impl FnOnce()) -> (u64, u64) {
        let (before, began) = (usage.used(3), Instant::now());
        during();
        (usage.used(3) - before, began.elapsed().as_nanos() as u64)
    }

    #[test]
    fn a_device_is_busy_while_one_of_its_queues_is() {
        let usage = Usage::new(None);
        let [one, other] = [(); 2].map(|()| usage.queue(Some(3)));
        let part = PART.as_nanos() as u64;
        let (sum, took) = used(&usage, || {
            one.handed_over(1);
            sleep(PART);
            other.handed_over(4);
            sleep(PART);
            one.ended(1);
            sleep(PART);
            other.ended(4);
        });
        assert!((3 * part..=took).contains(&sum), "{sum} of {took}");
        assert_eq!(used(&usage, || sleep(PART)).0, 0, "both are idle");
        assert_eq!(usage.used(0), 0);
        // What is added up early is not added up again.
        let (sum, took) = used(&usage, || {
            one.handed_over(2);
            for _ in 0..3 {
                sleep(PART);
                usage.add_up();
            }
            one.ended(2);
        });
        assert!((3 * part..=took).contains(&sum), "{sum} of {took}");
    }

    #[test]
    fn the_time_in_which_a_session_waits_for_its_turn_does_not_count() {
        let usage = Usage::new(None);
        let queue = usage.queue(Some(3));
        let part = PART.as_nanos() as u64;
        let (sum, took) = used(&usage, || {
            queue.handed_over(1);
            sleep(PART);
            usage.pause(3, true);
            usage.pause(3, true);
            sleep(4 * PART);
            usage.add_up();
            usage.pause(3, false);
            sleep(PART);
            queue.ended(1);
        });
        assert!((2 * part..=took - 4 * part).contains(&sum), "{sum} of {took}");
        usage.pause(3, true);
        assert_eq!(used(&usage, || sleep(PART)).0, 0);
        let sum = used(&usage, || {
            queue.handed_over(2);
            sleep(PART);
            queue.ended(2);
        });
        assert_eq!(sum.0, 0);
    }

    #[test]
    fn a_queue_is_busy_until_its_last_command_has_ended() {
        let usage = Usage::new(None);
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
        let usage = Usage::new(None);
        for device in [None, Some(METERED_DEVICES)] {
            let queue = usage.queue(device);
            queue.handed_over(1);
            assert_eq!((queue.is_busy(), usage.is_busy()), (false, false));
        }
    }

    #[test]
    fn threads_that_come_in_any_order_count_right() {
        let usage = Usage::new(None);
        let began = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let queue = usage.queue(Some(3));
                scope.spawn(move || {
                    for count in 1..20_000 {
                        queue.handed_over(count);
                        queue.ended(count);
                    }
                });
            }
            (0..1000).for_each(|_| usage.add_up());
        });
        assert!(!usage.is_busy());
        let sum = usage.used(3);
        assert!(sum > 0 && sum <= began.elapsed().as_nanos() as u64, "{sum}");
    }

    #[test]
    fn who_adds_up_sleeps_until_a_device_is_busy() {
        let usage = Usage::new(None);
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
            for count in 1..=100 {
                go_on.send(()).unwrap();
                queue.handed_over(count);
                awake.recv_timeout(Duration::from_secs(10)).unwrap();
                queue.ended(count);
            }
        });
    }
}

//! How long a session's commands keep each device busy.
//!
//! A queue is busy from when the worker has handed it a command until the worker knows that all of its commands have
//! ended; a device is busy while one of its queues is. Threads that hand over commands or learn of ends count with a few
//! atomic operations and never wait for each other. The sums are in a page that the daemon reads whenever it likes, also
//! after the worker was killed. [`crate::notify::idle`] finds out about queues that nobody waits for, and adds what has
//! passed so far to the sums.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::base::alarm::Alarm;
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

/// The time from one look at busy devices to the next.
pub const LOOK: Duration = Duration::from_millis(20);

/// Says how much time has passed.
pub trait Clock {
    /// In nanoseconds. It never goes back, whichever thread asks.
    fn now(&self) -> u64;
}

/// The time since then.
pub struct Since(Instant);

impl Clock for Since {
    fn now(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

/// What a session uses of its devices.
pub struct Usage<C = Since> {
    /// Where the nanoseconds of each device are summed up.
    page: Option<SharedNumbers>,
    /// The sums, if nobody else wants to know them.
    own: Vec<AtomicU64>,
    devices: Vec<AtomicU64>,
    clock: C,
    /// What wakes the thread that adds up, ...
    adder: OnceLock<Arc<Alarm>>,
    /// ... and whether that sleeps until a device becomes busy.
    is_asleep: AtomicBool,
}

impl Usage {
    /// Of idle devices; the sums are in `page`, which has [`METERED_DEVICES`] numbers.
    pub fn new(page: Option<SharedNumbers>) -> Arc<Self> {
        Self::by(Since(Instant::now()), page)
    }
}

impl<C: Clock> Usage<C> {
    fn by(clock: C, page: Option<SharedNumbers>) -> Arc<Self> {
        let zeros = || (0..METERED_DEVICES).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let own = if page.is_some() { Vec::new() } else { zeros() };
        let (adder, is_asleep) = (OnceLock::new(), AtomicBool::new(false));
        Arc::new(Self { page, own, devices: zeros(), clock, adder, is_asleep })
    }

    /// A new queue of this device, which nothing is counted for if the device is none of the first [`METERED_DEVICES`].
    pub fn queue(self: &Arc<Self>, device: Option<usize>) -> QueueUsage<C> {
        let usage = device.filter(|device| *device < METERED_DEVICES).map(|device| (self.clone(), device));
        QueueUsage { usage, state: AtomicU64::new(0) }
    }

    fn sums(&self) -> &[AtomicU64] {
        self.page.as_ref().map_or(&self.own, SharedNumbers::all)
    }

    fn now(&self) -> u64 {
        (self.clock.now() >> UNIT_BITS) << TIME_AT
    }

    /// Changes how many queues of a device are busy, or whether it is paused; returns how many were.
    fn change(&self, device: usize, by: impl Fn(u64) -> u64, paused: Option<bool>) -> u64 {
        let state = &self.devices[device];
        let mut before = state.load(Ordering::SeqCst);
        loop {
            // The clock is asked after the state that it is compared with is known. So that state's time, which a thread
            // has asked for before it wrote the state, has passed, and no time is counted that another thread has counted.
            let now = self.now();
            let (count, was_paused, since) = (before & COUNT, before & PAUSED, before & TIME);
            let next = by(count);
            let pause = paused.map_or(was_paused, |paused| if paused { PAUSED } else { 0 });
            // Whoever makes one more queue busy leaves the counting to others.
            let keeps = count > 0 && next > count;
            let after = next | pause | if keeps { since } else { now };
            match state.compare_exchange_weak(before, after, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => {
                    let passed = now.wrapping_sub(since) >> TIME_AT << UNIT_BITS;
                    if count > 0 && !keeps && was_paused == 0 && passed > 0 {
                        self.sums()[device].fetch_add(passed, Ordering::Relaxed);
                    }
                    return count;
                }
                Err(other) => before = other,
            }
        }
    }

    fn begin(&self, device: usize) {
        let before = self.change(device, |count| (count + 1).min(COUNT), None);
        if before == 0 && self.is_asleep.load(Ordering::SeqCst) && self.is_asleep.swap(false, Ordering::SeqCst) {
            // By a timer, as there is nothing to add up yet: to wake a thread costs as much as a small kernel.
            self.adder.get().into_iter().for_each(|alarm| alarm.remind(LOOK));
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

    /// Has no more time of this device counted, as the session waits for its turn there; or has it counted again.
    pub fn pause(&self, device: usize, paused: bool) {
        if device < METERED_DEVICES {
            self.change(device, |count| count, Some(paused));
        }
    }

    /// Has this alarm ring a [`LOOK`] after a device has become busy, for the thread that will call [`Self::sleep`].
    pub fn rings(&self, alarm: Arc<Alarm>) {
        if self.adder.set(alarm).is_ok() {
            self.is_asleep.store(true, Ordering::SeqCst);
        }
    }

    /// Blocks the calling thread, always the same, while no device is busy, and then for a [`LOOK`].
    pub fn sleep(&self) {
        let Some(alarm) = self.adder.get() else { return std::thread::sleep(LOOK) };
        self.is_asleep.store(true, Ordering::SeqCst);
        while self.is_asleep.load(Ordering::SeqCst) {
            if self.is_busy() {
                self.is_asleep.store(false, Ordering::SeqCst);
                return std::thread::sleep(LOOK);
            }
            alarm.wait_to_be_rung();
            alarm.has_rung();
        }
    }
}

/// A queue's part in what its device is used.
pub struct QueueUsage<C: Clock = Since> {
    usage: Option<(Arc<Usage<C>>, usize)>,
    /// How many commands have been handed over, doubled, and one more while it is busy.
    state: AtomicU64,
}

impl<C: Clock> QueueUsage<C> {
    /// Records that the first `count` commands of the queue have been handed over. Only the thread that hands over
    /// commands calls this.
    pub fn handed_over(&self, count: u64) {
        let Some((usage, device)) = &self.usage else { return };
        let (mut before, busy) = (self.state.load(Ordering::Relaxed), count << 1 | 1);
        while before >> 1 != count {
            // Nobody else changes an idle queue. Its device is busy before it says to be so itself: whoever found its
            // end in between would otherwise give back what has not been taken.
            if before & 1 == 0 {
                usage.begin(*device);
                return self.state.store(busy, Ordering::SeqCst);
            }
            match self.state.compare_exchange_weak(before, busy, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => before = other,
            }
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

impl<C: Clock> Drop for QueueUsage<C> {
    fn drop(&mut self) {
        self.ended(u64::MAX);
    }
}

#[cfg(test)]
mod tests;

//! An alarm that wakes a thread: a timer, so that none is woken for what is over soon.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ropeway_transport::Link;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};

/// Time after which the follower checks on a job.
const LATER: Duration = Duration::from_micros(300);

/// The shortest time: a timer that is set to zero does not ring.
const NOW: Duration = Duration::from_nanos(1);

/// The timer.
pub struct Alarm {
    timer: OwnedFd,
    is_set: AtomicBool,
    /// The turn at which it was set.
    turn: AtomicU64,
}

impl Alarm {
    /// One that is not set.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self { timer, is_set: AtomicBool::new(false), turn: AtomicU64::new(0) })
    }

    /// Has it ring after this time, or sooner if it is set meanwhile.
    pub fn remind(&self, time: Duration) {
        self.ring_after(time, 0);
    }

    /// Waits until it has rung, however long that takes. It can be looked at then as one that has rung.
    pub fn wait_to_be_rung(&self) {
        // An interrupted wait goes on.
        while !poll(&mut [PollFd::new(&self.timer, PollFlags::IN)], None).is_ok_and(|ready| ready > 0) {}
    }

    /// Has it ring soon, if it is not to ring anyway.
    pub fn set(&self, turn: u64) {
        if !self.is_set.swap(true, Ordering::SeqCst) {
            self.ring_after(LATER, turn);
        }
    }

    /// Has it ring only after this time, if it is set to ring soon: whatever it was set for is over.
    pub fn put_off(&self, time: Duration) {
        if self.is_set.swap(false, Ordering::SeqCst) {
            self.ring_after(time, 0);
        }
    }

    /// Has it ring now.
    pub fn ring(&self, turn: u64) {
        self.is_set.store(true, Ordering::SeqCst);
        self.ring_after(NOW, turn);
    }

    fn ring_after(&self, time: Duration, turn: u64) {
        self.turn.store(turn, Ordering::SeqCst);
        let value = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        let once = Itimerspec { it_interval: Timespec::default(), it_value: value };
        // This fails only for an invalid timer or time.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once);
    }

    /// Waits until the alarm rings or bytes have come on `link`, for at most `patience`. Returns whether there are
    /// bytes.
    pub fn wait(&self, link: Option<&Link>, patience: Duration) -> bool {
        let timeout = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: i64::from(patience.subsec_nanos()) };
        let timer = PollFd::new(&self.timer, PollFlags::IN);
        // An interrupted wait is as good as one that is over.
        let Some(link) = link else {
            let _ = poll(&mut [timer], Some(&timeout));
            return false;
        };
        if link.has_more() {
            return true;
        }
        if link.is_readable_or_will_tell() {
            return true;
        }
        let mut both = [timer, PollFd::new(link, PollFlags::IN)];
        let _ = poll(&mut both, Some(&timeout));
        !both[1].revents().is_empty()
    }

    /// If the alarm has rung, returns the turn at which it was set; from then on it can be set again.
    pub fn has_rung(&self) -> Option<u64> {
        let mut times = [0; 8];
        rustix::io::read(&self.timer, &mut times).ok()?;
        let turn = self.turn.load(Ordering::SeqCst);
        self.is_set.store(false, Ordering::SeqCst);
        Some(turn)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn it_rings_once_for_the_turn_at_which_it_was_set() {
        let alarm = Alarm::new().unwrap();
        assert_eq!(alarm.has_rung(), None);
        let begin = Instant::now();
        alarm.set(7);
        alarm.set(8);
        alarm.wait(None, Duration::from_secs(10));
        assert!(begin.elapsed() >= LATER && begin.elapsed() < Duration::from_secs(5));
        assert_eq!((alarm.has_rung(), alarm.has_rung()), (Some(7), None));
        alarm.set(9);
        alarm.ring(10);
        alarm.wait(None, Duration::from_secs(10));
        assert_eq!((alarm.has_rung(), alarm.has_rung()), (Some(10), None));
        // Who is put off is not woken, and can be set again.
        alarm.set(12);
        alarm.put_off(Duration::from_secs(600));
        let begin = Instant::now();
        alarm.wait(None, 3 * LATER);
        assert!(begin.elapsed() >= 3 * LATER && alarm.has_rung().is_none());
        alarm.set(13);
        alarm.put_off(Duration::from_secs(600));
        alarm.set(14);
        alarm.wait_to_be_rung();
        assert_eq!(alarm.has_rung(), Some(14));
        // A reminder is not waited for where it is set to ring soon.
        alarm.remind(Duration::from_secs(600));
        alarm.set(11);
        alarm.wait_to_be_rung();
        assert_eq!(alarm.has_rung(), Some(11));
    }
}

//! How long kernels run and builds take, in sessions where there is a limit for that.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::whose;
use crate::base::allowance::Allowance;
use crate::base::error::End;
use crate::base::lock::lock;
use crate::native::running::{self, UnderWay, Watcher};

/// The shortest time from one look to the next, ...
const MIN_PAUSE: Duration = Duration::from_millis(5);

/// ... and the longest.
const MAX_PAUSE: Duration = Duration::from_millis(250);

/// The number of looks in the time of a limit.
const LOOKS: u32 = 16;

/// A look takes at most one part in so many of the time: a client may have any number of commands under way.
const SHARE: u32 = 8;

/// The limits on time, and what they are held against.
pub struct Clock {
    kernel_time: Option<Duration>,
    build_time: Option<Duration>,
    /// Whose limits they are, as part of a sentence.
    whose: String,
    /// When the builds that are not over began.
    builds: Mutex<Vec<Instant>>,
    /// When the look at the commands began that is not over.
    look: Mutex<Option<Instant>>,
    /// Whether no command was under way at the last look.
    is_idle: AtomicBool,
}

/// A build, while it lasts.
pub struct Building<'a>(&'a Clock, Instant);

impl Drop for Building<'_> {
    fn drop(&mut self) {
        let mut builds = lock(&self.0.builds);
        if let Some(at) = builds.iter().position(|began| *began == self.1) {
            builds.swap_remove(at);
        }
    }
}

impl Clock {
    /// The limits that `allowance` sets.
    pub fn new(allowance: &Allowance) -> Self {
        let Allowance { kernel_time, build_time, .. } = *allowance;
        if kernel_time.is_some() {
            running::watch(Watcher::Clock, true);
        }
        if kernel_time.and(build_time).is_some() {
            running::count_launches();
        }
        let (whose, builds, look, is_idle) = (whose(allowance), Mutex::default(), Mutex::default(), false.into());
        Self { kernel_time, build_time, whose, builds, look, is_idle }
    }

    /// Marks a build, a compilation or a link as begun, until the result is dropped.
    pub fn building(&self) -> Option<Building<'_>> {
        self.build_time.map(|_| {
            let now = Instant::now();
            lock(&self.builds).push(now);
            Building(self, now)
        })
    }

    /// Whether there is a limit to watch.
    pub fn has_limits(&self) -> bool {
        self.kernel_time.is_some() || self.build_time.is_some()
    }

    /// Watches, with threads that `start` starts, until something takes longer than it may; `over` is then called with
    /// the end of the session.
    pub fn watch(self: &Arc<Self>, over: impl FnOnce(End), start: impl FnOnce(Box<dyn FnOnce() + Send>)) {
        // A driver may keep the thread that asks it how far its commands are, so that one is watched, too.
        let (looking, limit) = (self.clone(), self.kernel_time);
        let exceeded = Arc::new(Mutex::new(false));
        if let Some(limit) = limit {
            let seen = exceeded.clone();
            start(Box::new(move || {
                looking.look_at_kernels(limit);
                *lock(&seen) = true;
            }));
        }
        let pause = pause(self.kernel_time.into_iter().chain(self.build_time).min().unwrap_or(MAX_PAUSE));
        let mut launching = (0, Instant::now());
        over(loop {
            thread::sleep(pause);
            let is_over = |began: Instant, limit: Option<Duration>| limit.is_some_and(|limit| began.elapsed() > limit);
            let began = *lock(&self.look);
            if *lock(&exceeded) || began.is_some_and(|began| is_over(began, self.kernel_time)) {
                break self.end("a kernel has run", "kernel_time", self.kernel_time);
            }
            // A driver may compile in a call that launches a kernel, but also wait there for commands under way.
            let now = running::launch().filter(|_| self.is_idle.load(Ordering::Relaxed)).unwrap_or(0);
            if now != launching.0 {
                launching = (now, Instant::now());
            }
            let launch = (now != 0).then_some(launching.1);
            let began = lock(&self.builds).iter().copied().chain(launch).min();
            if began.is_some_and(|began| is_over(began, self.build_time)) {
                break self.end("a build has taken", "build_time", self.build_time);
            }
        });
    }

    fn end(&self, what: &str, rule: &str, limit: Option<Duration>) -> End {
        let (limit, whose) = (limit.unwrap_or_default(), &self.whose);
        End::Limit(format!("{what} longer than {limit:?}, and {whose} allows no more ({rule})"))
    }

    /// Returns once a kernel has run for longer than `limit`.
    fn look_at_kernels(&self, limit: Duration) {
        let mut under_way = UnderWay::of(Watcher::Clock);
        loop {
            let began = Instant::now();
            *lock(&self.look) = Some(began);
            let longest = under_way.look(began);
            self.is_idle.store(under_way.is_empty(), Ordering::Relaxed);
            *lock(&self.look) = None;
            if longest.is_some_and(|time| time > limit) {
                return;
            }
            thread::sleep(pause(limit).max(began.elapsed() * SHARE));
        }
    }
}

/// The time from one look to the next for a limit.
fn pause(limit: Duration) -> Duration {
    (limit / LOOKS).clamp(MIN_PAUSE, MAX_PAUSE)
}

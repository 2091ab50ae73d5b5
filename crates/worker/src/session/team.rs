//! The threads of a session: one reads commands, the others wait for the device or the client.
//!
//! The thread that holds the reader's lock (the *leader*) reads commands and carries them out. Work that may wait is a
//! [`Job`]: the leader runs it itself, with the lock given up. Usually the leader is back before anybody noticed and
//! takes the lock again, so that no thread was woken for a blocking call. If more calls wait than there may be threads,
//! the leader hands the waits for the device to the notifier, which needs no thread for each ([`Job::leave`]). If the
//! leader stays away, an [`Alarm`] wakes the *follower*, which watches the link too. As soon as there is something to
//! read, the follower takes the lock over and leads; the old leader, once back, finds the lock taken and follows.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;

use ropeway_transport::Link;

use super::common::Common;
use super::job::Job;
use super::{Handlers, Session};
use crate::base::alarm::Alarm;
use crate::base::error::End;
use crate::base::lock::lock;
use crate::link::heartbeat::{HEARTBEAT, Watchdog};
use crate::link::input::Input;

/// Most threads of a session. Each is in a job, or one of the two that are not.
const MAX_THREADS: usize = 64;

/// Most threads in jobs. With so many, the leader runs jobs itself before it reads on.
const MAX_IN_JOBS: usize = MAX_THREADS - 2;

/// Limit on the threads in jobs for starting a job that waits for the device, which may take for ever; beyond it, the
/// notifier waits instead. The remaining threads are for jobs that end by themselves.
const MAX_WAITING: usize = 48;

/// The leader's state.
pub struct Reader {
    /// Where commands come from.
    pub input: Input,
    /// The session that the commands act on.
    pub session: Session,
}

impl Reader {
    /// Reads and carries out commands until one asks for something that may wait; calls `rest` each time before this thread
    /// sleeps, as nothing has come.
    fn next_job(&mut self, rest: &dyn Fn()) -> Result<Job, End> {
        let Self { input, session } = self;
        let common = session.common.clone();
        loop {
            let busy = common.leading.busy();
            while input.dispatch(&mut Handlers(session))? {
                session.check_bounds()?;
                if let Some(job) = session.job.take() {
                    let finished = if let Job::Finish(asked, _) = &job { Some(&asked.queue) } else { None };
                    session.queue_states.flush(finished);
                    return Ok(job);
                }
            }
            if session.owes_anything() || session.queue_states.is_dirty() {
                if input.try_fill()? {
                    continue;
                }
                session.queue_states.flush(None);
                if let Some(job) = session.idle_job() {
                    return Ok(job);
                }
            }
            common.limits.settle(|| session.objects());
            drop(busy);
            input.fill(rest)?;
        }
    }
}

/// The threads of a session.
pub struct Team {
    reader: Mutex<Reader>,
    /// Changes whenever somebody takes or leaves the reader's lock.
    turns: AtomicU64,
    /// Held by the one follower that looks; others queue up behind it.
    lookout: Mutex<()>,
    /// Wakes the follower that looks.
    alarm: Arc<Alarm>,
    /// Where commands come from.
    link: Arc<Link>,
    /// The follower is to take over at once.
    urgent: AtomicBool,
    /// Whether the leader, which is in a job, has left work to the next leader.
    unsettled: AtomicBool,
    followers: AtomicUsize,
    in_jobs: AtomicUsize,
    threads: AtomicUsize,
    over: Box<dyn Fn(End) + Send + Sync>,
    common: Arc<Common>,
}

impl Team {
    /// Makes a team for this session. A first follower, which calls [`Self::join`], waits for `alarm`, which is not set
    /// yet. The thread that finds out that the session is over calls `over` with the reason.
    pub fn new(reader: Reader, alarm: Arc<Alarm>, over: impl Fn(End) + Send + Sync + 'static) -> Arc<Self> {
        let common = reader.session.common.clone();
        Arc::new(Self {
            alarm,
            link: reader.input.link().clone(),
            reader: Mutex::new(reader),
            turns: AtomicU64::new(0),
            lookout: Mutex::new(()),
            urgent: AtomicBool::new(false),
            unsettled: AtomicBool::new(false),
            // The thread that leads first, and the one that joins.
            followers: AtomicUsize::new(1),
            threads: AtomicUsize::new(2),
            in_jobs: AtomicUsize::new(0),
            over: Box::new(over),
            common,
        })
    }

    /// The state that all threads of the session share.
    pub fn common(&self) -> &Arc<Common> {
        &self.common
    }

    /// Ends the session.
    pub fn end(&self, end: End) {
        (self.over)(end);
    }

    /// Lets the calling thread lead first.
    pub fn serve(self: &Arc<Self>) {
        let first = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        // The follower is to see in time whether the leader stays in a native call.
        self.alarm.remind(HEARTBEAT);
        let outcome = self.lead(first).and_then(|()| self.take_turns());
        if let Err(end) = outcome {
            self.end(end);
        }
    }

    /// Lets the calling thread, which the team knows of already, follow first.
    pub fn join(self: &Arc<Self>) {
        if let Err(end) = self.take_turns() {
            self.end(end);
        }
    }

    /// Starts a follower thread; returns whether that succeeded.
    fn add_follower(self: &Arc<Self>) -> bool {
        let room = |threads: usize| (threads < MAX_THREADS).then_some(threads + 1);
        if self.threads.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_err() {
            return false;
        }
        self.followers.fetch_add(1, Ordering::Relaxed);
        let team = self.clone();
        let spawned = thread::Builder::new().name("session".into()).spawn(move || team.join());
        if spawned.is_err() {
            self.followers.fetch_sub(1, Ordering::Relaxed);
            self.threads.fetch_sub(1, Ordering::Relaxed);
        }
        spawned.is_ok()
    }

    /// Follows and leads in turn. The caller counts as a follower already.
    fn take_turns(self: &Arc<Self>) -> Result<(), End> {
        loop {
            let reader = self.follow();
            // Keep a follower ready: otherwise, if this thread is kept waiting, another takes over too late.
            if self.followers.load(Ordering::Relaxed) == 0 && self.threads.load(Ordering::Relaxed) < MAX_THREADS / 2 {
                self.add_follower();
            }
            self.lead(reader)?;
        }
    }

    /// Leads until another thread does; the caller counts as a follower then.
    fn lead<'a>(self: &'a Arc<Self>, mut reader: MutexGuard<'a, Reader>) -> Result<(), End> {
        loop {
            let job = reader.next_job(&|| self.rest())?;
            if !self.has_thread_for(&job) {
                let _busy = self.common.leading.busy();
                job.leave(&self.common)?;
                continue;
            }
            let more = reader.input.buffered();
            self.unsettled.store(reader.session.owes_anything(), Ordering::SeqCst);
            drop(reader);
            let turn = self.turns.fetch_add(1, Ordering::Relaxed) + 1;
            self.in_jobs.fetch_add(1, Ordering::SeqCst);
            if more {
                // Commands are waiting already, behind one that may wait long.
                self.urgent.store(true, Ordering::SeqCst);
                self.alarm.ring(turn);
            } else {
                self.alarm.set(turn);
            }
            let outcome = job.run(&self.common);
            self.in_jobs.fetch_sub(1, Ordering::SeqCst);
            outcome?;
            self.common.stay_if_over();
            reader = match self.reader.try_lock() {
                Ok(reader) => reader,
                Err(TryLockError::Poisoned(error)) => error.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    self.followers.fetch_add(1, Ordering::Relaxed);
                    return Ok(());
                }
            };
            self.turns.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The leader is about to sleep. If nobody is in a job, the follower need not look after any: it would be woken for each
    /// job behind which the client pauses.
    fn rest(&self) {
        // Only the leader, which this thread is, goes into a job.
        if self.in_jobs.load(Ordering::SeqCst) == 0 {
            self.alarm.put_off(HEARTBEAT);
        }
    }

    /// Whether the leader may run `job`, because another thread can lead meanwhile.
    fn has_thread_for(self: &Arc<Self>, job: &Job) -> bool {
        let most = if job.awaits_device() { MAX_WAITING } else { MAX_IN_JOBS };
        self.in_jobs.load(Ordering::SeqCst) < most
            && (self.followers.load(Ordering::Relaxed) > 0 || self.add_follower())
    }

    /// Watches until the reader's lock is free while there is something to do, and takes the lock.
    fn follow(&self) -> MutexGuard<'_, Reader> {
        let _lookout = lock(&self.lookout);
        let mut watchdog = Watchdog::new();
        // Whether a leader has been in a job since the last look.
        let mut is_away = false;
        if self.in_jobs.load(Ordering::SeqCst) > 0 {
            // The follower that looked before has consumed the alarm.
            self.alarm.set(self.turns.load(Ordering::Relaxed));
        }
        loop {
            let any_bytes = self.alarm.wait(is_away.then_some(&*self.link), HEARTBEAT);
            self.common.stay_if_over();
            // A broken link is the leader's to find.
            let _ = watchdog.look(&self.common.leading, &self.common.client.outgoing);
            // In this order: a leader that goes into a job either sets the alarm anew or is seen here.
            let rung = self.alarm.has_rung();
            let urgent = self.urgent.swap(false, Ordering::SeqCst);
            if self.in_jobs.load(Ordering::SeqCst) == 0 {
                is_away = false;
                continue;
            }
            if let Some(turn) = rung {
                let now = self.turns.load(Ordering::Relaxed);
                is_away = turn == now;
                if !is_away {
                    self.alarm.set(now);
                }
            }
            if urgent || is_away && (any_bytes || self.unsettled.load(Ordering::SeqCst)) {
                is_away = false;
                let reader = match self.reader.try_lock() {
                    Ok(reader) => reader,
                    Err(TryLockError::Poisoned(error)) => error.into_inner(),
                    Err(TryLockError::WouldBlock) => continue,
                };
                self.turns.fetch_add(1, Ordering::Relaxed);
                self.followers.fetch_sub(1, Ordering::Relaxed);
                return reader;
            }
        }
    }
}

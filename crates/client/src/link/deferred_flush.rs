//! Deferred flushes: posts to one of several servers that a program works with at the same time.
//!
//! A link's first message after a pause goes out at once, and wakes the link's background I/O thread for those behind
//! it. With many servers in one context that would cost a thread and a system call for each server, for a few messages
//! that somebody is about to flush anyway. On such links, therefore, posts are batched from the first on, and one
//! thread for all links ensures that none stays unsent for long. Where many links are to be flushed at once, that
//! thread takes its share; where a program flushes them one right after the other, it takes all but the first, and what
//! the program posts meanwhile goes with that.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use ropeway_protocol::ids::SessionId;

use crate::base::sync::lock;
use crate::base::threads;

/// Nothing stays unsent longer than this.
const TICK: Duration = Duration::from_millis(1);

/// The number of links from which on two threads send.
pub(crate) const MANY: usize = 8;

/// Flushes that follow each other this closely are a burst: sending takes about as long.
const CLOSELY: Duration = Duration::from_micros(50);

/// When a program last flushed one of many links.
#[derive(Debug)]
pub(crate) struct Bursts {
    begun: Instant,
    /// In nanoseconds since then.
    last: AtomicU64,
}

impl Default for Bursts {
    fn default() -> Self {
        Self { begun: Instant::now(), last: AtomicU64::new(0) }
    }
}

impl Bursts {
    /// Records a flush, and tells whether another one came just before it.
    pub(crate) fn go_on(&self) -> bool {
        self.go_on_at(self.begun.elapsed())
    }

    fn go_on_at(&self, now: Duration) -> bool {
        let now = now.as_nanos() as u64;
        let last = self.last.swap(now.max(1), Ordering::Relaxed);
        last > 0 && u128::from(now.saturating_sub(last)) < CLOSELY.as_nanos()
    }
}

/// A link's part in the deferred flush.
#[derive(Default, Debug)]
pub(super) struct Deferred {
    /// Contexts that have other servers, too.
    contexts: AtomicUsize,
    /// Something was posted since the last round.
    posted: AtomicBool,
}

/// A link that the rounds come to.
pub(super) trait Visited: Send + Sync {
    /// Sends what has been posted, as far as the socket takes it at once.
    fn be_visited(&self);

    /// Whether the link's server is not lost and shares a context with others.
    fn is_shared(&self) -> bool;

    /// Takes in what has come, and loses a server that does not live.
    fn look_whether_it_lives(&self);

    /// Tells its server that the client has lost another one's session.
    fn lose_peer(&self, peer: SessionId);
}

/// All links.
static LINKS: Mutex<Vec<Weak<dyn Visited>>> = Mutex::new(Vec::new());

/// The thread that makes the rounds; none where it could not be started.
static THREAD: OnceLock<Option<Thread>> = OnceLock::new();

/// Whether a round is to be made.
static DUE: AtomicBool = AtomicBool::new(false);

/// Whether it is to be made now.
static HURRY: AtomicBool = AtomicBool::new(false);

/// Has the rounds come to a link from now on.
pub(super) fn join<V: Visited + 'static>(link: &Arc<V>) {
    let link = Arc::downgrade(link);
    let mut links = lock(&LINKS);
    links.retain(|link| link.strong_count() > 0);
    links.push(link);
    let are_many = links.len() >= MANY;
    drop(links);
    if are_many {
        // A context of many of them will want it, and should not wait until it is there.
        thread();
    }
}

/// The thread that makes the rounds, started if it is not there; `None` where it could not be.
fn thread() -> Option<&'static Thread> {
    let new = || thread::Builder::new().name("ropeway-rounds".into());
    let start = || Some(threads::start(|| new().spawn(make_rounds)).ok()?.thread().clone());
    THREAD.get_or_init(start).as_ref()
}

impl Deferred {
    /// A context with several homes has one here (or, with false, no longer has).
    pub(super) fn count_context(&self, made: bool) {
        if made {
            self.contexts.fetch_add(1, Ordering::Relaxed);
        } else {
            self.contexts.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Leaves what was just posted to the next round, if the link is one of several servers.
    pub(super) fn leave(&self) -> bool {
        if !self.is_shared() {
            return false;
        }
        let Some(thread) = thread() else { return false };
        if !self.posted.swap(true, Ordering::SeqCst) && !DUE.swap(true, Ordering::SeqCst) {
            thread.unpark();
        }
        true
    }

    /// Whether there are contexts that have other servers, too.
    pub(super) fn is_shared(&self) -> bool {
        self.contexts.load(Ordering::Relaxed) > 0
    }

    /// Whether anything was posted since the last round.
    pub(super) fn take_posted(&self) -> bool {
        // Mostly nothing was: then the round leaves the link to the threads that post there, and takes nothing from their caches.
        self.posted.load(Ordering::SeqCst) && self.posted.swap(false, Ordering::SeqCst)
    }
}

/// Starts a round at once: the caller sends, too, but begins at the other end of the list of links.
pub(crate) fn hurry() {
    if let Some(Some(thread)) = THREAD.get() {
        HURRY.store(true, Ordering::SeqCst);
        DUE.store(true, Ordering::SeqCst);
        thread.unpark();
    }
}

/// Checks whether the other servers that share a context are alive. Called when a thread waits for `one` without
/// success: it may be waiting for what another server should have sent.
pub(super) fn look_at_others(one: &dyn Visited) {
    others(one).iter().for_each(|link| link.look_whether_it_lives());
}

/// Tells the other servers that share a context that the session `peer` over `one` is lost. They may not notice by
/// themselves: its machine may still be up although its program has stopped.
pub(super) fn tell_others_of_loss(one: &dyn Visited, peer: SessionId) {
    others(one).iter().for_each(|link| link.lose_peer(peer));
}

/// Returns the links, except `one`, to servers that share a context with others.
fn others(one: &dyn Visited) -> Vec<Arc<dyn Visited>> {
    let links: Vec<_> = lock(&LINKS).iter().filter_map(Weak::upgrade).collect();
    links.into_iter().filter(|link| link.is_shared() && !std::ptr::addr_eq(Arc::as_ptr(link), one)).collect()
}

fn make_rounds() {
    loop {
        while !DUE.load(Ordering::SeqCst) {
            thread::park();
        }
        if !HURRY.load(Ordering::SeqCst) {
            thread::park_timeout(TICK);
        }
        HURRY.store(false, Ordering::SeqCst);
        // Frames that are posted from here on are for the next flush.
        DUE.store(false, Ordering::SeqCst);
        let links: Vec<_> = lock(&LINKS).iter().rev().filter_map(Weak::upgrade).collect();
        links.iter().for_each(|link| link.be_visited());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_what_comes_right_after_another() {
        let bursts = Bursts::default();
        let at = [0, 10, 59, 109, 158, 1000, 1001].map(Duration::from_micros);
        assert_eq!(at.map(|at| bursts.go_on_at(at)), [false, true, true, false, true, false, true]);
    }
}

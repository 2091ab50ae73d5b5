//! Posts to one of several servers that a program works with at the same time.
//!
//! A link's first message after a pause goes out at once, and wakes the link's helper for those behind it. With many servers in one context that
//! would be a thread and a system call for each of them, for a few messages that somebody is about to flush anyway. So there, posts
//! are gathered from the first on, and one thread for all links sees to it that none stays unsent for long. Where many are to be sent at once, it
//! takes its share.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread::{self, Thread};
use std::time::Duration;

use super::connection::Connection;
use crate::base::sync::lock;

/// Nothing stays unsent longer than this.
const TICK: Duration = Duration::from_millis(1);

/// What a link has to do with the rounds.
#[derive(Default, Debug)]
pub(super) struct Rounds {
    /// Contexts that have other servers, too.
    contexts: AtomicUsize,
    /// Something was posted since the last round.
    posted: AtomicBool,
}

/// All links.
static LINKS: Mutex<Vec<Weak<Connection>>> = Mutex::new(Vec::new());

/// The thread that makes the rounds; none where it could not be started.
static THREAD: OnceLock<Option<Thread>> = OnceLock::new();

/// Whether a round is to be made.
static DUE: AtomicBool = AtomicBool::new(false);

/// Whether it is to be made now.
static HURRY: AtomicBool = AtomicBool::new(false);

impl Connection {
    /// Has the rounds come to it.
    pub(super) fn join_rounds(self: &Arc<Self>) {
        let mut links = lock(&LINKS);
        links.retain(|link| link.strong_count() > 0);
        links.push(Arc::downgrade(self));
    }

    /// A context with several homes has one here (or, with false, no longer has).
    pub(crate) fn count_shared_context(&self, made: bool) {
        if made {
            self.rounds.contexts.fetch_add(1, Ordering::Relaxed);
        } else {
            self.rounds.contexts.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Leaves what was just posted to the next round, if it is one of several servers and its helper sleeps.
    pub(super) fn leave_to_round(&self) -> bool {
        if self.rounds.contexts.load(Ordering::Relaxed) == 0 || !self.helper.is_quiet() {
            return false;
        }
        let start =
            || Some(thread::Builder::new().name("ropeway-rounds".into()).spawn(make_rounds).ok()?.thread().clone());
        let Some(thread) = THREAD.get_or_init(start) else { return false };
        if !self.rounds.posted.swap(true, Ordering::SeqCst) && !DUE.swap(true, Ordering::SeqCst) {
            thread.unpark();
        }
        true
    }

    /// Sends what has been posted, as far as the socket takes it at once; the rest is the helper's.
    fn be_visited(&self) {
        if self.rounds.posted.swap(false, Ordering::SeqCst)
            && !self.check(self.outbox.try_flush(&self.link)).unwrap_or(true)
        {
            self.helper.note_activity();
        }
    }
}

/// Has a round made now: the caller sends, too, but from the other end of the links on.
pub(super) fn hurry() {
    if let Some(Some(thread)) = THREAD.get() {
        HURRY.store(true, Ordering::SeqCst);
        DUE.store(true, Ordering::SeqCst);
        thread.unpark();
    }
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
        // What is posted from here on is for the next round.
        DUE.store(false, Ordering::SeqCst);
        let links: Vec<_> = lock(&LINKS).iter().rev().filter_map(Weak::upgrade).collect();
        links.iter().for_each(|link| link.be_visited());
    }
}

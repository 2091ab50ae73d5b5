//! Threads that wait for native events, each for one event or for those of one queue that runs its commands in order.
//!
//! A waiting thread learns of an event's end sooner than a callback: some 6 us against 30 on NVIDIA 580, whose
//! callbacks for anything longer than a millisecond come about 20 ms late. So a few threads wait, and only the events
//! beyond their number are left to callbacks. One thread waits for all events of an in-order queue, one after the
//! other: with several threads, each further one slows all of them down (20 us a kernel with twelve).

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use rustc_hash::FxHashMap;

use super::notification::{Notification, Post};
use super::watched::{Awaited, Watched};
use crate::base::modelled::{Condvar, Mutex, lock, start};
use crate::base::order::Turn;
use crate::native::Event;

/// Most threads that wait. In a model, fewer are soon all busy.
const MOST: usize = if cfg!(all(test, feature = "model")) { 2 } else { 12 };

/// The number of watched events left to callbacks from which finished ones are dropped.
const LEFT: usize = if cfg!(all(test, feature = "model")) { 1 } else { 64 };

/// The next wait of a thread.
enum Next<E> {
    Asked(Asked<E>),
    Left(Arc<Watched<E>>),
}

/// An event, its notification, and the queue that the thread then goes on to follow.
struct Asked<E> {
    event: E,
    notification: Notification,
    line: Option<u64>,
}

/// A queue whose events one thread waits for, one after the other.
struct Followed<E> {
    /// The number of the last event. An earlier event must not be put behind it, as the last one may depend on it.
    last: u64,
    more: VecDeque<(E, Notification)>,
}

/// The events that are waited for, and the threads that wait.
pub struct Waiters<E = Event> {
    state: Mutex<State<E>>,
    more: Condvar,
    /// Where the end of the session is reported.
    post: Post,
}

struct State<E> {
    /// Events that no thread has taken yet; never more than there are idle threads.
    queue: VecDeque<Asked<E>>,
    /// The queues that threads follow.
    lines: FxHashMap<u64, Followed<E>>,
    /// Events left to callbacks, in order: a thread that becomes free waits for the next of them all the same, as it is
    /// likely to notice the end sooner.
    left: VecDeque<Arc<Watched<E>>>,
    /// The length of `left` at which finished events are dropped from it.
    look_at: usize,
    idle: usize,
    threads: usize,
}

impl<E> Default for State<E> {
    fn default() -> Self {
        let (queue, lines, left) = (VecDeque::new(), FxHashMap::default(), VecDeque::new());
        Self { queue, lines, left, look_at: 0, idle: 0, threads: 0 }
    }
}

impl<E: Awaited> Waiters<E> {
    /// Makes waiters without threads yet, which report the end of the session to `post`.
    pub fn new(post: Post) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), more: Condvar::new(), post })
    }

    /// Lets a thread wait for `event` and send `notification`; returns both to the caller if all threads are busy.
    /// `turn` is the place of its command.
    pub fn wait_in_a_thread(
        self: &Arc<Self>,
        event: E,
        turn: Option<Turn>,
        notification: Notification,
    ) -> Result<(), (E, Notification)> {
        let mut state = lock(&self.state);
        let mut line = None;
        if let Some(turn) = turn {
            match state.lines.get_mut(&turn.line) {
                Some(followed) if followed.last < turn.number => {
                    followed.last = turn.number;
                    followed.more.push_back((event, notification));
                    return Ok(());
                }
                Some(_) => {}
                None => line = Some(turn),
            }
        }
        let has_idle = state.idle > state.queue.len();
        if !has_idle && state.threads == MOST {
            return Err((event, notification));
        }
        if let Some(turn) = line {
            state.lines.insert(turn.line, Followed { last: turn.number, more: VecDeque::new() });
        }
        let line = line.map(|turn| turn.line);
        state.queue.push_back(Asked { event, notification, line });
        if has_idle {
            drop(state);
            self.more.notify_one();
            return Ok(());
        }
        let waiters = self.clone();
        match start("waiter", move || waiters.wait_for_ever()) {
            Ok(()) => {
                state.threads += 1;
                // The new thread counts as idle at once, so that no other event is assigned to it.
                state.idle += 1;
                Ok(())
            }
            Err(_) => {
                line.map(|line| state.lines.remove(&line));
                state.queue.pop_back().map_or(Ok(()), |asked| Err((asked.event, asked.notification)))
            }
        }
    }

    /// Lets the next thread that is free wait for something that was left to a callback.
    pub fn leave(&self, watched: Arc<Watched<E>>) {
        let mut state = lock(&self.state);
        state.left.push_back(watched);
        if state.left.len() > state.look_at {
            state.left.retain(|watched| !watched.is_over());
            // This way each event is looked at only a few times.
            state.look_at = LEFT.max(2 * state.left.len());
        }
        drop(state);
        self.more.notify_one();
    }

    fn wait_for_ever(self: Arc<Self>) {
        loop {
            let mut state = lock(&self.state);
            let next = loop {
                if let Some(asked) = state.queue.pop_front() {
                    break Next::Asked(asked);
                }
                // The next event must find a thread that is idle.
                if let Some(watched) = state.left.pop_front() {
                    break Next::Left(watched);
                }
                state = self.more.wait(state).unwrap_or_else(PoisonError::into_inner);
            };
            state.idle -= 1;
            drop(state);
            match next {
                Next::Asked(asked) => self.follow(asked),
                Next::Left(watched) => {
                    if let Some(notification) = watched.wait() {
                        self.deliver(notification);
                    }
                }
            }
            lock(&self.state).idle += 1;
        }
    }

    /// Waits for an event, and then for the later events of its queue.
    fn follow(&self, asked: Asked<E>) {
        let Asked { mut event, mut notification, line } = asked;
        loop {
            event.await_end();
            self.deliver(notification);
            let Some(line) = line else { return };
            let mut state = lock(&self.state);
            let Some(next) = state.lines.get_mut(&line).and_then(|followed| followed.more.pop_front()) else {
                state.lines.remove(&line);
                return;
            };
            (event, notification) = next;
        }
    }

    fn deliver(&self, notification: Notification) {
        if let Err(end) = notification() {
            self.post.end(end);
        }
        self.post.done();
    }
}

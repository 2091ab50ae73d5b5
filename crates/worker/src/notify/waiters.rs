//! Threads that wait for native events, each for one event or for those of one queue that runs its commands in order.
//!
//! A thread learns of an event's end sooner than a callback would be told: some 6 us against 30 on NVIDIA 580, which
//! besides tells of what takes longer than a millisecond only about 20 ms later. So a few threads wait, and only what is more than they can
//! take is left to callbacks. What ends in order is waited for in order by one thread: there, each thread more that waits makes all of them slower
//! (20 us a kernel with twelve).

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use rustc_hash::FxHashMap;

use super::news::{News, Post};
use super::watched::Watched;
use crate::base::lock::lock;
use crate::base::order::Turn;
use crate::native::Event;

/// Most threads that wait.
const MOST: usize = 12;

/// What is left to callbacks is looked through when it is so much.
const LEFT: usize = 64;

/// What a thread waits for next.
enum Next {
    Asked(Asked),
    Left(Arc<Watched>),
}

/// An event, what is to be told of its end, and the line that is then followed further.
struct Asked {
    event: Event,
    news: News,
    line: Option<u64>,
}

/// A line of which a thread waits for one event after the other.
struct Followed {
    /// The last one's number. What comes before it must not be put behind it, as it may be what the last one waits for.
    last: u64,
    more: VecDeque<(Event, News)>,
}

/// What is waited for, and by how many.
pub struct Waiters {
    state: Mutex<State>,
    more: Condvar,
    /// Where it is told that the session is over.
    post: Post,
}

#[derive(Default)]
struct State {
    /// What no thread has taken yet; never more than there are idle threads.
    queue: VecDeque<Asked>,
    /// The lines that threads follow.
    lines: FxHashMap<u64, Followed>,
    /// What was left to callbacks, in order: a thread that becomes free waits for the next of them all the same, as it is likely to be sooner.
    left: VecDeque<Arc<Watched>>,
    /// How many of them there are when those that are over are dropped.
    look_at: usize,
    idle: usize,
    threads: usize,
}

impl Waiters {
    /// No threads yet, which will say to `post` when the session is over.
    pub fn new(post: Post) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), more: Condvar::new(), post })
    }

    /// Lets a thread wait for `event` and pass `news` on; gives them back when all are busy. `turn` is the place of its command.
    pub fn wait_in_a_thread(
        self: &Arc<Self>,
        event: Event,
        turn: Option<Turn>,
        news: News,
    ) -> Result<(), (Event, News)> {
        let mut state = lock(&self.state);
        let mut line = None;
        if let Some(turn) = turn {
            match state.lines.get_mut(&turn.line) {
                Some(followed) if followed.last < turn.number => {
                    followed.last = turn.number;
                    followed.more.push_back((event, news));
                    return Ok(());
                }
                Some(_) => {}
                None => line = Some(turn),
            }
        }
        let has_idle = state.idle > state.queue.len();
        if !has_idle && state.threads == MOST {
            return Err((event, news));
        }
        if let Some(turn) = line {
            state.lines.insert(turn.line, Followed { last: turn.number, more: VecDeque::new() });
        }
        let line = line.map(|turn| turn.line);
        state.queue.push_back(Asked { event, news, line });
        if has_idle {
            drop(state);
            self.more.notify_one();
            return Ok(());
        }
        let waiters = self.clone();
        match thread::Builder::new().name("waiter".into()).spawn(move || waiters.wait_for_ever()) {
            Ok(_) => {
                state.threads += 1;
                // Counted here, so that the thread cannot be taken for another's.
                state.idle += 1;
                Ok(())
            }
            Err(_) => {
                line.map(|line| state.lines.remove(&line));
                state.queue.pop_back().map_or(Ok(()), |asked| Err((asked.event, asked.news)))
            }
        }
    }

    /// Lets the next thread that is free wait for something that was left to a callback.
    pub fn leave(&self, watched: Arc<Watched>) {
        let mut state = lock(&self.state);
        state.left.push_back(watched);
        if state.left.len() > state.look_at {
            state.left.retain(|watched| !watched.is_over());
            // So that each is looked at a few times at the most.
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
                // What comes now is to find a thread that is idle.
                if let Some(watched) = state.left.pop_front() {
                    break Next::Left(watched);
                }
                state = self.more.wait(state).unwrap_or_else(PoisonError::into_inner);
            };
            state.idle -= 1;
            drop(state);
            // How it ended is looked up by whoever passes it on.
            match next {
                Next::Asked(asked) => self.follow(asked),
                Next::Left(watched) => {
                    if let Some(news) = watched.wait() {
                        self.pass_on(news);
                    }
                }
            }
            lock(&self.state).idle += 1;
        }
    }

    /// Waits for an event and for those that come behind it in its line.
    fn follow(&self, asked: Asked) {
        let Asked { mut event, mut news, line } = asked;
        loop {
            event.end();
            self.pass_on(news);
            let Some(line) = line else { return };
            let mut state = lock(&self.state);
            let Some(next) = state.lines.get_mut(&line).and_then(|followed| followed.more.pop_front()) else {
                state.lines.remove(&line);
                return;
            };
            (event, news) = next;
        }
    }

    fn pass_on(&self, news: News) {
        if let Err(end) = news() {
            self.post.end(end);
        }
        self.post.done();
    }
}

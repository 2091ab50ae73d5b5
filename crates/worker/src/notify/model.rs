//! Threads that wait for events, under interleavings that shuttle draws (`make model`): every end is told.

use std::sync::{Arc, PoisonError};

use ropeway_model::check;
use ropeway_model::shuttle::rand::{Rng, thread_rng};
use ropeway_model::shuttle::thread;

use super::notification::{Letterbox, Notification, Post, post};
use super::waiters::Waiters;
use super::watched::{Awaited, Watched};
use crate::base::error::End;
use crate::base::modelled::{Condvar, Mutex, lock};
use crate::base::order::{Sequence, Turn};

/// Events in a test.
const EVENTS: usize = 6;

/// How often something has happened, to be waited for.
#[derive(Default)]
struct Count {
    number: Mutex<usize>,
    changed: Condvar,
}

impl Count {
    fn add(&self) {
        *lock(&self.number) += 1;
        self.changed.notify_all();
    }

    fn wait_for(&self, wanted: usize) {
        let mut number = lock(&self.number);
        while *number < wanted {
            number = self.changed.wait(number).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The end of a command: a stand-in for a native event.
#[derive(Clone, Default)]
struct Signal {
    ended: Arc<Count>,
    /// Whether the end has been told.
    told: Arc<Count>,
}

impl Signal {
    fn end(&self) {
        self.ended.add();
    }
}

impl Awaited for Signal {
    fn await_end(&self) {
        self.ended.wait_for(1);
    }
}

/// The session's part: asks for notifications as [`super::notifier::Notifier`] does.
struct Session {
    waiters: Arc<Waiters<Signal>>,
    post: Post,
    /// Notifications that have been run. By its type, none can run twice.
    told: Arc<Count>,
}

impl Session {
    fn new() -> (Self, Letterbox) {
        let (post, letterbox) = post();
        (Self { waiters: Waiters::new(post.clone()), post, told: Arc::default() }, letterbox)
    }

    /// Has the end of `signal` told.
    fn watch(&self, signal: &Signal, turn: Option<Turn>, end: Option<End>) {
        self.post.count();
        let (told, of) = (Arc::clone(&self.told), signal.clone());
        let notification: Notification = Box::new(move || {
            assert_eq!(*lock(&of.ended.number), 1, "told after its end");
            of.told.add();
            told.add();
            end.map_or(Ok(()), Err)
        });
        let refused = self.waiters.wait_in_a_thread(signal.clone(), turn, notification);
        let Err((signal, notification)) = refused else { return };
        let watched = Arc::new(Watched::new(signal, notification));
        // The native implementation calls back from a thread of its own.
        let called = Arc::clone(&watched);
        thread::spawn(move || {
            called.event().await_end();
            if let Some(notification) = called.take() {
                assert!(notification().is_ok());
            }
        });
        self.waiters.leave(watched);
    }
}

/// Ends events in an order that is drawn.
fn end_all(signals: &[Signal]) {
    let mut left = signals.to_vec();
    while !left.is_empty() {
        left.swap_remove(thread_rng().gen_range(0..left.len())).end();
    }
}

#[test]
fn every_end_is_told_however_many_there_are() {
    check(|| {
        let (session, _letterbox) = Session::new();
        let signals: Vec<_> = (0..EVENTS).map(|_| Signal::default()).collect();
        let device = {
            let signals = signals.clone();
            thread::spawn(move || end_all(&signals))
        };
        signals.iter().for_each(|signal| session.watch(signal, None, None));
        session.told.wait_for(EVENTS);
        device.join().expect("it has not failed");
    });
}

#[test]
fn the_ends_of_queues_that_threads_follow_are_told() {
    check(|| {
        let (session, _letterbox) = Session::new();
        let session = Arc::new(session);
        let askers: Vec<_> = (0..2)
            .map(|_| {
                let session = Arc::clone(&session);
                thread::spawn(move || {
                    let (sequence, signals) = (Sequence::new(), [(); 3].map(|()| Signal::default()));
                    let turns = [(); 3].map(|()| sequence.turn());
                    let device = {
                        let signals = signals.clone();
                        // A queue that runs its commands in order; each also waits for what the client does when it is
                        // told of the one before.
                        thread::spawn(move || {
                            for signal in &signals {
                                signal.end();
                                signal.told.wait_for(1);
                            }
                        })
                    };
                    // Threads of the session may ask for them in another order.
                    let [first, second, third] = [0, 1, 2].map(|at| (&signals[at], Some(turns[at])));
                    let order =
                        if thread_rng().gen_bool(0.5) { [first, second, third] } else { [second, first, third] };
                    order.into_iter().for_each(|(signal, turn)| session.watch(signal, turn, None));
                    device.join().expect("it has not failed");
                })
            })
            .collect();
        session.told.wait_for(EVENTS);
        askers.into_iter().for_each(|asker| asker.join().expect("it has not failed"));
    });
}

#[test]
fn no_end_waits_to_be_told_for_one_that_comes_after_it() {
    check(|| {
        let (session, _letterbox) = Session::new();
        let signals: Vec<_> = (0..EVENTS).map(|_| Signal::default()).collect();
        // A thread that has nothing to do, or soon will not have.
        session.watch(&signals[0], None, None);
        signals[0].end();
        let device = {
            let signals = signals.clone();
            thread::spawn(move || {
                // Each waits for what the client does when it is told of the next.
                for signal in signals[1..].iter().rev() {
                    signal.end();
                    signal.told.wait_for(1);
                }
            })
        };
        signals[1..].iter().for_each(|signal| session.watch(signal, None, None));
        session.told.wait_for(EVENTS);
        device.join().expect("it has not failed");
    });
}

#[test]
fn a_notification_that_ends_the_session_is_passed_on() {
    check(|| {
        let (session, letterbox) = Session::new();
        let signal = Signal::default();
        session.watch(&signal, None, Some(End::Gone));
        signal.end();
        session.told.wait_for(1);
        let mut ended = letterbox.try_recv();
        while ended.is_err() {
            thread::yield_now();
            ended = letterbox.try_recv();
        }
        assert!(matches!(ended.expect("it has come")(), Err(End::Gone)));
    });
}

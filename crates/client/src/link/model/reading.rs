//! The inbox: threads that wait share the reading of the link.

use std::sync::Arc;

use ropeway_model::shuttle::rand::{Rng, thread_rng};
use ropeway_protocol::Call;
use ropeway_protocol::ids::EventId;
use ropeway_protocol::messages::WaitForEvents;
use ropeway_protocol::types::{EventList, Status};

use super::server::Server;
use super::{check, connect};
use crate::base::modelled::atomic::{AtomicI32, AtomicUsize, Ordering};
use crate::base::modelled::thread::{self, JoinHandle};
use crate::base::status::{Result, SERVER_LOST};
use crate::link::completion::Completion;
use crate::link::connection::Connection;

/// Threads that call.
const CALLERS: u64 = 3;

/// Calls of each, one after the other.
const CALLS: u64 = 2;

/// A call that is answered with its own number.
fn call(connection: &Connection, number: u64) -> Result<Status> {
    let events = EventList(std::iter::once(EventId(number)).collect());
    connection.call(&WaitForEvents { events }).map(|waited| waited.status)
}

/// Answers calls in any order; after `most` of them, the link breaks.
fn answer(server: &Server, most: usize) {
    let mut open: Vec<(u32, Status)> = Vec::new();
    for _ in 0..most {
        while open.is_empty() || server.has_next() && thread_rng().gen_bool(0.5) {
            let Some(frame) = server.next() else { return };
            assert_eq!(frame.header.opcode, WaitForEvents::OPCODE);
            let wait: WaitForEvents = frame.body();
            open.push((frame.header.call, Status::try_from(wait.events.0[0].0).expect("a small number")));
        }
        let (call, status) = open.swap_remove(thread_rng().gen_range(0..open.len()));
        server.waited(call, status, &[]);
    }
}

/// Starts the threads that call; `check` is given each call's number and outcome.
fn callers(connection: &Arc<Connection>, check: fn(u64, Result<Status>)) -> Vec<JoinHandle<()>> {
    let start = |caller| {
        let connection = Arc::clone(connection);
        thread::spawn(move || {
            for number in caller * CALLS..(caller + 1) * CALLS {
                check(number, call(&connection, number));
            }
        })
    };
    (0..CALLERS).map(start).collect()
}

fn join(threads: Vec<JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().expect("it has not failed"));
}

#[test]
fn every_call_gets_its_own_answer() {
    check(|| {
        let calls = usize::try_from(CALLERS * CALLS).expect("a few");
        let (connection, server) = connect(move |server| {
            answer(&server, calls);
            assert!(server.next().is_none(), "the client has nothing more to say");
        });
        let callers = callers(&connection, |number, answer| assert_eq!(answer, Ok(number as Status)));
        // A thread that waits for nothing and only looks takes the reader's role now and then.
        connection.drain();
        connection.drain();
        join(callers);
        drop(connection);
        server.join().expect("it has not failed");
    });
}

#[test]
fn the_loss_of_the_server_ends_every_wait() {
    check(|| {
        let answered = thread_rng().gen_range(0..CALLERS * CALLS) as usize;
        let (connection, server) = connect(move |server| answer(&server, answered));
        let callers = callers(&connection, |number, answer| {
            assert!(answer == Ok(number as Status) || answer == Err(SERVER_LOST), "{answer:?}");
        });
        join(callers);
        assert!(connection.is_lost());
        server.join().expect("it has not failed");
    });
}

#[test]
fn a_thread_that_disconnects_ends_every_wait() {
    check(|| {
        let (connection, server) = connect(|server| answer(&server, usize::MAX));
        let callers = callers(&connection, |number, answer| {
            assert!(answer == Ok(number as Status) || answer == Err(SERVER_LOST), "{answer:?}");
        });
        connection.close();
        join(callers);
        server.join().expect("it has not failed");
    });
}

#[test]
fn an_answer_does_not_wait_for_that_of_the_thread_that_reads_it() {
    check(|| {
        let (connection, server) = connect(|server| {
            let mut calls: Vec<Option<u32>> = vec![None; 4];
            let take = |calls: &mut Vec<Option<u32>>| {
                let frame = server.next().expect("a call");
                calls[usize::try_from(frame.body::<WaitForEvents>().events.0[0].0).expect("small")] =
                    Some(frame.header.call);
            };
            // The first call is answered when all others are, which come one after the other.
            for number in [2, 3] {
                while calls[number].is_none() {
                    take(&mut calls);
                }
                server.waited(calls[number].expect("it has come"), number as Status, &[]);
            }
            while calls[1].is_none() {
                take(&mut calls);
            }
            server.waited(calls[1].expect("it has come"), 1, &[]);
            assert!(server.next().is_none(), "the client has nothing more to say");
        });
        let patient = {
            let connection = Arc::clone(&connection);
            thread::spawn(move || assert_eq!(call(&connection, 1), Ok(1)))
        };
        assert_eq!([call(&connection, 2), call(&connection, 3)], [Ok(2), Ok(3)]);
        patient.join().expect("it has not failed");
        drop(connection);
        server.join().expect("it has not failed");
    });
}

/// An event that counts how often it is told of its end.
#[derive(Default)]
struct Counted {
    ends: AtomicUsize,
    losses: AtomicUsize,
    status: AtomicI32,
}

impl Completion for Counted {
    fn progressed(&self, _status: Status) {
        unreachable!("nobody asks for that");
    }

    fn completed(&self, status: Status, _times: Option<[u64; 5]>) {
        self.status.store(status, Ordering::SeqCst);
        self.ends.fetch_add(1, Ordering::SeqCst);
    }

    fn data_arrived(&self, _status: Status) {
        unreachable!("it has no data");
    }

    fn lost(&self) {
        self.losses.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn an_end_that_comes_with_another_threads_answer_ends_the_wait_for_it() {
    check(|| {
        let event = EventId(7);
        let (connection, server) = connect(move |server| {
            let call = server.next().expect("the call").header.call;
            if thread_rng().gen_bool(0.5) {
                server.completed(&[event], 0);
                server.waited(call, 1, &[]);
            } else {
                server.waited(call, 1, &[event]);
            }
            while server.next().is_some() {}
        });
        let counted = Arc::<Counted>::default();
        connection.add_event(event, &counted);
        let waiter = {
            let (connection, counted) = (Arc::clone(&connection), Arc::clone(&counted));
            thread::spawn(move || connection.wait(|| (counted.ends.load(Ordering::SeqCst) > 0).then_some(())))
        };
        assert_eq!(call(&connection, 1), Ok(1));
        assert_eq!(counted.ends.load(Ordering::SeqCst), 1, "told before the answer is");
        assert_eq!(waiter.join().expect("it has not failed"), Ok(()));
        assert_eq!(counted.losses.load(Ordering::SeqCst), 0);
        drop(connection);
        server.join().expect("it has not failed");
    });
}

#[test]
fn a_thread_that_sleeps_here_is_woken_by_what_happens_here() {
    check(|| {
        let (connection, server) = connect(|server| answer(&server, 1));
        let flag = Arc::new(AtomicUsize::new(0));
        let sleeper = {
            let (connection, flag) = (Arc::clone(&connection), Arc::clone(&flag));
            thread::spawn(move || connection.sleep_until(|| flag.load(Ordering::SeqCst) > 0))
        };
        let caller = {
            let connection = Arc::clone(&connection);
            thread::spawn(move || assert_eq!(call(&connection, 5), Ok(5)))
        };
        flag.store(1, Ordering::SeqCst);
        connection.wake_waiters();
        join(vec![sleeper, caller]);
        server.join().expect("it has not failed");
    });
}

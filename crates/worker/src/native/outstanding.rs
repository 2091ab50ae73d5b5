//! The commands of a queue that have not ended, and the one thread that waits for them in the driver.
//!
//! What goes to peers and comes from them is copied in many pieces at once, with a thread of the worker's behind each of
//! them. With eight servers on one GPU, 26 threads of each worker waited in the driver: on NVIDIA they spin there, contend
//! for its lock, and keep those from it that have copies to begin. So one thread waits for the oldest command of the queue,
//! and then for the next, and tells of each end those who wait for it outside the driver.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, PoisonError};

use ropeway_protocol::types::Status;

use super::Event;
use super::ending::Ending;
use crate::base::modelled::{Condvar, Mutex, lock, start};

/// What the thread can wait for: a native event.
pub trait Ends: Send + 'static {
    /// Blocks until it has ended; CL_COMPLETE, or the error that it has ended with. The wait has an end whatever the driver
    /// answers.
    fn end(&self) -> Status;
}

impl Ends for Event {
    fn end(&self) -> Status {
        Event::end(self)
    }
}

/// The commands of one queue, which runs them in order, whose ends are to be told. The thread ends when this is dropped and
/// all of them have ended.
pub struct Outstanding<E: Ends = Event>(Arc<Shared<E>>);

struct Shared<E> {
    state: Mutex<State<E>>,
    changed: Condvar,
}

struct State<E> {
    /// The oldest first; no more than the driver has commands of the queue, and those that have just ended.
    commands: VecDeque<(E, Ending)>,
    /// Whether no others will come.
    is_over: bool,
}

impl<E: Ends> std::fmt::Debug for Outstanding<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outstanding").field("commands", &lock(&self.0.state).commands.len()).finish()
    }
}

impl<E: Ends> Outstanding<E> {
    /// None yet; starts the thread.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn start() -> io::Result<Self> {
        let state = Mutex::new(State { commands: VecDeque::new(), is_over: false });
        let shared = Arc::new(Shared { state, changed: Condvar::new() });
        let thread = shared.clone();
        start("copies", move || thread.tell_until_over())?;
        Ok(Self(shared))
    }

    /// Adds the queue's latest command, and returns its end, which will be told.
    pub fn add(&self, event: E) -> Ending {
        let ending = Ending::default();
        lock(&self.0.state).commands.push_back((event, ending.clone()));
        self.0.changed.notify_one();
        ending
    }
}

impl<E: Ends> Drop for Outstanding<E> {
    fn drop(&mut self) {
        lock(&self.0.state).is_over = true;
        self.0.changed.notify_one();
    }
}

impl<E: Ends> Shared<E> {
    fn tell_until_over(&self) {
        loop {
            let mut state = lock(&self.state);
            let (event, ending) = loop {
                match state.commands.pop_front() {
                    Some(command) => break command,
                    None if state.is_over => return,
                    None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(state);
            // Of a copy in several parts, only the last one's end is waited for.
            if ending.is_wanted() {
                ending.tell(event.end());
            }
        }
    }
}

#[cfg(all(test, not(feature = "model")))]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// Ends when it is told to; says when it is waited for, and that it is no longer held.
    struct Fake(Receiver<Status>, Sender<&'static str>);

    impl Ends for Fake {
        fn end(&self) -> Status {
            self.1.send("waits").unwrap();
            self.0.recv().unwrap()
        }
    }

    impl Drop for Fake {
        fn drop(&mut self) {
            let _ = self.1.send("gone");
        }
    }

    const SOON: Duration = Duration::from_secs(10);

    /// Has ended already.
    fn ended(status: Status, said: &Sender<&'static str>) -> Fake {
        let (end, ended) = channel();
        end.send(status).unwrap();
        Fake(ended, said.clone())
    }

    #[test]
    fn one_thread_waits_and_all_are_told_how_theirs_ended() {
        let outstanding = Outstanding::start().unwrap();
        let (said, saying) = channel();
        let (ends, endings): (Vec<_>, Vec<_>) = (0..20)
            .map(|_| {
                let (end, open) = channel();
                (end, outstanding.add(Fake(open, said.clone())))
            })
            .unzip();
        let threads: Vec<_> = endings.into_iter().map(|of| thread::spawn(move || of.wait())).collect();
        for (number, end) in (0..).zip(&ends) {
            assert_eq!(saying.recv_timeout(SOON), Ok("waits"));
            assert!(saying.try_recv().is_err(), "for one at a time");
            end.send(-number).unwrap();
            assert_eq!(saying.recv_timeout(SOON), Ok("gone"));
        }
        let statuses: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert_eq!(statuses, (0..20).map(|number| -number).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_left_when_the_queue_goes_is_told_before_the_thread_ends() {
        let outstanding = Outstanding::start().unwrap();
        let (said, saying) = channel();
        let (end, open) = channel();
        let ending = outstanding.add(Fake(open, said.clone()));
        let last = outstanding.add(ended(-7, &said));
        let thread = Arc::downgrade(&outstanding.0);
        drop(outstanding);
        assert_eq!((saying.recv_timeout(SOON), ending.status()), (Ok("waits"), None));
        end.send(0).unwrap();
        assert_eq!((ending.wait(), last.wait()), (0, -7));
        while thread.strong_count() > 0 {
            thread::yield_now();
        }
    }

    #[test]
    fn what_nobody_asks_about_is_not_waited_for() {
        let outstanding = Outstanding::start().unwrap();
        let (said, saying) = channel();
        let (end, open) = channel();
        let first = outstanding.add(Fake(open, said.clone()));
        // It would never end.
        let (_never, none) = channel();
        drop(outstanding.add(Fake(none, said.clone())));
        let (called, calls) = channel();
        outstanding.add(ended(-3, &said)).then(move |status| called.send(status).unwrap());
        end.send(0).unwrap();
        assert_eq!((first.wait(), calls.recv_timeout(SOON)), (0, Ok(-3)));
        assert_eq!(saying.try_iter().take(4).collect::<Vec<_>>(), ["waits", "gone", "gone", "waits"]);
    }
}

//! The thread that waits for a queue's commands, under interleavings that shuttle draws (`make model`): every end is told.

use std::sync::{Arc, PoisonError};

use ropeway_model::check;
use ropeway_model::shuttle::thread;
use ropeway_protocol::types::Status;

use super::outstanding::{Ends, Outstanding};
use crate::base::modelled::{Condvar, Mutex, lock};

/// What has been told, to be waited for: the end of a command, a stand-in for a native event; or that somebody was called.
#[derive(Clone, Default)]
struct Told(Arc<(Mutex<Option<Status>>, Condvar)>);

impl Told {
    fn tell(&self, status: Status) {
        assert_eq!(lock(&self.0.0).replace(status), None, "once");
        self.0.1.notify_all();
    }

    fn wait(&self) -> Status {
        let mut told = lock(&self.0.0);
        loop {
            match *told {
                Some(status) => return status,
                None => told = self.0.1.wait(told).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl Ends for Told {
    fn end(&self) -> Status {
        self.wait()
    }
}

#[test]
fn every_end_is_told_to_who_waits_and_who_is_called() {
    check(|| {
        let outstanding = Outstanding::start().expect("a thread");
        let commands = [(); 4].map(|()| Told::default());
        let [first, unasked, third, last] = [0, 1, 2, 3].map(|at: usize| outstanding.add(commands[at].clone()));
        let device = thread::spawn(move || {
            (0..).zip(&commands).for_each(|(number, command)| command.tell(-number));
        });
        let waits = thread::spawn(move || first.wait());
        drop(unasked);
        // Who is to be called keeps nothing of it himself.
        let called = Told::default();
        let calls = called.clone();
        let asks = thread::spawn(move || third.then(move |status| calls.tell(status)));
        // The queue goes before its commands have ended.
        drop(outstanding);
        assert_eq!((last.wait(), called.wait(), waits.join().expect("it has not failed")), (-3, -2, 0));
        [device, asks].into_iter().for_each(|thread| thread.join().expect("it has not failed"));
    });
}

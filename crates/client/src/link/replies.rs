//! Calls whose answers are still to come, and waiting for those of several servers at once.

use std::marker::PhantomData;
use std::time::{Duration, Instant};

use ropeway_protocol::messages::{Finish, WaitForEvents};
use ropeway_protocol::{Call, decode};
use ropeway_transport::GLANCE;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::de::DeserializeOwned;

use super::calls::Slot;
use super::connection::Connection;
use super::deferred_flush;
use crate::base::stats::{STATS, count};
use crate::base::status::{Result, SERVER_LOST, Status};

/// While several are waited for, another thread may read what one of them answers: it is looked for after so long, and ever more
/// slowly after that.
const LOOK: Duration = Duration::from_millis(1);

/// But at least so often.
const LOOK_AT_LEAST: Duration = Duration::from_millis(32);

/// So many calls are sent by two threads.
const MANY: usize = 8;

/// A call that was made, or waits to be sent.
pub(crate) struct Asked<'a, R> {
    connection: &'a Connection,
    number: u32,
    name: &'static str,
    reply: PhantomData<fn() -> R>,
}

impl Connection {
    /// Sends a message and waits for its answer.
    ///
    /// # Errors
    /// What the server answered, or [`SERVER_LOST`].
    pub(crate) fn call<C: Call>(&self, call: &C) -> Result<C::Reply> {
        self.call_with_tail(call, &[])
    }

    /// As [`Connection::call`], with bulk bytes behind the message.
    ///
    /// # Errors
    /// What the server answered, or [`SERVER_LOST`].
    pub(crate) fn call_with_tail<C: Call>(&self, call: &C, tail: &[u8]) -> Result<C::Reply> {
        self.ask_with_tail(call, tail)?.wait()
    }

    /// Makes a call, in the next batch, without waiting for its answer.
    ///
    /// # Errors
    /// [`SERVER_LOST`].
    pub(crate) fn ask<C: Call>(&self, call: &C) -> Result<Asked<'_, C::Reply>> {
        self.ask_with_tail(call, &[])
    }

    /// As [`Connection::ask`], with bulk bytes behind the message.
    ///
    /// # Errors
    /// [`SERVER_LOST`].
    fn ask_with_tail<C: Call>(&self, call: &C, tail: &[u8]) -> Result<Asked<'_, C::Reply>> {
        let tells_ends = matches!(C::OPCODE, Finish::OPCODE | WaitForEvents::OPCODE);
        let number = self.calls.add(Slot::Waiting { tells_ends });
        let asked = Asked { connection: self, number, name: C::NAME, reply: PhantomData };
        self.post_call(number, call, tail)?;
        Ok(asked)
    }
}

impl<R: DeserializeOwned> Asked<'_, R> {
    /// Sends all that is pending there and waits for the answer.
    ///
    /// # Errors
    /// What the server answered, or [`SERVER_LOST`].
    pub(crate) fn wait(self) -> Result<R> {
        let answer = self.connection.wait(|| self.take())?;
        self.read(&answer)
    }

    /// The answer, if it has come; an error if it never will.
    fn come(&self) -> Option<Result<R>> {
        match self.take() {
            Some(answer) => Some(self.read(&answer)),
            None => self.connection.is_lost().then_some(Err(SERVER_LOST)),
        }
    }

    fn take(&self) -> Option<Vec<u8>> {
        self.connection.calls.take(self.number)
    }

    fn read(&self, answer: &[u8]) -> Result<R> {
        decode::<std::result::Result<R, Status>>(answer).unwrap_or_else(|error| {
            self.connection.lose(format!("answered {} with what is not the protocol: {error}", self.name));
            Err(SERVER_LOST)
        })
    }
}

impl<R> Drop for Asked<'_, R> {
    fn drop(&mut self) {
        self.connection.calls.remove(self.number);
    }
}

/// The answers to calls of several servers, in the order in which they come. A single one is waited for as any other.
pub(crate) struct Answers<'a, T, R> {
    open: Vec<Open<'a, T, R>>,
    come: Vec<(T, Result<R>)>,
    /// Whether there are calls that may not have been sent.
    unsent: bool,
}

/// An answer that has not come.
struct Open<'a, T, R> {
    of: T,
    asked: Asked<'a, R>,
    /// When something came last, or it was looked whether the server lives.
    looked: Instant,
}

impl<T, R> Default for Answers<'_, T, R> {
    fn default() -> Self {
        Self { open: Vec::new(), come: Vec::new(), unsent: false }
    }
}

impl<'a, T: Copy, R: DeserializeOwned> Answers<'a, T, R> {
    /// Adds the answer to a call; `of` is what it is about.
    pub(crate) fn expect(&mut self, of: T, asked: Result<Asked<'a, R>>) {
        match asked {
            Ok(asked) => {
                self.open.push(Open { of, asked, looked: Instant::now() });
                self.unsent = true;
            }
            Err(status) => self.come.push((of, Err(status))),
        }
    }

    /// The next answer; waits for it. `None` when none is left.
    pub(crate) fn next(&mut self) -> Option<(T, Result<R>)> {
        let mut patience = LOOK;
        loop {
            if let Some(come) = self.come.pop() {
                return Some(come);
            }
            if self.open.len() < 2 {
                return self.open.pop().map(|last| (last.of, last.asked.wait()));
            }
            if std::mem::take(&mut self.unsent) {
                count(&STATS.round_trips, 1);
                if self.open.len() >= MANY {
                    deferred_flush::hurry();
                }
                for one in &self.open {
                    // A lost server is noticed where its answer is looked for.
                    let _ = one.asked.connection.flush();
                }
            }
            self.gather();
            if self.come.is_empty() {
                self.look(patience);
                patience = (2 * patience).min(LOOK_AT_LEAST);
                self.gather();
            }
        }
    }

    /// Takes what has been read.
    fn gather(&mut self) {
        self.open.retain(|one| match one.asked.come() {
            Some(answer) => {
                self.come.push((one.of, answer));
                false
            }
            None => true,
        });
    }

    /// Waits until one of the servers has sent something, for so long at the most, and reads it.
    fn look(&mut self, patience: Duration) {
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(patience.subsec_nanos()) };
        let mut polled: Vec<_> =
            self.open.iter().map(|one| PollFd::new(&one.asked.connection.channel, PollFlags::IN)).collect();
        // An interrupted poll is as good as one in vain.
        let _ = poll(&mut polled, Some(&timeout));
        let readable: Vec<_> = polled.iter().map(|one| !one.revents().is_empty()).collect();
        if readable.contains(&true) {
            // It may be another thread's turn to read.
            std::thread::yield_now();
        }
        for (one, readable) in self.open.iter_mut().zip(readable) {
            let connection = one.asked.connection;
            if readable {
                connection.drain();
                one.looked = Instant::now();
            } else if one.looked.elapsed() >= GLANCE {
                connection.drain_and_look();
                one.looked = Instant::now();
            }
        }
    }
}

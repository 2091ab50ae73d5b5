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

/// First wait between two checks for the answers of several servers, as another thread may have read one of them; the
/// waits grow from here.
const LOOK: Duration = Duration::from_millis(1);

/// The longest time between two looks.
const LOOK_AT_LEAST: Duration = Duration::from_millis(32);

/// How long a thread looks at what several servers share with it before it sleeps: about as long as it takes to fall
/// asleep, to be woken, and to ask about each of them again.
const CLOSELY: Duration = Duration::from_micros(50);

/// A call that was made, or waits to be sent.
pub(crate) struct PendingReply<'a, R> {
    connection: &'a Connection,
    number: u32,
    name: &'static str,
    reply: PhantomData<fn() -> R>,
}

impl Connection {
    /// Sends a message and waits for its answer.
    ///
    /// # Errors
    /// The error that the server answered, or [`SERVER_LOST`].
    pub(crate) fn call<C: Call>(&self, call: &C) -> Result<C::Reply> {
        self.call_with_tail(call, &[])
    }

    /// As [`Connection::call`], with bulk bytes behind the message.
    ///
    /// # Errors
    /// The error that the server answered, or [`SERVER_LOST`].
    pub(crate) fn call_with_tail<C: Call>(&self, call: &C, tail: &[u8]) -> Result<C::Reply> {
        self.ask_with_tail(call, tail)?.wait()
    }

    /// Makes a call, in the next batch, without waiting for its answer.
    ///
    /// # Errors
    /// [`SERVER_LOST`].
    pub(crate) fn ask<C: Call>(&self, call: &C) -> Result<PendingReply<'_, C::Reply>> {
        self.ask_with_tail(call, &[])
    }

    /// As [`Connection::ask`], with bulk bytes behind the message.
    ///
    /// # Errors
    /// [`SERVER_LOST`].
    fn ask_with_tail<C: Call>(&self, call: &C, tail: &[u8]) -> Result<PendingReply<'_, C::Reply>> {
        let tells_ends = matches!(C::OPCODE, Finish::OPCODE | WaitForEvents::OPCODE);
        let number = self.calls.add(Slot::Waiting { tells_ends });
        let asked = PendingReply { connection: self, number, name: C::NAME, reply: PhantomData };
        self.post_call(number, call, tail)?;
        Ok(asked)
    }
}

impl<R: DeserializeOwned> PendingReply<'_, R> {
    /// Sends all that is pending there and waits for the answer.
    ///
    /// # Errors
    /// The error that the server answered, or [`SERVER_LOST`].
    pub(crate) fn wait(self) -> Result<R> {
        let answer = self.connection.wait(|| self.take())?;
        self.read(&answer)
    }

    /// Returns the answer, if it has come, or an error if it never will.
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

impl<R> Drop for PendingReply<'_, R> {
    fn drop(&mut self) {
        self.connection.calls.remove(self.number);
    }
}

/// The answers to calls to several servers, in the order in which they come. A single answer is waited for like that of
/// any other call.
pub(crate) struct PendingReplies<'a, T, R> {
    open: Vec<Open<'a, T, R>>,
    come: Vec<(T, Result<R>)>,
    /// Whether there are calls that may not have been sent.
    unsent: bool,
}

/// An answer that has not come.
struct Open<'a, T, R> {
    of: T,
    asked: PendingReply<'a, R>,
    /// When bytes last came, or when it was last checked whether the server is alive.
    looked: Instant,
}

impl<T, R> Default for PendingReplies<'_, T, R> {
    fn default() -> Self {
        Self { open: Vec::new(), come: Vec::new(), unsent: false }
    }
}

impl<'a, T: Copy, R: DeserializeOwned> PendingReplies<'a, T, R> {
    /// Adds the answer to a call; `of` is what it is about.
    pub(crate) fn expect(&mut self, of: T, asked: Result<PendingReply<'a, R>>) {
        match asked {
            Ok(asked) => {
                self.open.push(Open { of, asked, looked: Instant::now() });
                self.unsent = true;
            }
            Err(status) => self.come.push((of, Err(status))),
        }
    }

    /// Waits for the next answer and returns it, or `None` when none is left.
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
                if self.open.len() >= deferred_flush::MANY {
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

    /// Collects the answers that have been read.
    fn gather(&mut self) {
        self.open.retain(|one| match one.asked.come() {
            Some(answer) => {
                self.come.push((one.of, answer));
                false
            }
            None => true,
        });
    }

    /// Looks for a moment whether one of the servers has sent something that the system need not be asked for, and reads
    /// it. Returns whether anything has come.
    fn look_closely(&mut self) -> bool {
        let begun = Instant::now();
        while self.open.iter().any(|one| one.asked.connection.channel.may_be_watched()) {
            let mut any = false;
            for one in &mut self.open {
                if one.asked.connection.take_in() {
                    (one.looked, any) = (Instant::now(), true);
                }
            }
            if any {
                return true;
            }
            if begun.elapsed() >= CLOSELY {
                break;
            }
            std::hint::spin_loop();
        }
        false
    }

    /// Waits at most `patience` until one of the servers has sent something, and reads it.
    fn look(&mut self, patience: Duration) {
        if self.look_closely() {
            return;
        }
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(patience.subsec_nanos()) };
        let mut polled: Vec<_> =
            self.open.iter().map(|one| PollFd::new(&one.asked.connection.channel, PollFlags::IN)).collect();
        let mut readable: Vec<_> =
            self.open.iter().map(|one| one.asked.connection.channel.is_readable_or_will_tell()).collect();
        if !readable.contains(&true) {
            // An interrupted poll is treated like one that found nothing.
            let _ = poll(&mut polled, Some(&timeout));
            readable = polled.iter().map(|one| !one.revents().is_empty()).collect();
        }
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

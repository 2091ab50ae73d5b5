//! Waiting for the server, by whichever thread has to; and whether it is still there.

use std::fmt;
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ropeway_protocol::messages::Ping;

use super::connection::Connection;
use super::inbox::{ReadError, Role};
use crate::base::stats::{STATS, count};
use crate::base::status::{Result, SERVER_LOST};
use crate::base::sync::lock;

/// How long a reader waits for bytes while something else can end its wait.
const LOOK_AROUND: Duration = Duration::from_micros(500);

/// A thread that waits for the server asks for a sign of life after so long without a byte from it.
pub(super) const SILENCE: Duration = Duration::from_secs(5);

/// A server that gives none for so long is lost.
const ANSWER: Duration = Duration::from_secs(10);

impl Connection {
    /// Whether the server is gone, also where nobody has used the link since.
    pub fn look_whether_lost(&self) -> bool {
        if !self.is_lost() && self.waiting.load(Ordering::SeqCst) == 0 {
            self.drain();
        }
        self.is_lost()
    }

    /// Sends all that is pending and waits until `over` gives something; reads the link meanwhile, and sends what the server asks for.
    /// One round trip, if it has to wait at all.
    ///
    /// # Errors
    /// [`SERVER_LOST`], once `over` gives nothing even so.
    pub(crate) fn wait<R>(&self, mut over: impl FnMut() -> Option<R>) -> Result<R> {
        if let Some(result) = over() {
            return Ok(result);
        }
        count(&STATS.round_trips, 1);
        self.wait_aside(over)
    }

    /// As [`Self::wait`], in a thread that the application does not wait for.
    ///
    /// # Errors
    /// As [`Self::wait`].
    pub(crate) fn wait_aside<R>(&self, over: impl FnMut() -> Option<R>) -> Result<R> {
        // From here on the helper leaves the link to this thread.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let result = self.flush().and_then(|()| self.read_until(over));
        if self.waiting.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.helper.left_alone();
        }
        result
    }

    fn read_until<R>(&self, mut over: impl FnMut() -> Option<R>) -> Result<R> {
        let mut result = None;
        loop {
            if result.is_none() {
                result = over();
            }
            if let Some(result) = result {
                return Ok(result);
            }
            if self.is_lost() {
                return Err(SERVER_LOST);
            }
            if self.send_chunk() {
                continue;
            }
            let mut look = || {
                result = over();
                result.is_some() || self.is_lost()
            };
            if let Some(mut role) = self.channel.read_or_sleep(&mut look) {
                // Whoever had the role before may have read what this thread waits for.
                while !look() && !self.transfers.any_ready() {
                    if let Err(error) = self.read_patiently(&mut role) {
                        self.lose(error.to_string());
                    }
                }
            }
        }
    }

    /// Reads once; comes back without bytes after a moment where the wait may be over without any.
    fn read_patiently(&self, role: &mut Role<'_>) -> std::result::Result<(), ReadError> {
        // Another thread may send the last chunk that this one waits for, and no answer comes of that.
        if self.transfers.any_unsent() && !self.channel.wait_readable(Some(LOOK_AROUND))? {
            let looks = self.looks.fetch_add(1, Ordering::Relaxed) + 1;
            if u128::from(looks) * LOOK_AROUND.as_nanos() < SILENCE.as_nanos() {
                return Ok(());
            }
            self.looks.store(0, Ordering::Relaxed);
            return self.ask_for_a_sign_of_life();
        }
        self.looks.store(0, Ordering::Relaxed);
        if self.channel.read(role, true, self)? {
            self.heard();
            return Ok(());
        }
        self.ask_for_a_sign_of_life()
    }

    /// The server has given a sign of life.
    fn heard(&self) {
        *lock(&self.asked_at) = None;
    }

    /// Nothing has come for a while of what is expected, and no thread waits for it: the server may be gone, and others wait for what it
    /// holds up.
    pub(super) fn look_for_life(&self) {
        // This process itself may have been stopped for a while.
        self.drain();
        if let Err(error) = self.ask_for_a_sign_of_life() {
            self.lose(error.to_string());
        }
    }

    /// Nothing has come for a while. A command may take that long; a server that is alive still answers a ping.
    fn ask_for_a_sign_of_life(&self) -> std::result::Result<(), ReadError> {
        let mut asked_at = lock(&self.asked_at);
        match *asked_at {
            Some(at) if at.elapsed() < ANSWER => Ok(()),
            Some(_) => Err(ReadError::Silent),
            None => {
                *asked_at = Some(Instant::now());
                // Who reads the answer says so at once.
                drop(asked_at);
                let number = self.next_call_number();
                // Nobody waits for this very answer: any bytes will do. A failure marks the connection as lost.
                let _ = self.post_call(number, &Ping { answer: 0 }, &[]).and_then(|()| self.flush());
                Ok(())
            }
        }
    }

    /// Sleeps until something that happens in this process, which is looked at again at every [`Connection::wake_waiters`].
    pub(crate) fn sleep_until(&self, mut over: impl FnMut() -> bool) {
        self.channel.sleep_until(&mut over);
    }

    /// Takes in what has arrived, without waiting.
    pub(crate) fn drain(&self) {
        self.read_arrived();
        // What the server has asked for is not this thread's to send.
        if self.transfers.any_ready() && self.waiting.load(Ordering::SeqCst) == 0 {
            self.helper.rouse();
        }
    }

    /// The same for the helper, which sends what the server asks for.
    pub(super) fn read_arrived(&self) {
        if let Some(mut role) = self.channel.try_read() {
            loop {
                match self.channel.read(&mut role, false, self) {
                    Ok(true) => self.heard(),
                    Ok(false) => return,
                    Err(error) => return self.lose(error.to_string()),
                }
            }
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                f.write_str("it closed the connection")
            }
            Self::Link(error) => error.fmt(f),
            Self::Silent => f.write_str("it gives no sign of life"),
            Self::Protocol(error) => write!(f, "it sent what is not the protocol: {error}"),
        }
    }
}

//! Waiting for the server, by whichever thread has to; and whether it is still there.

use std::io;
use std::time::Duration;

use ropeway_protocol::messages::Ping;
use ropeway_transport::GLANCE;

use super::calls::Slot;
use super::connection::Connection;
use super::deferred_flush;
use super::inbox::{ReadError, Role};
use super::liveness::Verdict;
use crate::base::modelled::atomic::Ordering;
use crate::base::stats::{STATS, count};
use crate::base::status::{Result, SERVER_LOST};

/// How long a reader waits for bytes while something else can end its wait.
const LOOK_AROUND: Duration = Duration::from_micros(500);

impl Connection {
    /// Whether the server is gone, even if nobody has used the link since it went.
    pub fn look_whether_lost(&self) -> bool {
        if !self.is_lost() && self.waiting.load(Ordering::SeqCst) == 0 {
            self.drain();
        }
        self.is_lost()
    }

    /// Sends all that is pending and waits until `over` returns a value; meanwhile reads the link, and sends what the
    /// server asks for. One round trip, if it has to wait at all.
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
        // From here on the background I/O thread leaves the link to this thread.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let result = self.flush().and_then(|()| self.read_until(over));
        if self.waiting.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.background_io.left_alone();
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
                loop {
                    // Asked first: another thread may send the last chunk that this one waits for between the two
                    // looks.
                    let any_unsent = self.transfers.any_unsent();
                    if look() || self.transfers.any_ready() {
                        break;
                    }
                    if let Err(error) = self.read_patiently(&mut role, any_unsent) {
                        drop(role);
                        self.lose(error.to_string());
                        // Another thread may have found the loss first, and be about to make it known.
                        self.channel.sleep_until(&mut look);
                        break;
                    }
                }
            }
        }
    }

    /// Reads once; returns without bytes after a moment if the wait may end without any: where something was unsent
    /// when the wait was found not to be over, another thread may send the last chunk that this one waits for, and no
    /// answer comes of that.
    fn read_patiently(&self, role: &mut Role<'_>, any_unsent: bool) -> std::result::Result<(), ReadError> {
        if any_unsent && !self.channel.wait_readable(Some(LOOK_AROUND))? {
            let looks = self.looks.fetch_add(1, Ordering::Relaxed) + 1;
            if u128::from(looks) * LOOK_AROUND.as_nanos() < GLANCE.as_nanos() {
                return Ok(());
            }
            self.looks.store(0, Ordering::Relaxed);
            return self.look_around();
        }
        self.looks.store(0, Ordering::Relaxed);
        if self.channel.read(role, true, self)? { Ok(()) } else { self.look_around() }
    }

    /// Checks on the servers when a reading thread has received nothing for a [`GLANCE`]: another server may hold up
    /// what the thread waits for.
    fn look_around(&self) -> std::result::Result<(), ReadError> {
        self.look_for_life()?;
        deferred_flush::look_at_others(self);
        Ok(())
    }

    /// Checks whether the server is alive, for a thread that waits for it and has received nothing for a [`GLANCE`];
    /// asks the server for a sign of life when it is time.
    ///
    /// # Errors
    /// It does not.
    pub(super) fn look_for_life(&self) -> std::result::Result<(), ReadError> {
        match self.liveness.look(self.channel.look()?, true) {
            Verdict::Waits => Ok(()),
            Verdict::Silent => Err(ReadError::Silent),
            Verdict::Ask => {
                let number = self.calls.add(Slot::Unawaited);
                // Others may wait for what this thread reads, so it does not wait for room to send.
                self.channel.call(number, &Ping { answer: 0 }, &[], &|| Err(io::ErrorKind::WouldBlock.into()))?;
                let _ = self.flush_what_fits();
                Ok(())
            }
        }
    }

    /// Does the same for a thread that does not read: first takes in what has come, and loses a server that is not
    /// alive.
    pub(super) fn drain_and_look(&self) {
        self.drain();
        if !self.is_lost()
            && let Err(error) = self.look_for_life()
        {
            self.lose(error.to_string());
        }
    }

    /// Sleeps until `over`, which depends on this process alone and is checked again at every
    /// [`Connection::wake_waiters`].
    pub(crate) fn sleep_until(&self, mut over: impl FnMut() -> bool) {
        self.channel.sleep_until(&mut over);
    }

    /// Takes in what has arrived, without waiting.
    pub(crate) fn drain(&self) {
        self.read_arrived();
        self.see_to_chunks();
    }

    /// Takes in what has come if the system need not be asked for it; returns whether any message did.
    pub(super) fn take_in(&self) -> bool {
        let Some(mut role) = self.channel.has_come().then(|| self.channel.try_read()).flatten() else { return false };
        match self.channel.read(&mut role, false, self) {
            Ok(any) => {
                drop(role);
                self.see_to_chunks();
                any
            }
            Err(error) => {
                drop(role);
                self.lose(error.to_string());
                true
            }
        }
    }

    fn see_to_chunks(&self) {
        // Bytes that the server has asked for are not this thread's to send.
        if self.transfers.any_ready() && self.waiting.load(Ordering::SeqCst) == 0 {
            self.background_io.rouse();
        }
    }

    /// Does the same for the background I/O thread, which sends what the server asks for.
    pub(super) fn read_arrived(&self) {
        if let Some(mut role) = self.channel.try_read() {
            loop {
                match self.channel.read(&mut role, false, self) {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(error) => return self.lose(error.to_string()),
                }
            }
        }
    }
}

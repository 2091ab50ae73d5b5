//! The client, as all of a session's threads see it: everything that they send to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ropeway_protocol::CallId;
use ropeway_protocol::types::Status;
use serde::Serialize;

use super::outgoing::{Outgoing, Sending};
use super::printed::Printed;
use crate::base::error::End;

/// The sending side to the client: answers, notes, and output of native code.
pub struct Client {
    /// The connection.
    pub outgoing: Outgoing,
    /// Output of native code.
    pub printed: Printed,
    /// Whether a kernel of the session may print. If not, a wait is answered without looking for what was printed.
    may_print: AtomicBool,
}

impl Client {
    /// Makes a client to which nothing has been sent yet.
    pub fn new(outgoing: Outgoing, printed: Printed) -> Arc<Self> {
        Arc::new(Self { outgoing, printed, may_print: AtomicBool::new(false) })
    }

    /// From now on a kernel of the session may print.
    pub fn expect_prints(&self) {
        self.may_print.store(true, Ordering::Relaxed);
    }

    /// Adds what kernels have printed to what is about to be sent.
    ///
    /// # Errors
    /// The socket's error.
    pub fn forward_printed(&self, sending: &mut Sending<'_>) -> std::io::Result<()> {
        if self.may_print.load(Ordering::Relaxed) { self.printed.forward(sending) } else { Ok(()) }
    }

    /// Answers a call.
    ///
    /// # Errors
    /// The session is over.
    pub fn answer<R: Serialize>(&self, call: &CallId<R>, answer: &Result<R, Status>) -> Result<(), End> {
        let mut sending = self.outgoing.lock();
        sending.reply(call, answer);
        Ok(sending.send()?)
    }
}

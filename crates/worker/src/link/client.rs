//! The client, as all of a session's threads see it: everything that they send to it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use ropeway_protocol::CallId;
use ropeway_protocol::messages::ContextError;
use ropeway_protocol::types::Status;
use serde::Serialize;

use super::outgoing::{Outgoing, Sending};
use super::printed::Printed;
use crate::base::error::End;
use crate::base::lock::lock;

/// The sending side to the client: answers, notes, and output of native code.
pub struct Client {
    /// The connection.
    pub outgoing: Outgoing,
    /// Output of native code.
    pub printed: Arc<Printed>,
    /// Whether a kernel of the session may print. If not, a wait is answered without looking for what was printed.
    may_print: AtomicBool,
    /// Error reports of contexts that have not been sent.
    errors: Mutex<Vec<ContextError>>,
    /// Whether there are any.
    has_errors: AtomicBool,
}

impl Client {
    /// Makes a client to which nothing has been sent yet.
    pub fn new(outgoing: Outgoing, printed: Arc<Printed>) -> Arc<Self> {
        let (may_print, has_errors) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { outgoing, printed, may_print, errors: Mutex::default(), has_errors })
    }

    /// From now on a kernel of the session may print.
    pub fn expect_prints(&self) {
        self.may_print.store(true, Ordering::Relaxed);
    }

    /// Keeps a context's error report until something is sent: a program hears why a command has failed before it sees that.
    pub fn keep_error(&self, error: ContextError) {
        lock(&self.errors).push(error);
        self.has_errors.store(true, Ordering::Release);
    }

    /// Adds what native code has said, kernels' output and contexts' error reports, to what is about to be sent.
    ///
    /// # Errors
    /// The socket's error.
    pub fn forward_said(&self, sending: &mut Sending<'_>) -> std::io::Result<()> {
        if self.has_errors.load(Ordering::Acquire) {
            let mut errors = lock(&self.errors);
            self.has_errors.store(false, Ordering::Relaxed);
            errors.drain(..).for_each(|error| sending.note(&error));
        }
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

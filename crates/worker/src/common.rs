//! What all of a session's threads share beside the reader of commands.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, Weak};

use ropeway_protocol::ids::ContextId;

use crate::base::error::End;
use crate::link::outgoing::{Outgoing, Sending};
use crate::link::printed::Printed;
use crate::link::pulse::Leading;
use crate::native::{Event, UserEvent};
use crate::notify::waiters::Waiters;
use crate::notify::watch::Watched;
use crate::objects::{Cell, Queue};
use crate::peers::{Movers, Peers};
use crate::programs::cache::Cache;
use crate::rendezvous::transfer::Gate;

/// Where the worker's own words go: the standard error that it was started with.
#[derive(Clone)]
pub struct Log(Arc<OwnedFd>);

impl Log {
    /// Words go to `fd`.
    pub fn new(fd: OwnedFd) -> Self {
        Self(Arc::new(fd))
    }

    /// Says something on a line of its own.
    pub fn line(&self, text: &str) {
        let line = format!("ropeway worker[{}]: {text}\n", std::process::id());
        // With nowhere to write there is nobody to tell.
        let _ = rustix::io::write(&*self.0, line.as_bytes());
    }
}

/// What is to be done once something has happened.
pub type Then = Box<dyn FnOnce(&Arc<Common>) + Send>;

/// What happened natively while nobody of the session was waiting for it.
pub enum News {
    /// A command ended.
    Ended(Arc<Cell>),
    /// A command came to be submitted, or to run.
    Progress(Arc<Cell>),
    /// A gated transfer may begin.
    Open(Arc<Gate>),
    /// A signal has come to its end, for which waits hold on to these.
    Signalled(Event, Vec<UserEvent>),
    /// The native implementation told its context's callback something.
    ContextError(ContextId, String),
    /// Whatever this does, and does without waiting for long.
    Then(Then),
    /// There are events to look at.
    Look,
    /// The session is over.
    Over(End),
}

/// Shared by all threads of the session.
pub struct Common {
    /// To the client.
    pub outgoing: Outgoing,
    /// Whether commands are being taken in.
    pub leading: Leading,
    /// What native code prints.
    pub printed: Printed,
    /// To the thread that passes news on to the client.
    pub news: Sender<News>,
    /// Sources and binaries that clients sent.
    pub cache: Cache,
    /// The session's queues.
    pub queues: Mutex<Vec<Weak<Queue>>>,
    /// Threads that wait for events.
    pub waiters: Waiters,
    /// Events that callbacks were asked for.
    pub watched: Mutex<Vec<Arc<Watched>>>,
    /// Whether a kernel of the session may print. If not, a wait is answered without looking for what was printed.
    pub may_print: AtomicBool,
    /// The worker's own words.
    pub log: Log,
    /// Other sessions of the same client.
    pub peers: Peers,
    /// Threads that move bytes to peers.
    pub movers: Movers,
    /// Threads that wait for what no call of the client's waits for.
    pub unasked: AtomicUsize,
    /// Bytes held for small reads that are not finished.
    pub staged_reads: AtomicUsize,
}

impl Common {
    /// Adds what kernels have printed to what is about to be sent.
    ///
    /// # Errors
    /// What the socket said.
    pub fn forward_printed(&self, sending: &mut Sending<'_>) -> std::io::Result<()> {
        if self.may_print.load(Ordering::Relaxed) { self.printed.forward(sending) } else { Ok(()) }
    }

    /// Passes news on; when nobody listens any more, the session is over.
    pub fn tell(&self, news: News) {
        let _ = self.news.send(news);
    }
}

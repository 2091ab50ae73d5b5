//! One link to one server, shared by all threads of the program.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ropeway_protocol::handshake::Welcome;
use ropeway_protocol::ids::ContextId;
use ropeway_protocol::messages::Ping;
use ropeway_protocol::{Call, Post, encode_call, encode_post};
use ropeway_transport::{Endpoint, Link};
use rustc_hash::FxBuildHasher;

use super::{background, completions, deferred_flush, in_flight, inbox, outbox, transfers};
use crate::base::stats::{STATS, count};
use crate::base::status::{Result, SERVER_LOST};
use crate::base::sync::lock;
use crate::link::in_flight::LiveQueue;
use crate::link::peers::Peers;
use crate::planning::relay::Carrier;

/// One link to one server, and the session on it.
pub struct Connection {
    pub(super) link: Link,
    pub(super) endpoint: Endpoint,
    /// The endpoint's name in the configuration, where it has one.
    pub(super) name: Option<Endpoint>,
    pub(super) welcome: Welcome,
    pub(super) outbox: outbox::Outbox,
    pub(super) inbox: inbox::Inbox,
    pub(super) helper: background::Helper,
    pub(super) calls: Mutex<HashMap<u32, Slot, FxBuildHasher>>,
    pub(super) events: completions::Events,
    pub(super) transfers: transfers::Transfers,
    pub(super) queues: Mutex<Vec<LiveQueue>>,
    pub(super) early: Mutex<in_flight::EarlyWrites>,
    /// How many `early` has.
    pub(super) early_count: AtomicUsize,
    pub(super) contexts: Mutex<HashMap<ContextId, ContextListener, FxBuildHasher>>,
    pub(super) next_call: AtomicU32,
    /// User events whose status is not set: while there are any, memory must not be read ahead of a command's turn.
    pub(super) unset_user_events: AtomicUsize,
    /// Threads that wait for the server: they read and send what is to be read and sent.
    pub(super) waiting: AtomicUsize,
    /// How often a reader looked around since the last byte.
    pub(super) looks: AtomicU32,
    /// When a sign of life was asked for, since the last byte.
    pub(super) asked_at: Mutex<Option<Instant>>,
    pub(super) lost: AtomicBool,
    pub(super) peers: Peers,
    pub(super) carrier: Carrier,
    pub(super) rounds: deferred_flush::Rounds,
    /// The application has no more use for the server.
    pub(super) closed: AtomicBool,
    /// What is done once when the server is lost.
    pub(super) on_loss: Mutex<Option<OnLoss>>,
}

/// How long a reader waits for bytes while something else can end its wait.
const LOOK_AROUND: Duration = Duration::from_micros(500);

/// A thread that waits for the server asks for a sign of life after so long without a byte from it.
pub(super) const SILENCE: Duration = Duration::from_secs(5);

/// A server that gives none for so long is lost.
const ANSWER: Duration = Duration::from_secs(10);

/// Told of errors in a context (pfn_notify of clCreateContext).
pub(crate) type ContextListener = Arc<dyn Fn(&str) + Send + Sync>;

/// Done when a server is lost, or closed.
pub(crate) type OnLoss = Box<dyn FnOnce() + Send>;

/// The place for a call's answer.
#[derive(Debug)]
pub(super) enum Slot {
    /// It has not come. Whether it tells of the ends of commands: then it is a [`ropeway_protocol::types::Waited`].
    Waiting { tells_ends: bool },
    /// It has come; the ends that it told of are taken in.
    Answered(Vec<u8>),
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Connection {
    /// What the server said of itself: its platforms and devices.
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// Where the server is.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// What the server is called in the configuration: where it is, or `local:`.
    pub fn configured(&self) -> &Endpoint {
        self.name.as_ref().unwrap_or(&self.endpoint)
    }

    /// The server's network address; none on this machine.
    pub fn peer_address(&self) -> Option<std::net::SocketAddr> {
        self.link.peer_address()
    }

    /// Bytes that went to the server, and that came from it.
    pub fn traffic(&self) -> (u64, u64) {
        self.link.traffic()
    }

    /// What its session knows of others.
    pub(crate) fn peers(&self) -> &Peers {
        &self.peers
    }

    /// What brings it the memory of servers that do not reach it.
    pub(crate) fn carrier(&self) -> &Carrier {
        &self.carrier
    }

    /// Whether the server is gone for good.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Whether the application has no more use for the server, or a new connection has taken this one's place.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Whether the server is gone, also where nobody has used the link since.
    pub fn look_whether_lost(&self) -> bool {
        if !self.is_lost() && self.waiting.load(Ordering::SeqCst) == 0 {
            self.drain();
        }
        self.is_lost()
    }

    /// Sends a message without an answer, in the next batch.
    ///
    /// # Errors
    /// [`SERVER_LOST`].
    pub(crate) fn post<P: Post>(&self, post: &P) -> Result<()> {
        self.post_with_tail(post, &[])
    }

    /// Sends a message with bulk bytes behind it. The bytes are the caller's again when this returns.
    ///
    /// # Errors
    /// [`SERVER_LOST`].
    pub(crate) fn post_with_tail<P: Post>(&self, post: &P, tail: &[u8]) -> Result<()> {
        self.push(tail, |out| encode_post(out, post, tail.len()))
    }

    pub(super) fn push(&self, tail: &[u8], encode: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        if self.is_lost() {
            return Err(SERVER_LOST);
        }
        let full = self.check(self.outbox.push(&self.link, tail, encode))?;
        if !full && self.leave_to_round() {
            return Ok(());
        }
        // A quiet link carries the first message at once; those right behind it gather.
        let was_quiet = self.helper.note_activity();
        if full || was_quiet { self.flush() } else { Ok(()) }
    }

    /// Sends all that waits to be sent.
    ///
    /// # Errors
    /// [`SERVER_LOST`].
    pub fn flush(&self) -> Result<()> {
        self.check(self.outbox.flush(&self.link))
    }

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

    pub(super) fn next_call_number(&self) -> u32 {
        self.next_call.fetch_add(1, Ordering::Relaxed).max(1)
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
            if let Some(mut role) = self.inbox.read_or_sleep(&mut look) {
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
    fn read_patiently(&self, role: &mut inbox::Role<'_>) -> std::result::Result<(), inbox::ReadError> {
        // Another thread may send the last chunk that this one waits for, and no answer comes of that.
        if self.transfers.any_unsent() && !self.link.wait_readable(Some(LOOK_AROUND))? {
            let looks = self.looks.fetch_add(1, Ordering::Relaxed) + 1;
            if u128::from(looks) * LOOK_AROUND.as_nanos() < SILENCE.as_nanos() {
                return Ok(());
            }
            self.looks.store(0, Ordering::Relaxed);
            return self.ask_for_a_sign_of_life();
        }
        self.looks.store(0, Ordering::Relaxed);
        if role.read(&self.link, true, self)? {
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
    fn ask_for_a_sign_of_life(&self) -> std::result::Result<(), inbox::ReadError> {
        let mut asked_at = lock(&self.asked_at);
        match *asked_at {
            Some(at) if at.elapsed() < ANSWER => Ok(()),
            Some(_) => Err(inbox::ReadError::Silent),
            None => {
                *asked_at = Some(Instant::now());
                // Who reads the answer says so at once.
                drop(asked_at);
                let number = self.next_call_number();
                // Nobody waits for this very answer: any bytes will do. A failure marks the connection as lost.
                let _ =
                    self.push(&[], |out| encode_call(out, number, &Ping { answer: 0 }, 0)).and_then(|()| self.flush());
                Ok(())
            }
        }
    }

    /// Sleeps until something that happens in this process, which is looked at again at every [`Connection::wake_waiters`].
    pub(crate) fn sleep_until(&self, mut over: impl FnMut() -> bool) {
        self.inbox.sleep_until(&mut over);
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
        if let Some(mut role) = self.inbox.try_read() {
            loop {
                match role.read(&self.link, false, self) {
                    Ok(true) => self.heard(),
                    Ok(false) => return,
                    Err(error) => return self.lose(error.to_string()),
                }
            }
        }
    }

    /// Marks the server as gone: all that waits for it ends with [`SERVER_LOST`]. Said once.
    pub(crate) fn lose(&self, reason: String) {
        if self.lost.swap(true, Ordering::AcqRel) {
            return;
        }
        if !self.is_closed() {
            crate::error!(
                "the server {} is lost: {reason}; its devices are unavailable from now on; see its log, then start the program again",
                self.configured()
            );
        }
        self.link.shutdown();
        self.transfers.lose();
        self.events.lose();
        self.carrier.lose();
        self.inbox.wake();
        // It has nothing more to do, and ends.
        self.helper.rouse();
        let on_loss = lock(&self.on_loss).take();
        if let Some(on_loss) = on_loss {
            on_loss();
        }
    }

    /// Ends the session: all that waits for the server ends with [`SERVER_LOST`].
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.lose("the program has disconnected it".to_owned());
    }

    /// Has `act` done when the server is lost; at once, if it is already.
    pub(crate) fn when_lost(&self, act: OnLoss) {
        *lock(&self.on_loss) = Some(act);
        if self.is_lost() {
            let act = lock(&self.on_loss).take();
            if let Some(act) = act {
                act();
            }
        }
    }

    /// Tells `listener` of errors in a context from now on.
    pub(crate) fn listen(&self, context: ContextId, listener: ContextListener) {
        lock(&self.contexts).insert(context, listener);
    }

    /// Tells nobody any more.
    pub(crate) fn stop_listening(&self, context: ContextId) {
        lock(&self.contexts).remove(&context);
    }

    pub(super) fn check<T>(&self, sent: io::Result<T>) -> Result<T> {
        sent.map_err(|error| {
            self.lose(error.to_string());
            SERVER_LOST
        })
    }
}

impl fmt::Display for inbox::ReadError {
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

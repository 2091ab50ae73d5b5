//! One link to one server, shared by all threads of the program.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};

use ropeway_protocol::handshake::Welcome;
use ropeway_protocol::ids::{ContextId, EventId, SessionId};
use ropeway_protocol::messages::{LosePeer, ReleaseEvent};
use ropeway_protocol::types::Completions;
use ropeway_protocol::{Call, Post};
use ropeway_transport::Endpoint;
use rustc_hash::FxBuildHasher;

use super::background_io::BackgroundIo;
use super::calls::Calls;
use super::channel::Channel;
use super::completion::Completion;
use super::completions::Live;
use super::deferred_flush::{Deferred, Visited};
use super::in_flight::InFlight;
use super::inbox::{self, ReadError};
use super::liveness::{Liveness, Verdict};
use super::outbox::Pushed;
use super::sessions::Sessions;
use super::transfers::Transfers;
use crate::base::modelled::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use crate::base::status::{Result, SERVER_LOST, Status};
use crate::base::sync::lock;

/// One link to one server, and the session on it.
pub struct Connection {
    pub(super) channel: Channel,
    endpoint: Endpoint,
    /// The endpoint's name in the configuration, where it has one.
    name: Option<Endpoint>,
    welcome: Welcome,
    pub(super) background_io: BackgroundIo,
    /// Pending replies, by the numbers of their calls.
    pub(super) calls: Calls,
    events: Live,
    /// Shared with writes over other links, which wait for reads over this one into the same memory.
    pub(super) transfers: Arc<Transfers>,
    pub(super) in_flight: InFlight,
    pub(super) contexts: Mutex<HashMap<ContextId, ContextListener, FxBuildHasher>>,
    /// Bytes of errors in contexts that the application has not been told of yet.
    pub(super) untold_errors: Arc<AtomicUsize>,
    /// User events whose status is not set: while there are any, memory must not be read ahead of a command's turn.
    unset_user_events: AtomicUsize,
    /// Threads that wait for the server: they read and send what is to be read and sent.
    pub(super) waiting: AtomicUsize,
    /// How often a reader has checked the link since the last byte arrived.
    pub(super) looks: AtomicU32,
    pub(super) liveness: Liveness,
    /// Somebody has found the server lost, and sees to what follows.
    losing: AtomicBool,
    /// The loss may be made known: no thread uses the application's memory any more.
    lost: AtomicBool,
    pub(super) sessions: Sessions,
    deferred: Deferred,
    /// The application has no more use for the server.
    closed: AtomicBool,
    /// Called once when the server is lost.
    on_loss: Mutex<Vec<OnLoss>>,
}

/// Told of errors in a context (pfn_notify of clCreateContext).
pub(crate) type ContextListener = Arc<dyn Fn(&str) + Send + Sync>;

/// Done when a server is lost, or closed.
pub(crate) type OnLoss = Box<dyn FnOnce() + Send>;

impl Visited for Connection {
    fn be_visited(&self) {
        if self.deferred.take_posted() {
            // A lost server is noticed by those who wait for it.
            let _ = self.flush_what_fits();
        }
    }

    fn is_shared(&self) -> bool {
        self.deferred.is_shared() && !self.is_lost()
    }

    fn look_whether_it_lives(&self) {
        self.drain_and_look();
    }

    fn lose_peer(&self, peer: SessionId) {
        // A server that is lost, too, need not be told.
        if lock(&self.sessions.0).has_secret {
            let _ = self.post(&LosePeer { peer }).and_then(|()| self.flush());
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Connection {
    /// A session that has begun.
    ///
    /// # Errors
    /// Those of the system, where it has not what the connection needs.
    pub(super) fn new(
        channel: Channel,
        endpoint: Endpoint,
        name: Option<Endpoint>,
        welcome: Welcome,
    ) -> io::Result<Self> {
        Ok(Self {
            channel,
            endpoint,
            name,
            welcome,
            background_io: BackgroundIo::new()?,
            calls: Calls::default(),
            events: Live::default(),
            transfers: Arc::default(),
            in_flight: InFlight::default(),
            contexts: Mutex::default(),
            untold_errors: Arc::default(),
            unset_user_events: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            looks: AtomicU32::new(0),
            liveness: Liveness::default(),
            losing: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            sessions: Sessions::default(),
            deferred: Deferred::default(),
            closed: AtomicBool::new(false),
            on_loss: Mutex::default(),
        })
    }

    /// The server's welcome: its platforms and devices.
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// Where the server is.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The server's address as it is configured, or `local:`.
    pub fn configured(&self) -> &Endpoint {
        self.name.as_ref().unwrap_or(&self.endpoint)
    }

    /// The server's network address; none on this machine.
    pub fn peer_address(&self) -> Option<std::net::SocketAddr> {
        self.channel.peer_address()
    }

    /// Bytes that went to the server, and that came from it.
    pub fn traffic(&self) -> (u64, u64) {
        self.channel.traffic()
    }

    /// Whether the server is gone for good.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Whether the application has no more use for the server, or a new connection has taken this one's place.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
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
        if self.is_lost() {
            return Err(SERVER_LOST);
        }
        self.was_posted(self.post_bytes(post, tail))
    }

    /// Adds a message to the batch, which may be sent at once. The result must be passed to [`Self::was_posted`].
    pub(super) fn post_bytes<P: Post>(&self, post: &P, tail: &[u8]) -> io::Result<Pushed> {
        // The background thread has to read while another one sends.
        self.channel.post(post, tail, &|| !self.background_io.is_this_thread(), &|| self.held_up())
    }

    /// Handles the result of posting a message: the message was added, or the link has failed.
    ///
    /// # Errors
    /// [`SERVER_LOST`].
    pub(super) fn was_posted(&self, posted: io::Result<Pushed>) -> Result<()> {
        let pushed = self.check(posted)?;
        self.sent_soon(pushed)
    }

    /// Sends a message whose answer will bear `number`, in the next batch.
    ///
    /// # Errors
    /// [`SERVER_LOST`].
    pub(super) fn post_call<C: Call>(&self, number: u32, call: &C, tail: &[u8]) -> Result<()> {
        if self.is_lost() {
            return Err(SERVER_LOST);
        }
        let pushed = self.check(self.channel.call(number, call, tail, &|| self.held_up()))?;
        self.sent_soon(pushed)
    }

    /// A message was added to the batch: sees that it is sent before long.
    fn sent_soon(&self, pushed: Pushed) -> Result<()> {
        let is_full = pushed.is_full();
        if !is_full && self.background_io.is_quiet() && self.deferred.leave() {
            return Ok(());
        }
        // A quiet link carries the first message at once; those right behind it gather.
        let was_quiet = self.background_io.note_activity();
        if !is_full && !was_quiet {
            return Ok(());
        }
        if inbox::is_reader() {
            // Other threads wait for what this thread reads, so it must not block.
            return self.flush_what_fits();
        }
        if pushed.is_too_much() && !self.background_io.is_this_thread() {
            return self.check(self.channel.flush_behind(&|| self.held_up()));
        }
        self.flush()
    }

    /// Sends what the socket takes at once; the rest is the background thread's.
    pub(super) fn flush_what_fits(&self) -> Result<()> {
        if !self.check(self.channel.try_flush())? {
            self.background_io.note_activity();
        }
        Ok(())
    }

    /// Counts a context with several homes, one of them here (with false: one that is gone). While there are any, posts
    /// wait for the next round.
    pub(crate) fn count_shared_context(&self, made: bool) {
        self.deferred.count_context(made);
    }

    /// Leaves what waits to be sent to the next round; false where there are no rounds.
    pub(crate) fn leave_to_round(&self) -> bool {
        !self.channel.has_pending() || self.deferred.leave()
    }

    /// Sends all that waits to be sent, or leaves it to the thread that is sending.
    ///
    /// # Errors
    /// [`SERVER_LOST`].
    pub fn flush(&self) -> Result<()> {
        self.check(self.channel.flush(&|| self.held_up()))
    }

    /// Called when the socket has taken nothing for a while and this thread holds up all others that have something to
    /// send. The server may still report that it lives, so the background I/O thread reads meanwhile. This thread reads
    /// nothing, as it may be using the application's memory, or hold what is needed to hand out what was read.
    ///
    /// # Errors
    /// The server does not live, or has been lost meanwhile; [`io::ErrorKind::WouldBlock`] for the background thread
    /// itself, which does not wait.
    fn held_up(&self) -> io::Result<()> {
        if self.is_lost() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if self.background_io.is_this_thread() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.channel.note_held_up();
        self.background_io.rouse();
        match self.liveness.look(self.channel.look()?, false) {
            Verdict::Waits | Verdict::Ask => Ok(()),
            Verdict::Silent => Err(io::Error::new(io::ErrorKind::TimedOut, ReadError::Silent.to_string())),
        }
    }

    /// Marks the server as lost: all that waits for it ends with [`SERVER_LOST`]. Logged once.
    ///
    /// Not for a thread that is using the application's memory: the loss is made known, by this or any other thread,
    /// only after all such threads have left that memory.
    pub(crate) fn lose(&self, reason: String) {
        let is_first = !self.losing.swap(true, Ordering::AcqRel);
        if is_first && !self.is_closed() {
            crate::error!(
                "the server {} is lost: {reason}; its devices are unavailable from now on; see its log, then start the program again",
                self.configured()
            );
        }
        self.channel.shutdown();
        let unfinished = self.transfers.close();
        // Whichever thread comes here returns an error, after which no call may go well.
        self.lost.store(true, Ordering::SeqCst);
        unfinished.iter().for_each(|ticket| ticket.end(SERVER_LOST));
        if !is_first {
            return;
        }
        self.events.lose();
        self.channel.wake();
        // It has nothing more to do, and ends.
        self.background_io.rouse();
        self.act_on_loss();
    }

    fn act_on_loss(&self) {
        let acts = std::mem::take(&mut *lock(&self.on_loss));
        acts.into_iter().for_each(|act| act());
    }

    /// Ends the session: all that waits for the server ends with [`SERVER_LOST`].
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.lose("the program has disconnected it".to_owned());
    }

    /// Has `act` done when the server is lost; at once, if it is already.
    pub(crate) fn when_lost(&self, act: OnLoss) {
        lock(&self.on_loss).push(act);
        if self.is_lost() {
            self.act_on_loss();
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

    fn check<T>(&self, sent: io::Result<T>) -> Result<T> {
        sent.map_err(|error| {
            self.lose(error.to_string());
            SERVER_LOST
        })
    }
}

/// Notifications that the objects ask for.
impl Connection {
    /// Registers an event for notifications.
    pub(crate) fn add_event<E: Completion + 'static>(&self, id: EventId, event: &Arc<E>) {
        let weak = Arc::downgrade(event);
        self.events.add(id, weak);
        if self.is_lost() {
            event.lost();
        }
    }

    /// The event of this name, while the program holds it.
    pub(crate) fn event(&self, event: EventId) -> Option<Arc<dyn Completion>> {
        self.events.get(event)
    }

    /// Unregisters the event.
    pub(crate) fn remove_event(&self, event: EventId) {
        self.events.remove(event);
    }

    /// A command was submitted, or runs.
    pub(crate) fn progress(&self, event: EventId, status: Status) {
        if let Some(event) = self.event(event) {
            event.progressed(status);
        }
    }

    /// Takes in the ends of commands.
    pub(crate) fn complete(&self, completions: &Completions) {
        for done in &completions.done {
            match self.event(done.event) {
                Some(event) if done.status < 0 => {
                    // The reads are revoked before anybody is told: data that the server still sends for a failed read
                    // must not be stored.
                    let revoked = self.transfers.revoke_reads_of(&event);
                    event.completed(done.status, done.times);
                    revoked.iter().for_each(|ticket| self.end_transfer(ticket, done.status));
                }
                Some(event) => event.completed(done.status, done.times),
                None => self.release_all(self.in_flight.ended(done.event)),
            }
        }
    }

    /// Releases events of which the application knows nothing.
    pub(super) fn release_all(&self, events: Vec<EventId>) {
        for event in events {
            // A lost server has dropped it already.
            let _ = self.post(&ReleaseEvent { event });
        }
    }
}

/// Calls of the objects to their connection.
impl Connection {
    /// Notes that a notification will come that nobody may be waiting for.
    pub(crate) fn expect_news(&self) {
        self.background_io.expect();
    }

    /// They came.
    pub(crate) fn news_came(&self) {
        self.background_io.settled();
    }

    /// A user event was made (or, with false, set).
    pub(crate) fn count_user_event(&self, made: bool) {
        if made {
            self.unset_user_events.fetch_add(1, Ordering::AcqRel);
        } else {
            self.unset_user_events.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Whether some command may be held up by the application itself.
    pub(crate) fn has_unset_user_events(&self) -> bool {
        self.unset_user_events.load(Ordering::Acquire) > 0
    }

    /// Something that a waiting thread may be waiting for happened here.
    pub(crate) fn wake_waiters(&self) {
        self.channel.wake();
    }
}

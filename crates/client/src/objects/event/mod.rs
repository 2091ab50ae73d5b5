//! Events: of commands, and of the user.

mod remote;

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use ropeway_abi::{
    CL_COMMAND_USER, CL_COMPLETE, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, CL_QUEUED, CL_RUNNING, CL_SUBMITTED,
};
use ropeway_protocol::ids::EventId;
use ropeway_protocol::messages::{ReleaseEvent, Subscribe, WaitForEvents, WatchProgress};
use ropeway_protocol::types::EventList;
use smallvec::SmallVec;

use crate::base::callbacks::run_later;
use crate::base::ids::new_id;
use crate::base::status::{Result, SERVER_LOST, Status};
use crate::base::sync::lock;
use crate::link::completion::Completion;
use crate::link::connection::Connection;
use crate::link::replies::PendingReplies;
use crate::objects::context::Context;
use crate::objects::home::Home;
use crate::objects::queue::Queue;
use remote::RemoteProxies;

/// The number of status queries after which the server is asked to report whether an unfinished command runs.
const PATIENCE: u32 = 4;

/// A callback, which gets the status that the event reached.
pub type EventCallback = Box<dyn FnOnce(Status) + Send>;

/// A callback, by who registered it: the application or the library.
enum Called {
    /// The application's function, which may take long: runs on the callback thread.
    Later(EventCallback),
    /// The library's own function, which waits for nothing: runs in the thread that learns of the status.
    AtOnce(EventCallback),
}

/// An event.
pub struct Event {
    /// Its name in this process.
    name: u64,
    context: Arc<Context>,
    /// The number of its command's home; of no meaning for a user event, which is in every home that needs it.
    home: usize,
    queue: Option<Arc<Queue>>,
    /// The number of its command in a queue that runs its commands in order ([`crate::objects::progress::Enqueuing::number`]); 0 if it has none.
    place: AtomicU64,
    command: u32,
    /// The execution status as the application may see it.
    status: AtomicI32,
    /// Whether data for the application is still to come: the event of a read does not complete before the data is
    /// here.
    awaits_data: AtomicBool,
    times: OnceLock<[u64; 5]>,
    /// The callbacks that are registered, each with its status.
    callbacks: Mutex<Vec<(Status, Called)>>,
    subscribed: AtomicBool,
    /// Whether the server was asked to report the command's progress, besides its end.
    watched: AtomicBool,
    /// How often its status was asked for before it had ended.
    polls: AtomicU32,
    /// Whether it is counted as outstanding at the connection.
    expected: AtomicBool,
    /// Whether the server has never heard of it.
    unsent: AtomicBool,
    proxies: RemoteProxies,
    /// Events that Ropeway, not the application, makes the command wait for: they have all ended once this one has
    /// ended well.
    implied: Mutex<SmallVec<[Arc<Event>; 1]>>,
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({:?})", self.id(), self.status)
    }
}

impl Event {
    /// An event for a command that is about to be enqueued on `queue`; `command` is its CL_COMMAND_*.
    pub(crate) fn of_command(queue: &Arc<Queue>, command: u32, awaits_data: bool) -> Arc<Self> {
        let context = queue.context();
        Self::new(Arc::clone(context), Some(Arc::clone(queue)), command, CL_QUEUED, awaits_data)
    }

    /// A user event (clCreateUserEvent).
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn user(context: &Arc<Context>) -> Result<Arc<Self>> {
        let event = Self::new(Arc::clone(context), None, CL_COMMAND_USER, CL_SUBMITTED, false);
        event.count_user_event(true);
        context.note_user_event();
        if let Some(home) = context.only_home() {
            event.named_in(home)?;
        }
        Ok(event)
    }

    fn new(
        context: Arc<Context>,
        queue: Option<Arc<Queue>>,
        command: u32,
        status: i32,
        awaits_data: bool,
    ) -> Arc<Self> {
        let event = Arc::new(Self {
            name: new_id(),
            context,
            home: queue.as_ref().map_or(0, |queue| queue.home().number()),
            queue,
            place: AtomicU64::new(0),
            command,
            status: AtomicI32::new(status),
            awaits_data: AtomicBool::new(awaits_data),
            times: OnceLock::new(),
            callbacks: Mutex::default(),
            subscribed: AtomicBool::new(false),
            watched: AtomicBool::new(false),
            polls: AtomicU32::new(0),
            expected: AtomicBool::new(false),
            unsent: AtomicBool::new(false),
            proxies: RemoteProxies::default(),
            implied: Mutex::default(),
        });
        // A user event is the application's to end, while there is any server.
        if event.queue.is_some() || event.context.only_home().is_some() {
            event.connection().add_event(event.id(), &event);
        }
        event
    }

    /// Its name where its command is.
    pub(crate) fn id(&self) -> EventId {
        EventId(self.home().name(self.name))
    }

    /// Its command has this number in its queue.
    pub(crate) fn has_place(&self, number: u64) {
        if self.queue.as_ref().is_some_and(|queue| queue.is_in_order()) {
            self.place.store(number, Ordering::Relaxed);
        }
    }

    /// Tells its queue how far that has come, when the server has answered a wait for this event.
    fn note_settled(&self) {
        let place = self.place.load(Ordering::Relaxed);
        if let (Some(queue), true) = (&self.queue, place > 0 && self.is_over()) {
            queue.progress().note_settled(place);
        }
    }

    /// Records that the command failed before it was sent.
    pub(crate) fn was_not_sent(&self) {
        self.unsent.store(true, Ordering::Release);
    }

    /// Its context.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The queue of its command; `None` for a user event.
    pub fn queue(&self) -> Option<&Arc<Queue>> {
        self.queue.as_ref()
    }

    /// CL_EVENT_COMMAND_TYPE.
    pub fn command(&self) -> u32 {
        self.command
    }

    fn home(&self) -> &Home {
        &self.context.homes()[self.home]
    }

    fn connection(&self) -> &Arc<Connection> {
        self.home().connection()
    }

    /// Counts a user event that was made (or, with false, set): until it is set, commands of any home may be held up.
    fn count_user_event(&self, made: bool) {
        for connection in self.context.connections() {
            connection.count_user_event(made);
        }
    }

    /// The status known here and now; costs nothing.
    fn known_status(&self) -> i32 {
        self.status.load(Ordering::Acquire)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.known_status() <= CL_COMPLETE
    }

    /// Records that, once this event has ended well, so have `others`, whose ends no server reports.
    pub(crate) fn implies(&self, others: impl Iterator<Item = Arc<Event>>) {
        lock(&self.implied).extend(others);
    }

    /// Whether its command waits for `other` without the application's knowing.
    pub(crate) fn has_waited_for(&self, other: &Arc<Self>) -> bool {
        lock(&self.implied).iter().any(|implied| Arc::ptr_eq(implied, other))
    }

    /// Whether it is known here to have ended well.
    pub(crate) fn is_over(&self) -> bool {
        self.known_status() == CL_COMPLETE
    }

    /// Whether it is known here to have ended with an error.
    pub fn has_failed(&self) -> bool {
        self.known_status() < 0
    }

    /// CL_EVENT_COMMAND_EXECUTION_STATUS: CL_QUEUED, CL_SUBMITTED, CL_RUNNING, CL_COMPLETE or an error.
    ///
    /// Does not wait for the command. If it has not ended, sends what is pending and takes in what has arrived, so that
    /// polling sees the end; in a context with several homes, that is a call to the command's server. So the caller
    /// must hold no lock that other threads need.
    pub fn status(&self) -> i32 {
        if !self.has_ended() && self.queue.is_some() && self.context.spans_homes() {
            // The client may already know the end of a command in another home that waited for this one; when asked
            // what has ended, this command's own server then reports this one, too. A lost server ends the event.
            let _ = self.take_news();
        }
        if !self.has_ended() && self.queue.is_some() {
            self.subscribe();
            if self.polls.fetch_add(1, Ordering::Relaxed) == PATIENCE {
                self.watch_progress();
            }
            // A lost server ends the event.
            let _ = self.connection().flush();
            self.connection().drain();
            if !self.has_ended() {
                // A program that polls would otherwise keep a core, for as long as the scheduler lets it, from the
                // server and its device where they are on this machine.
                std::thread::yield_now();
            }
        }
        self.known_status()
    }

    /// Asks the server to tell when the command has ended, once.
    pub(crate) fn subscribe(&self) {
        if self.queue.is_none() || self.subscribed.swap(true, Ordering::AcqRel) {
            return;
        }
        self.expected.store(true, Ordering::Release);
        self.connection().expect_news();
        let _ = self.connection().post(&Subscribe { event: self.id() });
        if self.has_ended() {
            self.no_longer_expected();
        }
    }

    /// Asks the server to tell when the command is submitted and when it runs, once.
    fn watch_progress(&self) {
        if self.queue.is_some() && !self.has_ended() && !self.watched.swap(true, Ordering::AcqRel) {
            let _ = self.connection().post(&WatchProgress { event: self.id() });
        }
    }

    fn no_longer_expected(&self) {
        if self.expected.swap(false, Ordering::AcqRel) {
            self.connection().news_came();
        }
    }

    /// Sets a user event's status: 0 (CL_COMPLETE) or an error (clSetUserEventStatus).
    ///
    /// # Errors
    /// CL_INVALID_OPERATION when it was set before, [`crate::SERVER_LOST`].
    pub fn set_status(&self, status: Status) -> Result<()> {
        if !self.advance(status) {
            return Err(ropeway_abi::CL_INVALID_OPERATION);
        }
        self.count_user_event(false);
        let sent = self.pass_on(status);
        for connection in self.context.connections() {
            connection.wake_waiters();
        }
        // In a context with several homes the status is set even if the server of a home that waits for it is lost.
        if self.context.spans_homes() { Ok(()) } else { sent }
    }

    /// Calls `callback` once the event's status is `level` (CL_SUBMITTED, CL_RUNNING or CL_COMPLETE) or past it; at
    /// once (on the callback thread) if it is already (clSetEventCallback). It gets `level`, or the error that the
    /// event ended with.
    pub fn on_status(&self, level: Status, callback: EventCallback) {
        let mut callbacks = lock(&self.callbacks);
        let status = self.known_status();
        if status <= level {
            return run_later(move || callback(if status < 0 { status } else { level }));
        }
        callbacks.push((level, Called::Later(callback)));
        drop(callbacks);
        self.subscribe();
        if level > CL_COMPLETE {
            self.watch_progress();
        }
    }

    /// Calls `act` with its final status, in the thread that learns of it; `act` must not wait. Does not ask the server
    /// to report the end.
    pub(crate) fn then(&self, act: EventCallback) {
        let mut callbacks = lock(&self.callbacks);
        if !self.has_ended() {
            return callbacks.push((CL_COMPLETE, Called::AtOnce(act)));
        }
        drop(callbacks);
        act(self.known_status());
    }

    /// When its command was queued, submitted, started, ended and completed, in nanoseconds of the device's timer.
    ///
    /// # Errors
    /// CL_PROFILING_INFO_NOT_AVAILABLE for a command that has not ended or whose queue does not profile.
    pub fn times(&self) -> Result<[u64; 5]> {
        if self.status() == CL_COMPLETE {
            if self.times.get().is_none() {
                // The data of a read can arrive before the notification of its end.
                self.ask()?;
            }
            if let Some(times) = self.times.get() {
                return Ok(*times);
            }
        }
        Err(ropeway_abi::CL_PROFILING_INFO_NOT_AVAILABLE)
    }

    /// Makes the server report everything that has ended by now.
    fn take_news(&self) -> Result<()> {
        self.context.flush_others(self.home());
        self.connection().call(&WaitForEvents { events: EventList::default() }).map(drop)
    }

    /// Waits for its end, however it ends.
    pub(crate) fn learn_end(&self) {
        if !self.has_ended() {
            // A lost server has ended it.
            let _ = self.ask();
        }
    }

    fn ask(&self) -> Result<()> {
        self.connection().call(&WaitForEvents { events: [self.id()].into_iter().collect() }).map(drop)
    }

    /// Ends the event with `status`, as reported by the server or because the server is lost.
    pub(crate) fn end(&self, status: Status) {
        if !self.advance(status.min(0)) {
            return;
        }
        if self.queue.is_none() {
            self.count_user_event(false);
        }
        self.no_longer_expected();
        for implied in std::mem::take(&mut *lock(&self.implied)) {
            match status {
                CL_COMPLETE => implied.end(CL_COMPLETE),
                // This command may have failed because that one did, so the end of that one has to be known.
                _ => implied.subscribe(),
            }
        }
        // A lost server has ended it already.
        let _ = self.pass_on(status.min(0));
    }

    /// Takes a status that lies past the current one, and calls the callbacks for it, in the order of the statuses that
    /// they wait for. Returns false if the event has already come as far.
    fn advance(&self, status: Status) -> bool {
        let mut callbacks = lock(&self.callbacks);
        let before = self.known_status();
        if before <= CL_COMPLETE || status >= before {
            return false;
        }
        if status < 0 {
            self.context.note_failure();
        }
        self.status.store(status, Ordering::Release);
        let mut at_once: SmallVec<[_; 1]> = SmallVec::new();
        for level in [CL_SUBMITTED, CL_RUNNING, CL_COMPLETE] {
            if level < status {
                break;
            }
            let seen = if status < 0 { status } else { level };
            for (_, callback) in callbacks.extract_if(.., |(at, _)| *at == level) {
                match callback {
                    // The callback is only handed over, and under the lock, so that no later status overtakes this one.
                    Called::Later(callback) => run_later(move || callback(seen)),
                    Called::AtOnce(act) => at_once.push(move || act(seen)),
                }
            }
        }
        drop(callbacks);
        at_once.into_iter().for_each(|act| act());
        true
    }
}

impl Completion for Event {
    fn completed(&self, status: Status, times: Option<[u64; 5]>) {
        if let Some(mut times) = times {
            // A native implementation's clocks may differ slightly, but a later stage must not appear earlier.
            for at in 1..times.len() {
                times[at] = times[at].max(times[at - 1]);
            }
            let _ = self.times.set(times);
        }
        if status < 0 || !self.awaits_data.load(Ordering::Acquire) {
            self.end(status);
        }
    }

    fn progressed(&self, status: Status) {
        if self.queue.is_some() && [CL_SUBMITTED, CL_RUNNING].contains(&status) {
            self.advance(status);
        }
    }

    fn data_arrived(&self, status: Status) {
        self.awaits_data.store(false, Ordering::Release);
        self.end(status);
    }

    fn lost(&self) {
        self.end(SERVER_LOST);
    }
}

/// Waits for all of `events`, which are of one context (clWaitForEvents).
///
/// # Errors
/// CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST when one of them ended with an error; the first error that a command
/// without an event ended with on their queues; [`crate::SERVER_LOST`].
pub fn wait_for_all(events: &[&Event]) -> Result<()> {
    let Some(first) = events.first() else { return Ok(()) };
    let context = first.context();
    // User events end in this process, and the commands that they hold up cannot end before them: so they are awaited
    // first, without the server.
    context.wait_here(|| events.iter().all(|e| e.queue.is_some() || e.has_ended()))?;
    // All homes are asked at once: the waits cost the longest round trip, not all of them.
    let mut asked: Vec<Part<'_, '_>> = Vec::new();
    for event in events.iter().filter(|event| !event.has_ended()) {
        match asked.binary_search_by_key(&event.home, |part| part.home.number()) {
            Ok(at) => asked[at].events.push(event),
            Err(at) => {
                asked.insert(at, Part { home: event.home(), events: std::iter::once(*event).collect(), outcome: Ok(0) })
            }
        }
    }
    let mut answers = PendingReplies::default();
    for (at, part) in asked.iter().enumerate() {
        let events = part.events.iter().map(|event| event.id()).collect();
        answers.expect(at, part.home.connection().ask(&WaitForEvents { events }));
    }
    if context.spans_homes() {
        // The commands that they wait for in turn may not have been sent yet.
        context.flush_all();
    }
    while let Some((at, answer)) = answers.next() {
        let part = &mut asked[at];
        part.outcome = answer.map(|waited| waited.status);
        if part.outcome.is_ok() {
            part.events.iter().for_each(|event| event.note_settled());
        }
    }
    let mut outcome = Ok(0);
    for part in &asked {
        let waited = part.outcome.and_then(|status| part.await_data().map(|()| status));
        // A server may have told the ends before it was lost, and not have answered.
        let waited = waited.or_else(|error| if part.is_complete() { Ok(0) } else { Err(error) });
        // The first error counts; all are waited for.
        outcome = outcome.and_then(|first: Status| waited.map(|status| if first < 0 { first } else { status }));
    }
    let status = outcome?;
    if events.iter().any(|e| e.known_status() < 0) {
        return Err(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    }
    if status < 0 { Err(status) } else { Ok(()) }
}

/// Those events of a wait whose commands are in one home.
struct Part<'a, 'b> {
    home: &'a Home,
    events: SmallVec<[&'b Event; 4]>,
    /// The first error of a command without an event.
    outcome: Result<Status>,
}

impl Part<'_, '_> {
    /// Whether all are known to have ended, and well.
    fn is_complete(&self) -> bool {
        self.events.iter().all(|event| event.has_ended() && event.known_status() >= 0)
    }

    /// Waits for the data of reads, which may still be under way when their commands have ended.
    fn await_data(&self) -> Result<()> {
        for event in &self.events {
            if !event.awaits_data.load(Ordering::Acquire) && !event.has_ended() {
                event.subscribe();
            }
        }
        self.home.connection().wait(|| self.events.iter().all(|e| e.has_ended()).then_some(()))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let ended = self.has_ended();
        self.no_longer_expected();
        self.connection().remove_event(self.id());
        if self.queue.is_none() && !ended {
            self.count_user_event(false);
        }
        // The server keeps an event until it is told otherwise. A lost server has dropped it already.
        if self.queue.is_some() && !self.unsent.load(Ordering::Acquire) {
            let _ = self.connection().post(&ReleaseEvent { event: self.id() });
        }
        self.release_elsewhere();
    }
}

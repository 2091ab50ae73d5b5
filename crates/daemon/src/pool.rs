//! The worker processes: warm ones kept ready for the next clients, and those that serve.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ropeway_lease::grant::LeaseId;
use ropeway_lease::property::Properties;
use ropeway_protocol::handshake::Purpose;
use ropeway_protocol::ids::SessionId;
use ropeway_stream::Declaration;
use ropeway_stream::feed::Feeds;
use ropeway_transport::tls::PublicKey;
use ropeway_worker::handoff::DriverFact;
use tracing::{debug, error, info, warn};

use crate::audit::{Audit, Event};
use crate::groups::Group;
use crate::memory;
use crate::options::WorkerCommand;
use crate::process::{State, Word, Worker};
use crate::rooms::Rooms;

mod clients;
mod ends;

pub(crate) use clients::{Client, Guest};
use ends::last_words;

/// The program that receives streams from networks and cameras.
const FFMPEG: &str = "ffmpeg";

/// A burst of clients makes the pool keep up to this many times the usual number of warm workers. Not more: on a GPU
/// each holds some hundred MB.
const BURST: usize = 2;

/// The pool returns to its usual size this long after the last client that found no warm worker.
const BURST_OVER: Duration = Duration::from_secs(30);

/// How long a new session runs before its worker's replacement starts, which takes processor time and the driver's
/// locks from it: if at least half of the pool is still warm ...
const SETTLE: Duration = Duration::from_secs(1);

/// ... and if less is.
const SETTLE_IN_HASTE: Duration = Duration::from_millis(10);

/// Most workers to start at the same time, however many cores there are: they contend for the driver's locks and the
/// disk.
const MAX_AT_ONCE: usize = 8;

/// A step of a worker's start that takes this long is named to waiting clients, ...
const SLOW_STEP: Duration = Duration::from_secs(2);

/// ... and one that takes this long is logged.
const STUCK_STEP: Duration = Duration::from_secs(10);

/// Number of consecutive failed worker starts after which clients no longer wait for the next try.
const HOPELESS: u32 = 3;

/// The pause before the next start after a failed one; it doubles with each further failure.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest such pause.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// The worker processes of a server, by process id.
pub(crate) struct Pool {
    command: WorkerCommand,
    workers: BTreeMap<u32, Worker>,
    /// The number of warm workers to keep in normal times.
    warm: usize,
    /// The number of warm workers to keep now: higher after clients had to wait.
    target: usize,
    last_miss: Instant,
    /// The maximum number of workers to start at the same time: starting more would only delay all of them, including
    /// the first to become ready.
    at_once: usize,
    /// The number of workers that ended before they were ready, since a worker last became ready.
    failures: u32,
    not_before: Instant,
    /// The end of the newest session's settling time; until then, workers start only for waiting clients.
    settled: Instant,
    sessions_begun: u64,
    /// The probe's answers about the machine's drivers.
    drivers: Vec<DriverFact>,
    /// The maximum number of bytes of main memory that a session may take.
    session_memory: u64,
    /// Where sessions are written down.
    audit: Audit,
    /// The streams that it opens for them.
    feeds: Arc<Feeds>,
    /// The folders and control groups of its workers.
    rooms: Rooms,
    /// Whether a worker ever became ready.
    can_serve: bool,
    /// The devices, as the first worker that was ready has said them; empty once they were taken.
    devices: Option<Vec<Properties>>,
}

impl Pool {
    /// Creates a pool that keeps `warm` workers ready, each of whose sessions may take up to `session_memory` bytes of
    /// main memory. Starts no worker yet.
    pub(crate) fn new(command: WorkerCommand, warm: usize, session_memory: u64, audit: Audit, now: Instant) -> Self {
        let workers = BTreeMap::new();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let at_once = cores.min(MAX_AT_ONCE);
        Self {
            command,
            workers,
            warm,
            target: warm,
            last_miss: now,
            at_once,
            failures: 0,
            not_before: now,
            settled: now,
            sessions_begun: 0,
            drivers: Vec::new(),
            session_memory,
            audit,
            feeds: Arc::new(Feeds::new([], FFMPEG)),
            rooms: Rooms::default(),
            can_serve: false,
            devices: None,
        }
    }

    /// Gives each worker a folder and a control group of these.
    pub(crate) fn with_rooms(self, rooms: Rooms) -> Self {
        Self { rooms, ..self }
    }

    /// Opens these streams for them.
    pub(crate) fn with_streams(self, streams: &[Declaration]) -> Self {
        Self { feeds: Arc::new(Feeds::new(streams.iter().cloned(), FFMPEG)), ..self }
    }

    /// All workers.
    pub(crate) fn workers(&self) -> impl Iterator<Item = (u32, &Worker)> {
        self.workers.iter().map(|(&pid, worker)| (pid, worker))
    }

    /// Returns the number of workers that serve a session.
    pub(crate) fn sessions(&self) -> usize {
        self.count(|state| matches!(state, State::Session(_)))
    }

    /// Returns the keys that the peers of all sessions show.
    pub(crate) fn peers_keys(&self) -> BTreeSet<PublicKey> {
        self.workers.values().filter_map(Worker::peers_key).collect()
    }

    /// Returns the number of sessions of the client with this key.
    pub(crate) fn sessions_of(&self, key: &PublicKey) -> usize {
        self.count(|state| matches!(state, State::Session(session) if session.is_of(key)))
    }

    /// The sessions that have leases: the lease, the session's number, and for how many seconds it has kept devices busy.
    pub(crate) fn leases(&self) -> impl Iterator<Item = (LeaseId, u64, f64)> {
        self.workers.values().filter_map(|worker| match &worker.state {
            State::Session(session) => {
                Some((session.lease?, session.about.session, worker.device_seconds().values().sum()))
            }
            _ => None,
        })
    }

    /// What the first worker has said of the devices, once.
    pub(crate) fn take_devices(&mut self) -> Option<Vec<Properties>> {
        let devices = self.devices.as_mut()?;
        (!devices.is_empty()).then(|| std::mem::take(devices))
    }

    /// Ends the sessions of clients that may not be here any more, with the reason that `reason` gives.
    pub(crate) fn end_sessions_of(&mut self, reason: impl Fn(&Guest) -> Option<String>) {
        for (&pid, worker) in &mut self.workers {
            let State::Session(session) = &mut worker.state else { continue };
            let Some(why) = session.guest.as_ref().and_then(&reason) else { continue };
            info!(session = session.about.session, worker = pid, "a session is ended: {why}");
            // It is ended once.
            session.guest = None;
            worker.end_session(&why);
        }
    }

    /// Whether a worker ever became ready.
    pub(crate) fn can_serve(&self) -> bool {
        self.can_serve
    }

    /// Tells all workers, also later ones, what is known of the machine's drivers.
    pub(crate) fn learn(&mut self, drivers: &[DriverFact]) {
        self.drivers = drivers.to_vec();
        let told = self.workers.values().filter(|worker| matches!(worker.state, State::Warm | State::Session(_)));
        told.for_each(|worker| worker.tell_drivers(drivers));
    }

    /// Ends sessions that take more of the machine's main memory than allowed.
    pub(crate) fn watch_memory(&mut self, now: Instant) {
        for (&pid, worker) in &mut self.workers {
            let State::Session(session) = &mut worker.state else { continue };
            if session.look_at.is_none_or(|at| now < at) {
                continue;
            }
            let limit = session.memory_limit(self.session_memory);
            let group = worker.group.as_ref();
            // A worker that no longer exists takes no memory. The group counts what it has started, too.
            let taken = memory::taken(pid).max(group.and_then(Group::taken)).unwrap_or(0);
            if taken <= limit.bytes && !group.is_some_and(Group::was_over) {
                session.look_at = Some(now + memory::look_again(taken, limit.bytes));
                continue;
            }
            let reason = limit.sentence(taken);
            session.look_at = None;
            error!(session = session.about.session, worker = pid, program = %session.about.program, "{reason}; other sessions go on");
            worker.end_session(&reason);
        }
    }

    /// Returns the number of workers that are ready.
    pub(crate) fn ready(&self) -> usize {
        self.count(|state| matches!(state, State::Warm))
    }

    /// Returns whether the pool has its full number of warm workers.
    pub(crate) fn is_full(&self) -> bool {
        self.ready() >= self.warm
    }

    fn count(&self, which: impl Fn(&State) -> bool) -> usize {
        self.workers.values().filter(|worker| which(&worker.state)).count()
    }

    fn starting(&self) -> usize {
        self.count(|state| matches!(state, State::Starting))
    }

    /// Returns whether no worker will be ready soon because workers fail to start.
    pub(crate) fn is_broken(&self) -> bool {
        self.failures >= HOPELESS && self.ready() == 0 && self.starting() == 0
    }

    /// Describes, as part of a sentence for a person, what the pool is doing for waiting clients.
    pub(crate) fn standing(&self, now: Instant) -> String {
        let mut text = match self.starting() {
            0 if self.failures > 0 => "its workers fail to start, and it tries again".to_owned(),
            0 => "a worker is about to be started".to_owned(),
            1 => "a worker is being started".to_owned(),
            n => format!("{n} workers are being started"),
        };
        let starting = self.workers.values().filter(|worker| matches!(worker.state, State::Starting));
        let slowest = starting.filter_map(|worker| worker.step.as_ref()).min_by_key(|step| step.since);
        if let Some(step) = slowest.filter(|step| now.saturating_duration_since(step.since) >= SLOW_STEP) {
            text += &format!("; one has been in {} for {} s", step.what, now.duration_since(step.since).as_secs());
        }
        text
    }

    /// Hands `client` to a warm worker; gives it back when there is none.
    pub(crate) fn serve(&mut self, client: Box<Client>) -> Result<(), Box<Client>> {
        loop {
            // The oldest warm worker: newer ones may still be finishing their start.
            let warm = self.workers.values_mut().filter(|worker| matches!(worker.state, State::Warm));
            let Some(worker) = warm.min_by_key(|worker| worker.started) else { return Err(client) };
            let pid = worker.pid();
            match worker.hand_over(&client, self.sessions_begun + 1) {
                Ok(()) => {
                    self.sessions_begun += 1;
                    let Client { who, hello, number, .. } = &*client;
                    // The session has begun, and this is not on its way.
                    worker.bound_memory(self.session_memory);
                    let (name, peer) = (client.guest.as_ref().map_or("", |guest| &guest.name), &who.address);
                    info!(
                        session = self.sessions_begun, client = number, name, worker = pid, %peer, program = %hello.program, pid = hello.pid,
                        release = %hello.release, "session begins"
                    );
                    if let State::Session(session) = &worker.state {
                        self.audit.write(&Event::Begin(&session.about));
                    }
                    let settle = match self.ready() {
                        0 => Duration::ZERO,
                        ready if ready * 2 < self.target => SETTLE_IN_HASTE,
                        _ => SETTLE,
                    };
                    self.settled = Instant::now() + settle;
                    return Ok(());
                }
                Err(error) => {
                    // The worker must have ended just now; its exit is logged when it is reaped.
                    warn!(worker = pid, %error, "a warm worker takes no client");
                    if let Some(worker) = self.workers.get_mut(&pid) {
                        worker.gave_up();
                    }
                }
            }
        }
    }

    /// Records that a client found no warm worker: the pool keeps more of them for a while.
    pub(crate) fn missed(&mut self, now: Instant) {
        self.last_miss = now;
        self.target = (self.target + 1).min(self.warm * BURST);
    }

    /// Starts missing workers: those for `waiting` clients, and warm ones. Starts at most one per call, so that the
    /// loop serves clients in between; returns whether it started one.
    pub(crate) fn refill(&mut self, waiting: usize, now: Instant) -> bool {
        if self.target > self.warm && now.duration_since(self.last_miss) >= BURST_OVER {
            self.target = self.warm;
            self.retire();
        }
        if !self.wants_more(waiting) || now < self.next_start(waiting) {
            return false;
        }
        match Worker::spawn(&self.command, &self.rooms, now) {
            Ok(worker) => {
                debug!(worker = worker.pid(), "worker starts");
                self.workers.insert(worker.pid(), worker);
                true
            }
            Err(error) => {
                error!(%error, program = %self.command.program.display(), "cannot start a worker process");
                self.failed(now);
                false
            }
        }
    }

    /// Retires warm workers left over from a burst of clients: each may hold device memory.
    fn retire(&mut self) {
        let excess = self.ready().saturating_sub(self.target);
        let warm = self.workers.values_mut().filter(|worker| matches!(worker.state, State::Warm));
        warm.take(excess).for_each(Worker::retire);
    }

    fn wants_more(&self, waiting: usize) -> bool {
        // A worker that fails counts until it has ended: only then is it known how long to wait before the next start.
        let starting = self.count(|state| matches!(state, State::Starting | State::Failing));
        // While warm workers remain and no client waits, there is no hurry: only one worker starts at a time, to
        // disturb sessions less.
        let at_once = if self.ready() > 0 && waiting == 0 { 1 } else { self.at_once };
        self.ready() + starting < self.target + waiting && starting < at_once
    }

    /// Returns when the next worker may be started: at once if clients wait, unless workers fail.
    fn next_start(&self, waiting: usize) -> Instant {
        if waiting > 0 { self.not_before } else { self.not_before.max(self.settled) }
    }

    /// Returns when the line has something to do even if no socket becomes ready.
    pub(crate) fn deadline(&self, waiting: usize) -> Option<Instant> {
        let missing = self.wants_more(waiting).then_some(self.next_start(waiting));
        let burst = (self.target > self.warm).then_some(self.last_miss + BURST_OVER);
        let logs = self.workers.values().filter_map(|worker| Some(worker.step.as_ref()?.log_at));
        let looks = self.workers.values().filter_map(|worker| match &worker.state {
            State::Session(session) => session.look_at,
            _ => None,
        });
        self.workers
            .values()
            .filter_map(|worker| worker.kill_at)
            .chain(logs)
            .chain(looks)
            .chain(missing)
            .chain(burst)
            .min()
    }

    /// Kills workers that have had their time to start or to end.
    pub(crate) fn kill_hanging(&mut self, now: Instant) {
        for (pid, worker) in &mut self.workers {
            if worker.kill_at.take_if(|at| now >= *at).is_some() {
                let age = now.duration_since(worker.started);
                let step = worker.step.as_ref().map_or("", |step| &step.what);
                error!(worker = pid, ?age, step, "killing a worker that hangs in this machine's OpenCL");
                worker.kill();
            } else if let Some(step) = worker.step.as_mut().filter(|step| now >= step.log_at) {
                let seconds = now.duration_since(step.since).as_secs();
                warn!(worker = pid, "a worker has been in {} for {seconds} s", step.what);
                step.log_at = now + (now - step.since);
            }
        }
    }

    /// Reads and handles a message from a worker.
    pub(crate) fn hear(&mut self, pid: u32) {
        let Some(worker) = self.workers.get_mut(&pid) else { return };
        match worker.listen() {
            Word::Ready(session) => {
                worker.became_ready(session);
                worker.tell_drivers(&self.drivers);
                self.failures = 0;
                let devices = std::mem::take(&mut worker.devices);
                if !devices.is_empty() && self.devices.is_none() {
                    self.devices = Some(devices);
                }
                self.can_serve = true;
                debug!(worker = pid, after = ?worker.started.elapsed(), "worker is warm");
            }
            Word::Device(number, properties) if number as usize == worker.devices.len() => {
                worker.devices.push(properties);
            }
            Word::Device(..) => {}
            Word::Step(what) => worker.takes_step(what, STUCK_STEP),
            word @ (Word::Account(_) | Word::Limit(_)) => last_words(worker, word),
            Word::Source(number, stream) => worker.streams.add(number, stream),
            Word::Dial(dial) => dial.start(pid, worker.shared_control(), &worker.dials),
            Word::Feed(feed) => feed.start(pid, worker.shared_control(), (&self.feeds, &worker.streams)),
            // The exit of a worker with a session is handled when it is reaped.
            Word::Gone if matches!(worker.state, State::Session(_)) => {}
            Word::Gone => worker.gave_up(),
            Word::Probing(_) | Word::Probed(_) | Word::Proved(_) | Word::Nothing => {}
        }
    }

    /// Passes a connection from an alleged peer of `session`, or one more from its client, on to the session's worker; on
    /// failure returns the reason in one sentence.
    pub(crate) fn hand_on(&self, session: SessionId, client: &Client) -> Result<(), String> {
        let worker = self.workers.values().find(|worker| worker.serves(session));
        let worker = worker.ok_or("it has no such session, or none any more")?;
        let is_of_it = match client.hello.purpose {
            // The session's bytes are encrypted on all of its client's connections, or on none.
            Purpose::Lane { .. } => client.key == worker.clients_key(),
            // Over an encrypted connection, peers show the key of their group, and not that of another.
            _ => !client.link.is_encrypted() || client.key == worker.peers_key(),
        };
        if !is_of_it {
            return Err("it is not of this session".to_owned());
        }
        worker.hand_peer(&client.link, &client.hello).map_err(|error| {
            warn!(worker = worker.pid(), %error, "a worker takes no connection");
            "the session takes no connections now".to_owned()
        })
    }

    /// Records a failed start and lengthens the pause before the next one.
    fn failed(&mut self, now: Instant) {
        self.failures += 1;
        let pause = FIRST_PAUSE * 2u32.saturating_pow(self.failures.min(10) - 1);
        self.not_before = now + pause.min(MAX_PAUSE);
    }
}

#[cfg(test)]
mod tests;

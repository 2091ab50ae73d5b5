//! One worker process, from its start to its end.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use ropeway_lease::grant::LeaseId;
use ropeway_lease::property::{self, Properties};
use ropeway_protocol::handshake::Hello;
use ropeway_protocol::ids::SessionId;
use ropeway_transport::GuestPart;
use ropeway_transport::Link;
use ropeway_transport::tls::{Identity, PublicKey};
use ropeway_worker::handoff::{self, Account, Allowance, DriverFact, Files, ToDaemon, ToWorker};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, pidfd_send_signal, waitid,
};

use tracing::{debug, warn};

use crate::access::Share;
use crate::audit::About;
use crate::dial::Dial;
use crate::feed::{Feed, Offered};
use crate::folders::Folder;
use crate::groups::Group;
use crate::memory::MemoryLimit;
use crate::options::WorkerCommand;
use crate::pool::{Client, Guest};
use crate::rooms::Rooms;
use crate::usage::Usage;

/// How long a worker may take to become ready. A worker that takes longer hangs in a driver, and is killed.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(60);

/// How long a worker that has given up may take to end.
const END_LIMIT: Duration = Duration::from_secs(5);

/// How long a session that must end has to tell its client so.
const FAREWELL_LIMIT: Duration = Duration::from_secs(1);

/// The state of a worker.
#[derive(Debug)]
pub(crate) enum State {
    /// The worker initialises the machine's OpenCL.
    Starting,
    /// The worker will never be ready, and is about to end.
    Failing,
    /// The worker waits for a client.
    Warm,
    /// The worker is no longer needed, and is about to end.
    Retired,
    /// The worker serves a session.
    Session(Box<Session>),
}

/// The session that a worker serves.
#[derive(Debug)]
pub(crate) struct Session {
    /// What the audit log says of it.
    pub(crate) about: About,
    /// The lease that it is of.
    pub(crate) lease: Option<LeaseId>,
    /// Whose it is, where that is known.
    pub(crate) guest: Option<Guest>,
    /// The key that its peers show.
    pub(crate) peers: Option<PublicKey>,
    /// The shared memory of a virtual machine that its worker uses as long as it lives.
    pub(crate) _part: Option<Arc<GuestPart>>,
    /// When it began.
    pub(crate) since: Instant,
    /// When to check its memory next; `None` once it has taken too much.
    pub(crate) look_at: Option<Instant>,
    /// Why the server has ended it, if it has.
    pub(crate) ended_for: Option<String>,
    /// What its worker said that it has taken.
    pub(crate) account: Option<Account>,
}

impl Session {
    /// How much main memory it may take, where all may take `most` bytes.
    pub(crate) fn memory_limit(&self, most: u64) -> MemoryLimit {
        let own = self.guest.as_ref().and_then(|guest| Some((guest.rules.host_memory?, &guest.name)));
        match own.filter(|(bytes, _)| *bytes < most) {
            Some((bytes, name)) => MemoryLimit { bytes, of: Some(name.clone()) },
            None => MemoryLimit { bytes: most, of: None },
        }
    }

    /// Whether it is that of the client with this key.
    pub(crate) fn is_of(&self, key: &PublicKey) -> bool {
        self.guest.as_ref().is_some_and(|guest| guest.key == *key)
    }
}

/// A step of a worker's start.
#[derive(Debug)]
pub(crate) struct Step {
    /// The native call, and what it is for.
    pub(crate) what: String,
    /// When it began.
    pub(crate) since: Instant,
    /// When to log that the step takes long.
    pub(crate) log_at: Instant,
}

/// A worker process; dropping it kills the process.
pub(crate) struct Worker {
    child: Child,
    /// A descriptor that becomes readable when the process has ended.
    exit: OwnedFd,
    /// Our end of the worker's control socket; the worker ends when it is closed.
    control: Arc<OwnedFd>,
    /// Whether the worker has closed its end of the control socket: no more messages can come.
    deaf: bool,
    /// The id of the worker's session, known once the worker is ready.
    pub(crate) session: Option<SessionId>,
    /// The streams that it may read.
    pub(crate) streams: Offered,
    /// Connections that are being made for it.
    pub(crate) dials: Arc<AtomicUsize>,
    pub(crate) state: State,
    pub(crate) started: Instant,
    /// What it has said of the machine's devices, while it starts.
    pub(crate) devices: Vec<Properties>,
    /// The current step of the worker's start, as the worker reports it.
    pub(crate) step: Option<Step>,
    /// When to kill the worker unless it makes progress.
    pub(crate) kill_at: Option<Instant>,
    /// The folder that it alone uses. Dropped after the process has ended.
    folder: Option<Folder>,
    /// The control group that it alone is in, with what it starts. Dropped after the process has ended.
    pub(crate) group: Option<Group>,
    /// What its session takes of the devices.
    usage: Usage,
    /// Its session's share of the client's limits. Dropped after the process has ended.
    share: Option<Arc<Share>>,
}

/// A message from a worker on its control socket, or the socket's end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// The worker is ready for a client; its session will have this id.
    Ready(SessionId),
    /// The worker's start has reached this native call.
    Step(String),
    /// The worker's device of this number has these properties.
    Device(u32, Properties),
    /// The worker begins to try this driver.
    Probing(String),
    /// Whether custom devices can do what they were declared to do; one sentence if not.
    Proved(Result<(), String>),
    /// The trial's result: whether the driver takes the bytes of writes late.
    Probed(bool),
    /// The worker asks to be connected to a peer.
    Dial(Dial),
    /// The worker's device of this number is a stream of this name.
    Source(u32, String),
    /// The worker wants to read a stream.
    Feed(Feed),
    /// The session ends, and has taken this.
    Account(Account),
    /// The session is about to end over this limit of its client's.
    Limit(String),
    /// The worker has closed its socket or broken the protocol, and is about to end.
    Gone,
    /// Nothing yet.
    Nothing,
}

impl Worker {
    /// Starts one, with a folder and a control group of its own if there are such.
    pub(crate) fn spawn(command: &WorkerCommand, rooms: &Rooms, now: Instant) -> io::Result<Self> {
        let (folder, group) = rooms.for_worker()?;
        let usage = Usage::new()?;
        let (control, theirs) = handoff::pair()?;
        // A driver's output from before the worker captures it belongs in the log, not between the lines that say where
        // the server listens.
        let output = io::stderr().as_fd().try_clone_to_owned()?;
        let mut child = Command::new(&command.program);
        child
            .arg0("ropeway")
            .args(&command.args)
            .env_remove("NOTIFY_SOCKET")
            // Tells Ropeway's own OpenCL library, which the machine's loader may find, to offer no devices in a worker.
            .env("ROPEWAY_WORKER", "1")
            // Keeps a codec library's words for people out of the log.
            .env(ropeway_worker::QUIET_CODECS.0, ropeway_worker::QUIET_CODECS.1)
            .stdin(theirs)
            .stdout(Stdio::from(output))
            // What it starts stays in its group: the sandbox knows no call to leave it. So all of it ends with it.
            .process_group(0);
        if let Some(folder) = &folder {
            folder.prepare(&mut child);
        }
        if let Some(group) = &group {
            group.prepare(&mut child);
        }
        let mut child = child.spawn()?;
        let opened = Pid::from_raw(child.id().cast_signed())
            .ok_or_else(|| io::Error::other("a process without a number"))
            .and_then(|pid| Ok(pidfd_open(pid, PidfdFlags::NONBLOCK)?));
        match opened {
            Ok(exit) => Ok(Self {
                child,
                exit,
                control: Arc::new(control),
                deaf: false,
                session: None,
                streams: Offered::default(),
                dials: Arc::default(),
                state: State::Starting,
                started: now,
                devices: Vec::new(),
                step: None,
                kill_at: Some(now + START_LIMIT),
                folder,
                group,
                usage,
                share: None,
            }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Reads one message from the worker.
    pub(crate) fn listen(&mut self) -> Word {
        let starting = matches!(self.state, State::Starting);
        match handoff::hear(self.control.as_fd(), false) {
            Ok(Some((ToDaemon::Ready(session), _))) if starting => Word::Ready(session),
            Ok(Some((ToDaemon::Step(what), _))) if starting => Word::Step(what),
            Ok(Some((ToDaemon::Device(number, text), _))) if starting => {
                Word::Device(number, property::from_text(&text).unwrap_or_default())
            }
            Ok(Some((ToDaemon::Source(number, stream), _))) if starting => Word::Source(number, stream),
            Ok(Some((ToDaemon::Probing(driver), _))) if starting => Word::Probing(driver),
            Ok(Some((ToDaemon::Proved(proof), _))) if starting => Word::Proved(proof),
            Ok(Some((ToDaemon::Probed(late), _))) if starting => Word::Probed(late),
            Ok(Some((ToDaemon::Dial { ticket, addresses, seed, purpose, shares_memory }, _))) if !starting => {
                Word::Dial(Dial { ticket, addresses, identity: Identity::from_seed(seed), purpose, shares_memory })
            }
            Ok(Some((ToDaemon::Feed { ticket, stream }, _))) if !starting => Word::Feed(Feed { ticket, stream }),
            Ok(Some((ToDaemon::Account(account), _))) if !starting => Word::Account(account),
            Ok(Some((ToDaemon::Limit(reason), _))) if !starting => Word::Limit(reason),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Word::Nothing,
            _ => {
                self.deaf = true;
                Word::Gone
            }
        }
    }

    /// Records what its session has taken.
    pub(crate) fn has_taken(&mut self, taken: Account) {
        if let State::Session(session) = &mut self.state {
            session.account = Some(taken);
        }
    }

    /// Records that the session ends over a limit; kills the worker if it does not end in time.
    pub(crate) fn ends_over(&mut self, reason: String) {
        let State::Session(session) = &mut self.state else { return };
        session.ended_for.get_or_insert(reason);
        self.kill_at.get_or_insert(Instant::now() + FAREWELL_LIMIT);
    }

    /// Returns whether the worker may still send messages.
    pub(crate) fn is_heard(&self) -> bool {
        !self.deaf && matches!(self.state, State::Starting | State::Session(_))
    }

    /// Records that the worker's start has reached `what`; the log says so if the worker is still there after
    /// `patience`.
    pub(crate) fn takes_step(&mut self, what: String, patience: Duration) {
        let since = Instant::now();
        self.step = Some(Step { what, since, log_at: since + patience });
    }

    /// Marks the worker as ready for a client.
    pub(crate) fn became_ready(&mut self, session: SessionId) {
        self.step = None;
        self.state = State::Warm;
        self.session = Some(session);
        self.kill_at = None;
    }

    /// Returns whether the worker serves `session`.
    pub(crate) fn serves(&self, session: SessionId) -> bool {
        matches!(self.state, State::Session(_)) && self.session == Some(session)
    }

    /// The key that the client of its session has shown.
    pub(crate) fn clients_key(&self) -> Option<PublicKey> {
        match &self.state {
            State::Session(session) => session.guest.as_ref().map(|guest| guest.key),
            _ => None,
        }
    }

    /// The key that the peers of its session show.
    pub(crate) fn peers_key(&self) -> Option<PublicKey> {
        match &self.state {
            State::Session(session) => session.peers,
            _ => None,
        }
    }

    /// Tells the worker the known facts about the machine's drivers.
    pub(crate) fn tell_drivers(&self, facts: &[DriverFact]) {
        if let Err(error) = handoff::say(self.control.as_fd(), &ToWorker::Drivers(facts.to_vec()), None, false) {
            // The worker continues without these facts.
            debug!(worker = self.pid(), %error, "a worker does not hear of its drivers");
        }
    }

    /// Ends the worker's session and tells its client the reason; kills the worker if it does not end in time.
    pub(crate) fn end_session(&mut self, reason: &str) {
        if let Err(error) = handoff::say(self.control.as_fd(), &ToWorker::End(reason.to_owned()), None, false) {
            warn!(worker = self.pid(), %error, "a worker does not hear that it has to end");
            self.kill();
        }
        self.kill_at = Some(Instant::now() + FAREWELL_LIMIT);
        if let State::Session(session) = &mut self.state {
            session.ended_for = Some(reason.to_owned());
        }
    }

    /// Passes a connection from an alleged peer of its session, or from its client, on to the worker.
    pub(crate) fn hand_peer(&self, link: &Link, hello: &Hello) -> io::Result<()> {
        handoff::say(self.control.as_fd(), &ToWorker::Peer(hello.clone()), Some(link), false)
    }

    /// Its control socket, for another thread.
    pub(crate) fn shared_control(&self) -> Arc<OwnedFd> {
        self.control.clone()
    }

    /// Marks a worker that will serve no client.
    pub(crate) fn gave_up(&mut self) {
        self.state = State::Failing;
        self.step = None;
        self.kill_at = Some(Instant::now() + END_LIMIT);
    }

    /// Retires the worker: it ends by itself when its control socket is closed.
    pub(crate) fn retire(&mut self) {
        // An error means that the socket is closed already, which is as good.
        let _ = rustix::net::shutdown(&self.control, rustix::net::Shutdown::Both);
        self.state = State::Retired;
        self.kill_at = Some(Instant::now() + END_LIMIT);
    }

    /// Hands a client over to it.
    pub(crate) fn hand_over(&mut self, client: &Client, number: u64) -> io::Result<()> {
        if let Some(folder) = &mut self.folder {
            folder.lend_to(&client.folder_name(), client.cache_bytes());
        }
        let allowance = client.guest.as_ref().map(|guest| {
            let client = Some(guest.name.clone());
            Allowance { client, ..guest.rules.allowance.clone() }
        });
        let allowance = allowance.unwrap_or_default();
        self.streams.restrict(&allowance);
        let share = client.guest.as_ref().and_then(|guest| guest.share.clone());
        let turns = client.guest.as_ref().and_then(|guest| guest.turns.as_deref().map(AsFd::as_fd));
        let files = Files { share: share.as_deref().map(Share::parts), usage: Some(self.usage.file()), turns };
        handoff::send(self.control.as_fd(), &client.link, (&client.hello, &allowance), files)?;
        self.share = share;
        let now = Instant::now();
        let Hello { program, pid, credential, .. } = &*client.hello;
        let about = About { session: number, who: client.who.clone(), program: program.clone(), pid: *pid };
        let peers = credential.as_slice().try_into().ok().map(PublicKey::new);
        // The worker alone has its end of the socket for turns from now on.
        let guest = client.guest.clone().map(|guest| Guest { turns: None, ..guest });
        let look_at = Some(now);
        let lease = guest.as_ref().and_then(|guest| guest.lease);
        let session = Session {
            about,
            lease,
            guest,
            peers,
            _part: client.part.clone(),
            since: now,
            look_at,
            ended_for: None,
            account: None,
        };
        self.state = State::Session(Box::new(session));
        Ok(())
    }

    /// Bounds the memory of its control group for its session, where all may take `most` bytes.
    pub(crate) fn bound_memory(&self, most: u64) {
        if let (State::Session(session), Some(group)) = (&self.state, &self.group)
            && let MemoryLimit { bytes, of: Some(_) } = session.memory_limit(most)
        {
            group.bound_memory(bytes);
        }
    }

    /// The seconds for which its session has kept each device busy so far, by the device's number.
    pub(crate) fn device_seconds(&self) -> BTreeMap<u32, f64> {
        match &self.state {
            State::Session(session) => self.usage.device_seconds(session.since.elapsed()),
            _ => BTreeMap::new(),
        }
    }

    /// Asks it to end.
    pub(crate) fn stop(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends it.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        // The worker may have ended already, which is what is wanted.
        let _ = pidfd_send_signal(&self.exit, signal);
    }

    /// Returns how the worker ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<End> {
        self.end_group();
        match self.child.try_wait() {
            Ok(status) => status.map(End::Status),
            Err(error) => Some(End::Unknown(error)),
        }
    }

    /// Ends what the process has started and left behind, if it has ended itself. Its number is its own until its exit
    /// status is collected.
    fn end_group(&self) {
        let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) else { return };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if let Ok(Some(_)) = waitid(WaitId::Pid(pid), options) {
            // Mostly there is nothing left.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }

    /// The control socket.
    pub(crate) fn control(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    /// A descriptor that becomes readable when the process ends.
    pub(crate) fn exit(&self) -> BorrowedFd<'_> {
        self.exit.as_fd()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
        // The process was killed or has ended, so this wait is short.
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        }
        self.end_group();
        let _ = self.child.wait();
    }
}

/// How a worker process ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The process exited, or a signal killed it.
    Status(ExitStatus),
    /// The exit status is lost: something else collected it.
    Unknown(io::Error),
}

impl End {
    /// Returns whether the worker exited by itself and without an error.
    pub(crate) fn is_clean(&self) -> bool {
        matches!(self, Self::Status(status) if status.success())
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => match (status.code(), status.signal()) {
                (Some(code), _) => write!(f, "exit code {code}"),
                (None, Some(signal)) => {
                    let name = signal_hook::low_level::signal_name(signal).unwrap_or("a signal");
                    let core = if status.core_dumped() { ", core dumped" } else { "" };
                    write!(f, "{name} ({signal}{core})")
                }
                (None, None) => write!(f, "{status}"),
            },
            Self::Unknown(error) => write!(f, "unknown ({error})"),
        }
    }
}

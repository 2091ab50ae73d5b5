//! The life of a worker process.

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ropeway_protocol::content::ContentHash;
use ropeway_protocol::handshake::{Hello, features};
use ropeway_protocol::limits::HANDSHAKE_SECONDS;
use ropeway_protocol::messages::Closing;
use ropeway_transport::{Link, Room};

use crate::base::allowance::Allowance;
use crate::base::budget::Budget;
use crate::base::error::End;
use crate::base::log::Log;
use crate::handoff::{self, Account, METERED_DEVICES, Served, ToDaemon};
use crate::lanes::Gathering;
use crate::limits::Limits;
use crate::limits::clock::Clock;
use crate::limits::share::Share;
use crate::link::client::Client;
use crate::link::input::Input;
use crate::link::outgoing::Outgoing;
use crate::native::process::{self, Exit};
use crate::native::{Arenas, Event, SharedNumbers, SharedStorage, platforms};
use crate::notify::idle::Idle;
use crate::notify::report::Reporter;
use crate::options::WorkerOptions;
use crate::peers::{Peers, Services};
use crate::probe;
use crate::programs::cache::Cache;
use crate::session::Session;
use crate::session::common::Common;
use crate::session::job::MAX_LEFT;
use crate::session::team::{Reader, Team};
use crate::standby::Standby;
use crate::turns::Turns;
use crate::usage::Usage;
use crate::warmup::{Warm, refuse_own_library};

/// How long the client has to read why the session ended.
const FAREWELL: Duration = Duration::from_millis(500);

/// Loads the machine's OpenCL ahead of [`run`], for a process that forks its workers: of Ropeway, no thread is started.
///
/// # Errors
/// One sentence: there is none.
pub fn load() -> Result<(), String> {
    refuse_own_library();
    // As in `Warm::up`, the first one takes long.
    let _ = ContentHash::of(&[]);
    platforms().map(drop)
}

/// The worker process: warms up, says so on `control`, waits there for one connection, and serves it.
///
/// Returns an exit code only if no session began (the daemon is gone, or OpenCL cannot be used); the end of a session
/// ends the process, whatever its threads are doing.
pub fn run(control: OwnedFd, options: WorkerOptions) -> u8 {
    if options.probe {
        return probe::run(&control, &options);
    }
    process::use_one_heap();
    run_until(Exit::default(), control, options, None)
}

/// What a worker has done before its client comes.
#[cfg(feature = "fuzz")]
pub struct Prepared(Warm);

#[cfg(feature = "fuzz")]
impl Prepared {
    /// Does it, ahead of [`run_in_turn`].
    ///
    /// # Errors
    /// One sentence: OpenCL cannot be used.
    pub fn new(options: &WorkerOptions) -> Result<Self, String> {
        Warm::up(options, &|_| {}).map(Self)
    }
}

/// As [`run`], in a process that is to have further sessions: when this one is over, `told` gets the code that the
/// process would have ended with, more than once perhaps, and the session's threads stay where they are.
#[cfg(feature = "fuzz")]
pub fn run_in_turn(
    control: OwnedFd,
    (options, prepared): (WorkerOptions, Option<Prepared>),
    told: impl Fn(i32) + Send + Sync + 'static,
) {
    let exit = Exit::telling(told);
    let code = run_until(exit.clone(), control, options, prepared.map(|Prepared(warm)| warm));
    exit.exit(code.into());
}

fn run_until(exit: Exit, control: OwnedFd, options: WorkerOptions, warm: Option<Warm>) -> u8 {
    match prepare(&control, &options, warm) {
        Ok(None) => 0,
        Ok(Some(((mut warm, standby), link, Served { hello, allowance, share, usage, turns }))) => {
            if let Some(selectors) = &allowance.devices {
                warm.restrict(selectors);
            }
            let share = share.map(|(file, place)| Share::new(file, place)).transpose();
            let usage = usage.map(|file| SharedNumbers::map(file, METERED_DEVICES)).transpose();
            let (share, usage) = match share.and_then(|share| Ok((share, Usage::new(usage?)))) {
                Ok(both) => both,
                Err(error) => {
                    let _ = writeln!(
                        std::io::stderr(),
                        "ropeway worker[{}]: cannot write to the pages that it shares: {error}",
                        std::process::id()
                    );
                    return 1;
                }
            };
            let log = match rustix::io::fcntl_dupfd_cloexec(std::io::stderr(), 3) {
                Ok(fd) => Log::new(fd),
                Err(_) => return 1,
            };
            let ready = (warm, standby);
            serve(ready, (link, control), (&hello, &allowance, share), (usage, turns), (options, &log, &exit))
        }
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "ropeway worker[{}]: {why}", std::process::id());
            1
        }
    }
}

/// What is there when a client comes.
type Ready = (Warm, Standby);

/// Warms up, unless that is done, starts the session's threads, and waits for the client.
fn prepare(
    control: &OwnedFd,
    options: &WorkerOptions,
    warm: Option<Warm>,
) -> Result<Option<(Ready, Link, Served)>, String> {
    // If the daemon is gone, a later message fails and ends this process.
    let step = |what: &str| {
        let _ = handoff::say(control.as_fd(), &ToDaemon::Step(what.to_owned()), None, true);
    };
    let mut warm = warm.map_or_else(|| Warm::up(options, &step), Ok)?;
    if options.describe {
        for (number, properties) in (0..).zip(warm.device_properties()) {
            let device = ToDaemon::Device(number, properties);
            handoff::say(control.as_fd(), &device, None, true)
                .map_err(|error| format!("cannot say which devices there are: {error}"))?;
        }
    }
    for (number, stream) in warm.streams(&options.custom) {
        handoff::say(control.as_fd(), &ToDaemon::Source(number, stream), None, true)
            .map_err(|error| format!("cannot say which streams there are: {error}"))?;
    }
    let letterbox = warm.letterbox.take().ok_or("its notifications are read already")?;
    let standby = Standby::start(warm.post().clone(), letterbox);
    let standby = standby.map_err(|error| format!("cannot start the threads of a session: {error}"))?;
    let ready = ToDaemon::Ready(warm.session);
    handoff::say(control.as_fd(), &ready, None, true).map_err(|error| format!("the daemon is gone: {error}"))?;
    let handed = handoff::receive(control.as_fd()).map_err(|error| format!("no connection: {error}"))?;
    Ok(handed.map(|(link, served)| ((warm, standby), link, served)))
}

fn serve(
    (mut warm, standby): Ready,
    (link, control): (Link, OwnedFd),
    (hello, allowance, share): (&Hello, &Allowance, Option<Share>),
    (usage, turns): (Arc<Usage>, Option<OwnedFd>),
    (options, log, exit): (WorkerOptions, &Log, &Exit),
) -> ! {
    let give_up = |why: String| -> ! {
        log.line(&why);
        exit.exit(1)
    };
    // The client waits for this; everything else can be made while it reads.
    let welcome = std::mem::take(&mut warm.encoded_welcome);
    let link = match link.answer_hello(&welcome, Room::WithArena) {
        Ok(link) => link,
        Err(error) => give_up(format!("the client cannot be welcomed: {error}")),
    };
    let link = match options.ucx && hello.features & features::UCX != 0 {
        true => link.go_over_to_ucx(Instant::now() + Duration::from_secs(HANDSHAKE_SECONDS)),
        false => Ok(link),
    };
    let link = link.unwrap_or_else(|error| give_up(format!("there is no way over UCX to the client: {error}")));
    let link = match hello.features & features::LANES != 0 && link.is_socket_alone() {
        true => {
            let gathering = Gathering::new(warm.session, warm.lanes_secret());
            let lanes = gathering.all(control.as_fd(), Instant::now() + Duration::from_secs(HANDSHAKE_SECONDS));
            lanes.and_then(|lanes| link.go_on_over(lanes).map_err(|error| error.to_string()))
        }
        false => Ok(link),
    };
    let link = Arc::new(link.unwrap_or_else(|why| give_up(why)));
    drop(welcome);
    let name =
        format!("session {:016x} of {} (process {} at {})", warm.session.0, hello.program, hello.pid, link.peer());
    let Standby { notifier, printed, outputs, alarm, idle, place } = standby;
    if let Err(error) = outputs.put_in_place() {
        give_up(format!("cannot capture what kernels print: {error}"));
    }
    // Most sessions want some of it, and who does not is done with it sooner than a first buffer would be.
    link.arena().into_iter().for_each(|arena| arena.prepare());
    let client = Client::new(Outgoing::new(link.clone()), printed);
    let staged = Arc::new(Budget::new(options.staged_bytes));
    let reporter = Reporter::new(client.clone(), staged.clone());
    usage.rings(idle);
    let services = Services::new(warm.session, reporter.clone(), notifier.clone(), log.clone());
    let turns = turns.map(|socket| {
        let notifier = notifier.clone();
        let watch = move |event: &Event, then: Box<dyn FnOnce() + Send>| {
            let then = move || {
                then();
                Ok(())
            };
            notifier.watch(Some(event.clone()), None, Box::new(then));
        };
        Turns::new(socket, usage.clone(), Box::new(watch))
    });
    let common = Arc::new(Common {
        client: client.clone(),
        reporter,
        notifier,
        peers: Peers::new(services, control, hello.features & features::SHARES_WITH_PEERS != 0),
        arenas: Arenas::with_one(staged.clone()),
        shared: client.outgoing.arena().cloned().map(SharedStorage::new),
        cache: Cache::new(options.cache_folder, options.cache_bytes, staged),
        leading: Default::default(),
        unasked: AtomicUsize::new(0),
        peak_memory: AtomicU64::new(0),
        limits: Arc::new(Limits::new(client.clone(), allowance, options.memory_quota, share)),
        clock: Arc::new(Clock::new(allowance)),
        usage,
        turns,
        idle: Idle::default(),
        left: Budget::new(MAX_LEFT),
        is_over: AtomicBool::new(false),
    });
    log.line(&format!("{name} begins"));
    let opening = common.peers.clone();
    ropeway_custom::kinds::source::open_by(Arc::new(move |stream: &str| opening.feed(stream)));
    let over = {
        let (log, exit, common) = (log.clone(), exit.clone(), common.clone());
        let devices = warm.device_names();
        move |end: End| {
            if !common.ends() {
                common.stay_if_over();
            }
            let (sent, received) = common.client.outgoing.traffic();
            let peak_memory = common.peak_memory.load(Ordering::Relaxed);
            if let End::Limit(why) = &end {
                // From here on the daemon sees to it that this process ends.
                common.peers.tell_daemon(&ToDaemon::Limit(why.clone()));
            }
            common.usage.add_up();
            let account = Account { devices: devices.clone(), sent, received, peak_memory };
            common.peers.tell_daemon(&ToDaemon::Account(account));
            over((&log, &exit), &common.client, &name, &end)
        }
    };
    let over = Arc::new(over);
    end_on_panic(log.clone(), exit.clone());

    if common.clock.has_limits() {
        let (clock, on_end, for_looks) = (common.clock.clone(), over.clone(), (log.clone(), exit.clone()));
        spawn("clock", (log, exit), move || {
            clock.watch(|end| on_end(end), |look| spawn("look", (&for_looks.0, &for_looks.1), look));
        });
    }

    if let Some(turns) = common.turns.clone() {
        let common = common.clone();
        spawn("turns", (log, exit), move || turns.follow_forever(|device| common.idle.markers(device)));
    }

    let session = Session::new(common, warm);
    let reader = Reader { input: Input::new(link), session };
    let team = Team::new(reader, alarm, move |end| over(end));
    // The place is this session's own, and empty.
    let _ = place.set(team.clone());
    team.serve();
    // `over` ends the process.
    exit.exit(0)
}

fn spawn(name: &str, (log, exit): (&Log, &Exit), work: impl FnOnce() + Send + 'static) {
    if let Err(error) = thread::Builder::new().name(name.to_owned()).spawn(work) {
        log.line(&format!("cannot start a thread: {error}"));
        exit.exit(1);
    }
}

/// Ends the process on a panic, so that a defect of the worker's leaves no client waiting.
fn end_on_panic(log: Log, exit: Exit) {
    std::panic::set_hook(Box::new(move |panic| {
        log.line(&format!("ends over a defect: {panic}"));
        exit.exit(70);
    }));
}

/// Ends the session, and with it the process.
fn over((log, exit): (&Log, &Exit), client: &Arc<Client>, name: &str, end: &End) -> ! {
    log.line(&format!("{name} ends: {end}"));
    if let End::Refused(_) | End::Ended(_) | End::Limit(_) | End::Peer(..) = end {
        // The client is told why, unless it does not even read.
        let client = client.clone();
        let reason = end.to_string();
        let (done, told) = std::sync::mpsc::channel();
        let farewell = thread::Builder::new().spawn(move || {
            let mut sending = client.outgoing.lock();
            sending.note(&Closing { reason });
            let _ = sending.send();
            client.outgoing.close_gently();
            let _ = done.send(());
        });
        if farewell.is_ok() {
            let _ = told.recv_timeout(FAREWELL);
        }
    }
    exit.exit(0)
}

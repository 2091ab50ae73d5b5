//! Turns: sessions of clients with weights share a device, one at a time.
//!
//! While the session has a device alone, a launch looks at one flag. Otherwise launches that are not in their turn go to
//! the driver behind a *gate*, a user event, which opens when their turn comes: so the thread that carries out commands
//! never waits, what depends on a launch is just later, and transfers pass. Gates hold back [`slices`]; no more than two
//! of them are in the driver at a time, so that a turn ends soon. The daemon says whose turn it is (its module `turns`).

mod slices;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ropeway_protocol::types::Status;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::slices::{Estimates, SLICE, Slice};
use crate::base::lock::lock;
use crate::handoff::METERED_DEVICES;
use crate::handoff::turns::{FromWorker, ToTurns, hear, say};
use crate::native::running::{self, UnderWay, Watcher};
use crate::native::{Context, Event, UserEvent};
use crate::usage::Usage;

/// Slices that the driver has at a time: one runs, and the next is there when it ends.
const FLYING: usize = 2;

/// How long a session keeps its turn without work: a program needs a moment between a kernel and the next.
const GRACE: Duration = Duration::from_micros(500);

/// How often to look in a turn whether it is over.
const TICK: Duration = Duration::from_micros(500);

/// How often to let go of what has ended.
const LOOK: Duration = Duration::from_millis(50);

/// How long what was enqueued on an open device counts as running, as nobody knows whether it does.
const BACKLOG: Duration = Duration::from_millis(900);

/// A turn is over when nothing has run at so many looks, one after the other.
const STILL: u32 = 4;

/// Has something called, on whatever thread, once a command has ended.
pub type Watch = Box<dyn Fn(&Event, Box<dyn FnOnce() + Send>) + Send + Sync>;

/// How the session stands with a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// It has nothing to do there.
    Quiet,
    /// It waits for its turn.
    Waiting,
    /// It has its turn until then.
    Turn(Instant),
    /// It has the device alone, at work or not, until it is told otherwise.
    Open,
}

/// A launch, as far as its turn is concerned.
#[derive(Clone, Copy)]
pub struct Launch {
    /// What identifies launches that are likely to take as long.
    pub kind: u64,
    /// The queue, if it runs its commands in order.
    pub queue: Option<usize>,
}

struct State {
    phase: Phase,
    /// What is held back.
    held: VecDeque<Slice<UserEvent, Event>>,
    /// What the driver has: launches, when they began, and how many ends are to come.
    flying: BTreeMap<u64, (Vec<u64>, Instant, usize)>,
    /// The name of the next slice.
    next: u64,
    estimates: Estimates,
    /// When a slice has ended last.
    ended: Instant,
    /// What was enqueued while the device was open, if it has not ended, and until when it counts as running.
    backlog: Option<(u64, Instant)>,
    /// At how many looks nothing has run.
    still: u32,
    /// Whether commands are watched for this device.
    is_watched: bool,
}

/// A device that sessions take turns on.
pub struct DeviceTurns {
    turns: Arc<Turns>,
    number: u8,
    /// Whether the session has it alone.
    is_open: AtomicBool,
    state: Mutex<State>,
}

/// The devices on which the session takes turns.
pub struct Turns {
    socket: OwnedFd,
    usage: Arc<Usage>,
    watch: Watch,
    devices: Mutex<BTreeMap<u8, Arc<DeviceTurns>>>,
    /// For how many devices commands are watched.
    watched: Mutex<usize>,
}

/// What is to be done once the state is unlocked: opening gates, which may run commands in some drivers, and watching.
type Opened = Vec<(u64, Slice<UserEvent, Event>)>;

impl Turns {
    /// Turns that `socket` tells of.
    pub fn new(socket: OwnedFd, usage: Arc<Usage>, watch: Watch) -> Arc<Self> {
        Arc::new(Self { socket, usage, watch, devices: Mutex::default(), watched: Mutex::default() })
    }

    /// Has commands watched while there is a device whose turns need that.
    fn watch_for(&self, state: &mut State, watches: bool) {
        if std::mem::replace(&mut state.is_watched, watches) == watches {
            return;
        }
        let mut watched = lock(&self.watched);
        *watched = if watches { *watched + 1 } else { watched.saturating_sub(1) };
        running::watch(Watcher::Turns, *watched > 0);
    }

    /// The device of this number; none beyond those whose use is counted.
    pub fn device(self: &Arc<Self>, number: usize) -> Option<Arc<DeviceTurns>> {
        let number = u8::try_from(number).ok().filter(|_| number < METERED_DEVICES)?;
        let make = || {
            let now = Instant::now();
            let state = State {
                phase: Phase::Quiet,
                held: VecDeque::new(),
                flying: BTreeMap::new(),
                next: 0,
                estimates: Estimates::default(),
                ended: now,
                backlog: None,
                still: 0,
                is_watched: false,
            };
            Arc::new(DeviceTurns { turns: self.clone(), number, is_open: false.into(), state: Mutex::new(state) })
        };
        Some(lock(&self.devices).entry(number).or_insert_with(make).clone())
    }

    /// Follows what the session is told, until nobody decides any more; then it has all devices without turns. `markers`
    /// are events behind all that was enqueued on a device.
    pub fn follow_forever(&self, markers: impl Fn(usize) -> Vec<Event>) {
        let mut under_way = UnderWay::of(Watcher::Turns);
        let mut looked = Instant::now();
        loop {
            // What has ended is not kept; nor is anything that nobody looks at any more.
            if *lock(&self.watched) == 0 {
                under_way = UnderWay::of(Watcher::Turns);
            } else if looked.elapsed() >= LOOK {
                looked = Instant::now();
                under_way.look(looked);
            }
            let all: Vec<_> = lock(&self.devices).values().cloned().collect();
            let timeout = all.iter().filter_map(|device| device.tick(&mut under_way)).min();
            match self.wait(timeout) {
                Ok(Some((told, number))) => {
                    // It may have been made since.
                    let device = lock(&self.devices).get(&number).cloned();
                    if let Some(device) = device {
                        device.follow(told, &markers);
                    }
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Ok(None) | Err(_) => break,
            }
        }
        // New queues find it open, too.
        let all: Vec<_> = lock(&self.devices).values().cloned().collect();
        all.iter().for_each(|device| device.follow(ToTurns::Open, &markers));
    }

    fn wait(&self, timeout: Option<Duration>) -> io::Result<Option<(ToTurns, u8)>> {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], timeout.as_ref())?;
        hear(&self.socket)
    }
}

impl DeviceTurns {
    /// Whether launches need not wait for a turn.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// Has `enqueue` launch something in a turn of the session: behind the event that it is given, if it is given one.
    ///
    /// # Errors
    /// Those of `enqueue`.
    pub fn launch(
        self: &Arc<Self>,
        context: &Context,
        launch: Launch,
        enqueue: impl FnOnce(Option<&Event>) -> Result<Option<Event>, Status>,
    ) -> Result<Option<Event>, Status> {
        let now = Instant::now();
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        match state.phase {
            Phase::Open => {
                drop(guard);
                return enqueue(None);
            }
            Phase::Quiet => self.wants(state),
            Phase::Waiting | Phase::Turn(_) => {}
        }
        let estimate = state.estimates.of(launch.kind);
        let is_turn = matches!(state.phase, Phase::Turn(until) if now < until);
        if is_turn && state.held.is_empty() && state.flying.len() < FLYING {
            let end = enqueue(None)?;
            let mut slice = Slice::new();
            if let Some(end) = &end {
                slice.add(launch.kind, estimate, launch.queue, end.clone());
                let opened = vec![state.fly(slice, now)];
                drop(guard);
                self.open(opened);
            }
            return Ok(end);
        }
        if !state.held.back().is_some_and(|slice| slice.has_room(estimate)) {
            state.held.push_back(Slice::new());
        }
        let Some(slice) = state.held.back_mut() else { return enqueue(None) };
        let of = context.address();
        let gate = match slice.gates.iter().find(|(context, _)| *context == of) {
            Some((_, gate)) => Ok(gate.clone()),
            None => UserEvent::new(context).inspect(|gate| slice.gates.push((of, gate.clone()))),
        };
        // Where there can be no gate, it goes at once.
        let end = enqueue(gate.as_ref().ok().map(UserEvent::event));
        if let Ok(Some(end)) = &end {
            slice.add(launch.kind, estimate, launch.queue, end.clone());
        }
        if slice.launches.is_empty() {
            state.held.pop_back();
        }
        end
    }

    fn wants(&self, state: &mut State) {
        state.phase = Phase::Waiting;
        self.turns.watch_for(state, true);
        // If nobody decides any more, the thread that follows finds that out.
        let _ = say(&self.turns.socket, FromWorker::Wants, self.number);
        self.turns.usage.pause(self.number.into(), true);
    }

    /// Takes in what the session is told.
    fn follow(self: &Arc<Self>, told: ToTurns, markers: &impl Fn(usize) -> Vec<Event>) {
        let now = Instant::now();
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        let mut opened = Vec::new();
        match (told, state.phase) {
            (ToTurns::Open, Phase::Waiting | Phase::Turn(_)) => {
                state.phase = Phase::Open;
                state.flying.clear();
                opened.extend(state.held.drain(..).map(|slice| (u64::MAX, slice)));
                self.turns.watch_for(state, false);
                self.turns.usage.pause(self.number.into(), false);
                self.is_open.store(true, Ordering::SeqCst);
            }
            (ToTurns::Turn(time), Phase::Waiting) => {
                state.phase = Phase::Turn(now + time);
                state.ended = now;
                self.turns.usage.pause(self.number.into(), false);
                opened = self.go_on(state, now);
            }
            (ToTurns::Hold, Phase::Open) => {
                self.is_open.store(false, Ordering::SeqCst);
                self.turns.watch_for(state, true);
                state.phase = Phase::Turn(now);
                let mut before = Slice::new();
                markers(self.number.into()).into_iter().for_each(|end| before.tails.push((None, end)));
                if before.tails.is_empty() {
                    opened = self.go_on(state, now);
                } else {
                    let flown = state.fly(before, now);
                    state.backlog = Some((flown.0, now + BACKLOG));
                    opened.push(flown);
                }
            }
            (ToTurns::Hold, Phase::Turn(until)) => {
                state.phase = Phase::Turn(until.min(now));
                opened = self.go_on(state, now);
            }
            // The session had no use for it any more.
            (ToTurns::Turn(_) | ToTurns::Open, Phase::Quiet) => {
                drop(say(&self.turns.socket, FromWorker::Yields, self.number))
            }
            _ => {}
        }
        drop(guard);
        self.open(opened);
    }

    /// Hands to the driver what fits into the turn, or gives the device back.
    fn go_on(&self, state: &mut State, now: Instant) -> Opened {
        let Phase::Turn(until) = state.phase else { return Vec::new() };
        let mut opened = Vec::new();
        if now < until {
            while state.flying.len() < FLYING
                && let Some(slice) = state.held.pop_front()
            {
                opened.push(state.fly(slice, now));
            }
        } else if state.flying.is_empty() {
            self.yields(state);
        }
        opened
    }

    fn yields(&self, state: &mut State) {
        let more = !state.held.is_empty();
        (state.still, state.backlog) = (0, None);
        state.phase = if more { Phase::Waiting } else { Phase::Quiet };
        self.turns.watch_for(state, more);
        self.turns.usage.pause(self.number.into(), more);
        let said = if more { FromWorker::YieldsForNow } else { FromWorker::Yields };
        let _ = say(&self.turns.socket, said, self.number);
    }

    /// Opens gates, and has the ends of what is behind them watched.
    fn open(self: &Arc<Self>, opened: Opened) {
        for (name, slice) in opened {
            for (_, gate) in &slice.gates {
                // It is set once.
                let _ = gate.set(ropeway_abi::CL_COMPLETE);
            }
            if name == u64::MAX {
                continue;
            }
            for (_, end) in &slice.tails {
                let device = self.clone();
                (self.turns.watch)(end, Box::new(move || device.ended(name)));
            }
        }
    }

    /// One of the last launches of a slice has ended.
    fn ended(self: &Arc<Self>, name: u64) {
        let now = Instant::now();
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        let Some((launches, begun, left)) = state.flying.get_mut(&name) else { return };
        *left -= 1;
        if *left > 0 {
            return;
        }
        let (launches, begun) = (std::mem::take(launches), (*begun).max(state.ended));
        if !launches.is_empty() {
            state.estimates.learn(&launches, now.duration_since(begun));
        }
        state.flying.remove(&name);
        state.ended = now;
        let opened = self.go_on(state, now);
        drop(guard);
        self.open(opened);
    }

    /// Looks whether a turn is over; returns when to look again.
    fn tick(self: &Arc<Self>, under_way: &mut UnderWay) -> Option<Duration> {
        let now = Instant::now();
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        match state.phase {
            Phase::Quiet | Phase::Waiting | Phase::Open => None,
            Phase::Turn(until) => {
                let has_nothing = state.flying.is_empty() && state.held.is_empty();
                let is_idle = has_nothing && now.saturating_duration_since(state.ended) >= GRACE;
                // What is under way may itself wait for something that does not come in this turn.
                let is_known = |(name, until): (u64, Instant)| now >= until || !state.flying.contains_key(&name);
                let may_be_over = now >= until + SLICE && state.backlog.is_none_or(is_known);
                state.still = if may_be_over && under_way.look(now).is_none() { state.still + 1 } else { 0 };
                if is_idle || state.still >= STILL {
                    state.flying.clear();
                    self.yields(state);
                    return None;
                }
                let opened = self.go_on(state, now);
                drop(guard);
                self.open(opened);
                Some(TICK)
            }
        }
    }
}

impl State {
    /// Records that the driver has this slice.
    fn fly(&mut self, mut slice: Slice<UserEvent, Event>, now: Instant) -> (u64, Slice<UserEvent, Event>) {
        let name = self.next;
        self.next += 1;
        self.flying.insert(name, (std::mem::take(&mut slice.launches), now, slice.tails.len()));
        (name, slice)
    }
}

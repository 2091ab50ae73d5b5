//! Preparation of a command: everything that must be in its home before the command is sent there.
//!
//! In a context with one home, everything is there from the beginning. In a context with several, a command's memory
//! objects are made in its home when they are first needed there, and the contents that it uses are brought there: the
//! home that has them is told to push them, the command's home to expect them, and the command to wait for their
//! arrival. The first transfer between two homes must ask whether they reach each other; after failures, the outcome of
//! earlier commands must be asked for. A thread waits for such answers before it plans, and holds nothing meanwhile
//! that keeps others from planning and sending.

use std::ops::Range;
use std::sync::{Arc, MutexGuard};

use ropeway_abi::CL_COMMAND_MIGRATE_MEM_OBJECTS;
use ropeway_protocol::ids::{MemoryId, TransferId};
use ropeway_protocol::limits::MAX_EAGER;
use ropeway_protocol::messages::{CreateUserEvent, Expect, ExpectContent, Push, PushContent, SetUserEventStatus};
use ropeway_protocol::types::{Command, EventList, Moved};
use smallvec::SmallVec;

use crate::base::ids::new_id;
use crate::base::stats::{STATS, count};
use crate::base::status::{Result, SERVER_LOST, Status};
use crate::base::sync::lock;
use crate::link::peers::{Way, are_apart, known_way, way};
use crate::objects::access::{Access, Use};
use crate::objects::event::Event;
use crate::objects::event_ref::EventRef;
use crate::objects::home::Home;
use crate::objects::memory::Memory;
use crate::objects::queue::Queue;
use crate::objects::ways::Ways;
use crate::residency::spans;
use crate::residency::{By, Events, Plan, Residency, Transfer, Use as Usage};

/// Size in bytes of a content size: the buffer value that says how many bytes of another buffer are meaningful.
pub(crate) const CONTENT_SIZE: u64 = 8;

/// The object whose storage a command uses, which parts of it, and how.
type Storage<'a> = (&'a Memory, SmallVec<[Range<u64>; 1]>, Access);

/// A command between planning and sending. The planning lock is held meanwhile, so that no other command can name its
/// event too early.
pub(crate) struct Prepared<'a> {
    planning: Option<MutexGuard<'a, Ways>>,
    /// The command's event, which the application may not have asked for.
    event: Option<Arc<Event>>,
    /// Events of other homes that are certain to have ended once everything brought for the command has arrived.
    implied: SmallVec<[EventRef; 2]>,
    /// Transfers that must arrive before the command runs.
    arrivals: SmallVec<[EventRef; 2]>,
}

/// Arrivals that a command has waited for and that may have failed.
pub(crate) struct Arriving(SmallVec<[EventRef; 2]>);

impl Arriving {
    /// Finds out, after the command has failed, whether a failed arrival was the cause.
    pub(crate) fn find_out(&self) {
        for mark in &self.0 {
            mark.0.learn_end();
        }
    }
}

/// A question that a server must answer before a command can be planned.
enum Unknown {
    /// Whether the home of this number reaches the command's home.
    Way(usize),
    /// How these events end: what they stand for may never come.
    Ends(Vec<EventRef>),
    /// Whether these have ended.
    Outcomes(Vec<EventRef>),
}

impl Prepared<'_> {
    /// The command is among those that are sent next: others may be planned.
    pub(crate) fn was_posted(&mut self) {
        self.planning = None;
    }

    /// The command is sent. Gives what it waits for.
    pub(crate) fn sent(self) -> Arriving {
        Arriving(self.arrivals)
    }

    /// Ends the event of a command that the server has refused.
    pub(crate) fn was_refused(&self, status: Status) {
        if let Some(event) = &self.event {
            event.end(status);
        }
    }

    /// Whether the command waits for an event without having it in its wait list.
    pub(crate) fn implies(&self, event: &Event) -> bool {
        self.implied.iter().any(|mark| std::ptr::eq(&*mark.0, event))
    }
}

struct Arrivals<'a>(&'a Arc<Queue>);

impl Events<EventRef> for Arrivals<'_> {
    fn arrival(&mut self) -> EventRef {
        EventRef(Event::of_command(self.0, CL_COMMAND_MIGRATE_MEM_OBJECTS, false))
    }

    fn outcome(&self, mark: &EventRef) -> Option<bool> {
        if mark.0.has_failed() { Some(false) } else { mark.0.is_over().then_some(true) }
    }

    fn is_far(&self, from: usize) -> bool {
        let from = self.0.context().homes().get(from);
        from.is_some_and(|from| are_apart(from.connection(), self.0.connection()))
    }
}

impl Queue {
    /// Ensures that a command about to be sent finds in its home everything that it uses. Only for contexts with
    /// several homes. `event` is the application's, if it wants one; `command` is its CL_COMMAND_*. The returned value
    /// must outlive the command's sending.
    ///
    /// # Errors
    /// [`SERVER_LOST`], also where what is needed was lost with another server; CL_INVALID_OPERATION for what can only
    /// be used in another home.
    pub(crate) fn prepare<'a>(
        self: &'a Arc<Self>,
        uses: &[Use<'_>],
        command: u32,
        wire: &mut Command,
        event: &Option<Arc<Event>>,
    ) -> Result<Prepared<'a>> {
        let home = self.home();
        for one in uses {
            one.memory.ensure(home)?;
        }
        let uses: SmallVec<[_; 4]> = uses.iter().map(Use::of_storage).collect();
        let mut asked = Vec::new();
        // The order in which commands are planned is the one in which they are sent.
        let planning = loop {
            let mut planning = self.context().plan();
            // A command that is refused here must not be planned: planning would take the contents from the homes that
            // are left.
            if home.is_lost() {
                return Err(SERVER_LOST);
            }
            let Some(unknown) = self.unknown(&uses, &mut planning, &asked) else { break planning };
            // While this thread waits for an answer, others plan and send.
            drop(planning);
            self.find_out(unknown, &mut asked);
        };
        let mut event = event.clone();
        if event.is_none() && uses.iter().any(|(_, _, access)| *access != Access::Read) {
            let hidden = Event::of_command(self, command, false);
            wire.event = Some(hidden.id());
            event = Some(hidden);
        }
        let (mut implied, mut arrivals) = (SmallVec::new(), SmallVec::new());
        let planned: Result<()> = uses.iter().try_for_each(|(memory, ranges, access)| {
            let plan = self.plan_use(memory, ranges, *access, event.as_ref())?;
            for transfer in &plan.transfers {
                self.bring(memory, transfer)?;
                implied.extend(transfer.after.iter().cloned());
            }
            for mark in &plan.waits {
                wire.waits.0.extend(mark.0.waited_for_in(home)?);
            }
            arrivals.extend(plan.waits.iter().cloned());
            // Later commands are told to wait for what is arriving only as long as it is not known to have arrived.
            let of_home = plan.waits.iter().filter(|mark| mark.0.is_of(home));
            event.iter().for_each(|event| event.implies(of_home.clone().map(|mark| Arc::clone(&mark.0))));
            Ok(())
        });
        planned.inspect_err(|_| event.iter().for_each(|event| event.was_not_sent()))?;
        Ok(Prepared { planning: Some(planning), event, implied, arrivals })
    }

    /// Returns what must be found out before a command with these uses is planned, apart from what was `asked` already.
    /// Mostly `None`.
    fn unknown(self: &Arc<Self>, uses: &[Storage<'_>], ways: &mut Ways, asked: &[EventRef]) -> Option<Unknown> {
        let (homes, number) = (self.context().homes(), self.home().number());
        let all_known = ways.are_all_known();
        if all_known && !self.context().has_failures() && !homes.iter().any(Home::is_lost) {
            return None;
        }
        let events = Arrivals(self);
        for (memory, ranges, access) in uses {
            let Some(residency) = memory.residency() else { continue };
            let mut residency = lock(residency);
            let open = |mark: &EventRef| !mark.0.has_ended() && !asked.contains(mark);
            let lost = lose_homes(&mut residency, homes);
            let ends: Vec<_> = lost.into_iter().filter(open).collect();
            if !ends.is_empty() {
                return Some(Unknown::Ends(ends));
            }
            let outcomes: Vec<_> = residency.doubtful(ranges, &events).into_iter().filter(open).collect();
            if !outcomes.is_empty() {
                return Some(Unknown::Outcomes(outcomes));
            }
            if all_known || !matches!(access, Access::Read | Access::ReadWrite) {
                continue;
            }
            let sources = residency.sources(number, ranges, &events);
            if let Some(from) = sources.into_iter().find(|from| !ways.is_known(*from, number)) {
                return Some(Unknown::Way(from));
            }
        }
        None
    }

    /// Waits for the answer. No lock is held.
    fn find_out(&self, unknown: Unknown, asked: &mut Vec<EventRef>) {
        let home = self.home();
        match unknown {
            Unknown::Way(from) => {
                way(self.context().homes()[from].connection(), home.connection());
                self.context().plan().found_out(from, home.number());
            }
            Unknown::Ends(mut marks) => {
                marks.iter().for_each(|mark| mark.0.learn_end());
                asked.append(&mut marks);
            }
            Unknown::Outcomes(mut marks) => {
                // Asking for an event's status makes the event take in what is known of it.
                for mark in &marks {
                    mark.0.status();
                }
                asked.append(&mut marks);
            }
        }
    }

    fn plan_use(
        self: &Arc<Self>,
        memory: &Memory,
        ranges: &[Range<u64>],
        access: Access,
        event: Option<&Arc<Event>>,
    ) -> Result<Plan<EventRef>> {
        let nothing = Plan { first_contents: false, transfers: Vec::new(), waits: Vec::new() };
        let Some(residency) = memory.residency() else { return Ok(nothing) };
        let lane = self.is_in_order().then(|| self.id().0);
        let by = || event.map(|event| By { event: EventRef(Arc::clone(event)), lane }).ok_or(SERVER_LOST);
        let usage = match access {
            Access::Read => Usage::Read,
            Access::ReadWrite => Usage::Update(by()?),
            Access::Write => Usage::Overwrite(by()?),
            Access::Discard => Usage::Discard(by()?),
        };
        let mut residency = lock(residency);
        lose_homes(&mut residency, self.context().homes());
        residency.plan(self.home().number(), &usage, ranges, &mut Arrivals(self)).map_err(|_| SERVER_LOST)
    }

    /// Brings bytes of a memory object to the queue's home.
    fn bring(self: &Arc<Self>, memory: &Memory, transfer: &Transfer<EventRef>) -> Result<()> {
        let (from, to) = (&self.context().homes()[transfer.from], self.home());
        let arrival = &transfer.arrival.0;
        let size = transfer.ranges.iter().map(|range| (range.end - range.start) as usize).sum();
        count(&STATS.moves, 1);
        count(&STATS.bytes_moved, size);
        // If the servers have not been asked whether they reach each other, the bytes go through the client.
        let sent = match known_way(from.connection(), to.connection()).unwrap_or(Way::Relay) {
            Way::Direct => {
                named_in(from, &transfer.after).and_then(|after| push(memory, transfer, (from, self), after))
            }
            Way::Relay => {
                count(&STATS.bytes_relayed, size);
                self.relay(memory, transfer, from)
            }
        };
        sent.inspect_err(|_| {
            // Other commands may be told to wait for the arrival, and must not wait for an event that does not exist. A
            // lost server has forgotten it.
            let event = arrival.id();
            let _ = to.connection().post(&CreateUserEvent { event, context: to.context() });
            let _ = to.connection().post(&SetUserEventStatus { event, status: SERVER_LOST });
            arrival.end(SERVER_LOST);
        })
    }
}

/// Gives up what lost homes hold of a memory object. Returns the arrivals of transfers from those homes: as they may
/// never come, their outcome must be known before anything waits for them.
fn lose_homes(residency: &mut Residency<EventRef>, homes: &[Home]) -> Vec<EventRef> {
    let mut on_their_way = Vec::new();
    for lost in homes.iter().filter(|home| home.is_lost()) {
        residency.lose(lost.number(), |mark| mark.0.is_over());
        on_their_way.extend(residency.arrivals(lost.number()));
    }
    on_their_way
}

/// Pushes part of a buffer of which only as many bytes are meaningful as `content` says.
fn push_content(
    memory: &Memory,
    content: MemoryId,
    plan: &Transfer<EventRef>,
    (from, to): (&Home, &Home),
    (mut after, ready): (EventList, &[EventRef]),
) -> Result<()> {
    after.0.extend(named_in(from, ready)?.0);
    after.0.sort_unstable();
    after.0.dedup();
    let ranges: Vec<_> = plan.ranges.iter().map(|range| (range.start, range.end - range.start)).collect();
    let transfer = TransferId(new_id());
    let (ours, theirs) = (to.connection(), from.connection());
    let memory_there = memory.id(from);
    let push =
        PushContent { memory: memory_there, ranges: ranges.clone(), content, after, peer: ours.session(), transfer };
    theirs.post(&push)?;
    let (memory, event) = (memory.id(to), plan.arrival.0.id());
    ours.post(&ExpectContent { memory, ranges, event, peer: theirs.session(), transfer })
}

impl Memory {
    /// The events after which a home has the 8 bytes that say how many bytes of another buffer are meaningful; `None`
    /// if the home does not have them.
    fn content_ready(&self, home: &Home) -> Option<Vec<EventRef>> {
        let (storage, offset) = self.storage();
        let offset = offset as u64;
        let ready = lock(storage.residency()?).ready_at(home.number(), offset..offset.saturating_add(CONTENT_SIZE))?;
        self.ensure(home).ok().map(|()| ready)
    }

    /// The content size that limits a read of `size` bytes at `offset`, where it can save bytes.
    pub(crate) fn content_limit(&self, home: &Home, size: usize) -> Option<Arc<Self>> {
        let limit = self.content_size().filter(|_| size > MAX_EAGER)?;
        let is_there = !self.context().spans_homes() || limit.content_ready(home).is_some();
        is_there.then_some(limit)
    }
}

/// The part of a memory object that a transfer moves.
///
/// # Errors
/// [`SERVER_LOST`] for what cannot be.
pub(crate) fn moved(memory: &Memory, transfer: &Transfer<EventRef>) -> Result<Moved> {
    match (memory.as_image(), &*transfer.ranges) {
        (Some(image), [rows]) => spans::part_of_image(&image.like, rows).map(Moved::Image).ok_or(SERVER_LOST),
        (Some(_), _) => Err(SERVER_LOST),
        (None, ranges) => {
            Ok(Moved::Ranges(ranges.iter().map(|range| (range.start, range.end - range.start)).collect()))
        }
    }
}

/// Returns the names of events in a home, leaving out those that are over, or that are over when another of them is.
fn named_in(home: &Home, marks: &[EventRef]) -> Result<EventList> {
    let mut list = EventList::default();
    for mark in marks.iter().filter(|mark| !marks.iter().any(|other| other.0.has_waited_for(&mark.0))) {
        list.0.extend(mark.0.waited_for_in(home)?);
    }
    Ok(list)
}

/// Has one server push bytes of a memory object to another.
fn push(memory: &Memory, plan: &Transfer<EventRef>, (from, queue): (&Home, &Queue), after: EventList) -> Result<()> {
    let to = queue.home();
    if let Some((content, ready)) =
        memory.content_size().and_then(|size| Some((size.id(from), size.content_ready(from)?)))
    {
        return push_content(memory, content, plan, (from, to), (after, &ready));
    }
    let what = moved(memory, plan)?;
    let transfer = TransferId(new_id());
    let (ours, theirs) = (to.connection(), from.connection());
    theirs.post(&Push {
        memory: memory.id(from),
        what: what.clone(),
        after,
        event: None,
        peer: ours.session(),
        transfer,
    })?;
    let event = plan.arrival.0.id();
    // Apart from the application's own events, commands wait only for earlier commands.
    let queue = (queue.is_in_order() && !queue.context().has_user_events()).then(|| queue.id());
    ours.post(&Expect { memory: memory.id(to), what, event, peer: theirs.session(), transfer, queue })
}

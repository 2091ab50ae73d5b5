//! What a command needs in its home before it can be sent there.
//!
//! In a context with one home all is there from the beginning. In one with several, the command's memory objects are made in its
//! home when they are first needed there, and what it uses of their contents is brought there: the home that has it is told to push it, this one to expect
//! it, and the command to wait for its arrival. Nothing of this waits for a server.

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
use crate::link::peers::{Way, are_apart, way};
use crate::objects::access::{Access, Use};
use crate::objects::event::Event;
use crate::objects::home::Home;
use crate::objects::mark::Mark;
use crate::objects::memory::Memory;
use crate::objects::queue::Queue;
use crate::residency::spans;
use crate::residency::{By, Events, Plan, Transfer, Use as Usage};

/// Bytes of a buffer that say how many of another mean something.
pub(crate) const CONTENT_SIZE: u64 = 8;

/// What is kept while a command is planned and until it is sent: nobody names its event before.
pub(crate) struct Prepared<'a> {
    _planning: MutexGuard<'a, ()>,
    /// The command's event, which the application may not know.
    event: Option<Arc<Event>>,
    /// Events of other homes that have ended when all that is brought has arrived.
    implied: SmallVec<[Mark; 2]>,
    /// What must arrive for the command.
    arrivals: SmallVec<[Mark; 2]>,
}

/// What a command has waited for that may not have arrived.
pub(crate) struct Arriving(SmallVec<[Mark; 2]>);

impl Arriving {
    /// The command has failed: finds out whether for that.
    pub(crate) fn find_out(&self) {
        for mark in &self.0 {
            mark.0.learn_end();
        }
    }
}

impl Prepared<'_> {
    /// The command is sent. Gives what it waits for.
    pub(crate) fn sent(self) -> Arriving {
        Arriving(self.arrivals)
    }

    /// The server has refused the command.
    pub(crate) fn was_refused(&self, status: Status) {
        if let Some(event) = &self.event {
            event.end(status);
        }
    }

    /// Whether the command waits for an event without being told to.
    pub(crate) fn implies(&self, event: &Event) -> bool {
        self.implied.iter().any(|mark| std::ptr::eq(&*mark.0, event))
    }
}

struct Arrivals<'a>(&'a Arc<Queue>);

impl Events<Mark> for Arrivals<'_> {
    fn arrival(&mut self) -> Mark {
        Mark(Event::of_command(self.0, CL_COMMAND_MIGRATE_MEM_OBJECTS, false))
    }

    fn outcome(&self, mark: &Mark) -> Option<bool> {
        if mark.0.has_failed() { Some(false) } else { mark.0.is_over().then_some(true) }
    }

    fn ask(&self, mark: &Mark) -> Option<bool> {
        // Asked for its status, it takes in what there is to know.
        mark.0.status();
        self.outcome(mark)
    }

    fn is_far(&self, from: usize) -> bool {
        let from = self.0.context().homes().get(from);
        from.is_some_and(|from| are_apart(from.connection(), self.0.connection()))
    }
}

impl Queue {
    /// Sees to it that a command, which is about to be sent, finds in its home what it uses. In contexts with several homes only.
    /// `event` is the application's, if it wants one; `command` its CL_COMMAND_*. What is returned must outlive the command's sending.
    ///
    /// # Errors
    /// [`SERVER_LOST`], also where what is needed was lost with another server; CL_INVALID_OPERATION for what can only be used in another
    /// home.
    pub(crate) fn prepare<'a>(
        self: &'a Arc<Self>,
        uses: &[Use<'_>],
        command: u32,
        wire: &mut Command,
        event: &Option<Arc<Event>>,
    ) -> Result<Prepared<'a>> {
        let home = self.home();
        // What is refused here must not be planned: it would take the contents from the homes that are left.
        if home.is_lost() {
            return Err(SERVER_LOST);
        }
        for one in uses {
            one.memory.ensure(home)?;
        }
        // The order in which commands are planned is the one in which they are sent.
        let planning = self.context().plan();
        let uses: SmallVec<[_; 4]> = uses.iter().map(Use::of_storage).collect();
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
            // Later commands are told to wait for what has arrived only as long as it is not known to have.
            let of_home = plan.waits.iter().filter(|mark| mark.0.is_of(home));
            event.iter().for_each(|event| event.implies(of_home.clone().map(|mark| Arc::clone(&mark.0))));
            Ok(())
        });
        planned.inspect_err(|_| event.iter().for_each(|event| event.was_not_sent()))?;
        Ok(Prepared { _planning: planning, event, implied, arrivals })
    }

    fn plan_use(
        self: &Arc<Self>,
        memory: &Memory,
        ranges: &[Range<u64>],
        access: Access,
        event: Option<&Arc<Event>>,
    ) -> Result<Plan<Mark>> {
        let nothing = Plan { first_contents: false, transfers: Vec::new(), waits: Vec::new() };
        let Some(residency) = memory.residency() else { return Ok(nothing) };
        let lane = self.is_in_order().then(|| self.id().0);
        let by = || event.map(|event| By { event: Mark(Arc::clone(event)), lane }).ok_or(SERVER_LOST);
        let usage = match access {
            Access::Read => Usage::Read,
            Access::ReadWrite => Usage::Update(by()?),
            Access::Write => Usage::Overwrite(by()?),
            Access::Discard => Usage::Discard(by()?),
        };
        let mut residency = lock(residency);
        for lost in self.context().homes().iter().filter(|home| home.is_lost()) {
            residency.lose(lost.number(), |mark| mark.0.is_over());
            // What came of what was on its way is to be known before it is waited for: it may never come.
            for mark in residency.arrivals(lost.number()) {
                mark.0.learn_end();
            }
        }
        residency.plan(self.home().number(), &usage, ranges, &mut Arrivals(self)).map_err(|_| SERVER_LOST)
    }

    /// Brings bytes of a memory object to the queue's home.
    fn bring(self: &Arc<Self>, memory: &Memory, transfer: &Transfer<Mark>) -> Result<()> {
        let (from, to) = (&self.context().homes()[transfer.from], self.home());
        let arrival = &transfer.arrival.0;
        let size = transfer.ranges.iter().map(|range| (range.end - range.start) as usize).sum();
        count(&STATS.moves, 1);
        count(&STATS.bytes_moved, size);
        let sent = match way(from.connection(), to.connection()) {
            Way::Direct => {
                named_in(from, &transfer.after).and_then(|after| push(memory, transfer, (from, self), after))
            }
            Way::Relay => {
                count(&STATS.bytes_relayed, size);
                self.relay(memory, transfer, from)
            }
        };
        sent.inspect_err(|_| {
            // Others may be told to wait for it, and must not wait for what does not exist. A lost server has forgotten it.
            let event = arrival.id();
            let _ = to.connection().post(&CreateUserEvent { event, context: to.context() });
            let _ = to.connection().post(&SetUserEventStatus { event, status: SERVER_LOST });
            arrival.end(SERVER_LOST);
        })
    }
}

/// The same, of a buffer of which only as many bytes mean something as `content` says.
fn push_content(
    memory: &Memory,
    content: MemoryId,
    plan: &Transfer<Mark>,
    (from, to): (&Home, &Home),
    (mut after, ready): (EventList, &[Mark]),
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
    /// After what a home has the 8 bytes that say how many bytes of another buffer mean something; `None` where it does not have them.
    fn content_ready(&self, home: &Home) -> Option<Vec<Mark>> {
        let (storage, offset) = self.storage();
        let offset = offset as u64;
        let ready = lock(storage.residency()?).ready_at(home.number(), offset..offset.saturating_add(CONTENT_SIZE))?;
        self.ensure(home).ok().map(|()| ready)
    }

    /// What a read of `size` bytes at `offset` is limited by, where that may save something.
    pub(crate) fn content_limit(&self, home: &Home, size: usize) -> Option<Arc<Self>> {
        let limit = self.content_size().filter(|_| size > MAX_EAGER)?;
        let is_there = !self.context().spans_homes() || limit.content_ready(home).is_some();
        is_there.then_some(limit)
    }
}

/// What a transfer moves.
///
/// # Errors
/// [`SERVER_LOST`] for what cannot be.
pub(crate) fn moved(memory: &Memory, transfer: &Transfer<Mark>) -> Result<Moved> {
    match (memory.as_image(), &*transfer.ranges) {
        (Some(image), [rows]) => spans::part_of_image(&image.like, rows).map(Moved::Image).ok_or(SERVER_LOST),
        (Some(_), _) => Err(SERVER_LOST),
        (None, ranges) => {
            Ok(Moved::Ranges(ranges.iter().map(|range| (range.start, range.end - range.start)).collect()))
        }
    }
}

/// The names of events in a home; without those that are over, or that are when another of them is.
fn named_in(home: &Home, marks: &[Mark]) -> Result<EventList> {
    let mut list = EventList::default();
    for mark in marks.iter().filter(|mark| !marks.iter().any(|other| other.0.has_waited_for(&mark.0))) {
        list.0.extend(mark.0.waited_for_in(home)?);
    }
    Ok(list)
}

/// Has one server push bytes of a memory object to another.
fn push(memory: &Memory, plan: &Transfer<Mark>, (from, queue): (&Home, &Queue), after: EventList) -> Result<()> {
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
    // Commands wait for earlier ones only, but for the application's own events.
    let queue = (queue.is_in_order() && !queue.context().has_user_events()).then(|| queue.id());
    ours.post(&Expect { memory: memory.id(to), what, event, peer: theirs.session(), transfer, queue })
}

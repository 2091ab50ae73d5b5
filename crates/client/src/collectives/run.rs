//! A collective operation on queues: its schedule, carried out with copies and kernels that wait for each other's
//! events.

use std::sync::Arc;

use ropeway_abi::CL_OUT_OF_RESOURCES;

use super::hazards::{Hazards, Touch};
use super::operators::{Operator, Operators, Ready};
use super::schedule::{At, Job, Operation, Place, Schedule, Step, Tuning};
use super::scratch::Spare;
use crate::base::status::Result;
use crate::commands::command::{Enqueued, Order};
use crate::objects::event::Event;
use crate::objects::memory::Memory;
use crate::objects::queue::Queue;

/// A rank's memory.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// The buffer.
    pub memory: &'a Memory,
    /// Where it begins there, in bytes.
    pub offset: usize,
}

/// A collective operation with all that it is about.
#[derive(Debug)]
pub struct Call<'a> {
    /// The operation.
    pub operation: Operation,
    /// A queue for each rank, all of one context.
    pub queues: &'a [Arc<Queue>],
    /// The source of each rank; `None` for ranks that give nothing.
    pub sources: &'a [Option<Piece<'a>>],
    /// Where what it gets goes; `None` for ranks that get nothing.
    pub targets: &'a [Option<Piece<'a>>],
    /// Bytes, as [`Job::size`].
    pub size: u64,
    /// The operator of operations that combine data.
    pub operator: Option<Operator<'a>>,
}

/// The ranks of a call in another order.
struct Reordered<'a> {
    operation: Operation,
    queues: Vec<Arc<Queue>>,
    sources: Vec<Option<Piece<'a>>>,
    targets: Vec<Option<Piece<'a>>>,
    /// Where the first rank is now.
    first: usize,
}

/// Memory that does not overlap with memory of another name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Space {
    /// A buffer with its sub-buffers.
    Storage(u64),
    Scratch(usize, usize),
}

impl Piece<'_> {
    /// The storage, and where it begins there.
    fn place(&self) -> (u64, u64) {
        (self.memory.storage_id(), self.memory.offset() as u64 + self.offset as u64)
    }
}

impl<'a> Call<'a> {
    fn job(&self) -> Job {
        Job {
            operation: self.operation,
            ranks: self.queues.len(),
            size: self.size,
            element: self.operator.map_or(1, |operator| operator.element() as u64),
            ordered: self.operator.is_some_and(|operator| operator.is_ordered()),
        }
    }

    /// Whether a target lies over another one, or over a source otherwise than in place.
    pub fn overlaps(&self) -> bool {
        let job = self.job();
        let list = |pieces: &[Option<Piece<'_>>], size: &dyn Fn(usize) -> u64| {
            let known =
                pieces.iter().enumerate().filter_map(|(rank, piece)| Some((rank, piece.as_ref()?.place(), size(rank))));
            known.collect::<Vec<_>>()
        };
        let sources = list(self.sources, &|rank| job.source_size(rank));
        let targets = list(self.targets, &|rank| job.target_size(rank));
        let meet = |((one, begin), size): ((u64, u64), u64), ((other, from), bytes): ((u64, u64), u64)| {
            one == other && begin < from + bytes && from < begin + size
        };
        targets.iter().any(|&(to, target, size)| {
            let others = targets.iter().any(|&(rank, other, bytes)| rank != to && meet((target, size), (other, bytes)));
            let over = |&(from, source, bytes): &(usize, (u64, u64), u64)| {
                let apart = i128::from(target.1) - i128::from(source.1);
                meet((target, size), (source, bytes)) && job.in_place(from, to) != Some(apart)
            };
            others || sources.iter().any(over)
        })
    }

    fn piece(&self, at: At) -> Option<Piece<'a>> {
        match at.place {
            Place::Source => self.sources.get(at.rank).copied().flatten(),
            Place::Target => self.targets.get(at.rank).copied().flatten(),
            Place::Scratch(_) => None,
        }
    }

    /// Whether native implementations keep the memory coherent for whole objects only: where a home has several of the
    /// devices, what one device writes must not be used by another at the same time, whichever bytes are concerned.
    fn is_coarse(&self) -> bool {
        let same_home = |one: &Queue, other: &Queue| one.device().native_platform() == other.device().native_platform();
        let apart = |one: &Queue, other: &Queue| !Arc::ptr_eq(one.device(), other.device()) && same_home(one, other);
        self.queues.iter().enumerate().any(|(index, one)| self.queues[..index].iter().any(|other| apart(one, other)))
    }

    fn touch(&self, at: At, size: u64, writes: bool) -> Touch<Space> {
        let (memory, begin) = match (at.place, self.piece(at)) {
            (Place::Scratch(slot), _) => (Space::Scratch(at.rank, slot), at.offset),
            (_, Some(piece)) => (Space::Storage(piece.place().0), piece.place().1 + at.offset),
            // Ranks that have no such memory do nothing with it.
            (_, None) => (Space::Storage(0), 0),
        };
        Touch { memory, range: begin..begin + size, writes }
    }

    fn touches(&self, step: &Step) -> Vec<Touch<Space>> {
        let slot = |rank, slot| At { rank, place: Place::Scratch(slot), offset: 0 };
        match *step {
            Step::Copy { from, to, size } => vec![self.touch(from, size, false), self.touch(to, size, true)],
            Step::Combine { rank, left, right, out, size } => vec![
                self.touch(slot(rank, left), size, false),
                self.touch(slot(rank, right), size, false),
                self.touch(slot(rank, out), size, true),
            ],
            Step::Identity { to, size } => vec![self.touch(to, size, true)],
        }
    }

    /// Returns the ranks in an order in which those of one home are adjacent, so that a ring or chain crosses between
    /// servers no more often than it must. `None` where they are adjacent already, or where the order of the ranks
    /// matters.
    fn by_home(&self) -> Option<Reordered<'a>> {
        if self.operator.is_some_and(|operator| operator.is_ordered()) {
            return None;
        }
        let home = |rank: usize| self.queues[rank].home().number();
        let mut order: Vec<usize> = (0..self.queues.len()).collect();
        order.sort_by_key(|&rank| home(rank));
        if order.is_sorted() {
            return None;
        }
        let now = |rank: usize| order.iter().position(|&old| old == rank).unwrap_or(rank);
        let operation = match self.operation {
            Operation::Broadcast { root } => Operation::Broadcast { root: now(root) },
            Operation::Reduce { root } => Operation::Reduce { root: now(root) },
            Operation::AllReduce => Operation::AllReduce,
            _ => return None,
        };
        let reordered = |pieces: &[Option<Piece<'a>>]| order.iter().map(|&rank| pieces[rank]).collect();
        Some(Reordered {
            operation,
            queues: order.iter().map(|&rank| Arc::clone(&self.queues[rank])).collect(),
            sources: reordered(self.sources),
            targets: reordered(self.targets),
            first: now(0),
        })
    }

    /// Whether a step copies something to where it already is.
    fn is_in_place(&self, step: &Step) -> bool {
        let Step::Copy { from, to, .. } = *step else { return false };
        let place = |at: At| self.piece(at).map(|piece| (piece.place().0, piece.place().1 + at.offset));
        place(from).is_some() && place(from) == place(to)
    }
}

/// A step as it is enqueued.
#[derive(Debug)]
enum What {
    /// The commands before it in the queue, and the application's wait list, have ended.
    Begin,
    Step(Step),
    /// Nobody needs a queue's memory any more.
    End,
}

#[derive(Debug)]
struct Command {
    /// Whose queue.
    rank: usize,
    what: What,
    /// Other commands, by their indices.
    waits: Vec<usize>,
}

/// All commands of a call, in an order in which each waits only for those before it.
struct Commands {
    all: Vec<Command>,
    /// The commands whose ends complete the call, apart from those that the order of the event's queue already covers.
    last: Vec<usize>,
    /// For each rank and piece of scratch memory, the commands after whose ends nobody uses it.
    scratch: Vec<Vec<Vec<usize>>>,
}

impl Commands {
    /// The event is of the queue of the rank `teller`.
    fn new(call: &Call<'_>, job: &Job, schedule: &Schedule, waits: bool, teller: usize) -> Self {
        let queues = call.queues;
        // Ranks may share a queue.
        let first = |rank: usize| queues.iter().position(|queue| Arc::ptr_eq(queue, &queues[rank])).unwrap_or(rank);
        let own: Vec<usize> = (0..queues.len()).map(first).collect();
        let in_order = |rank: usize| queues[rank].is_in_order().then_some(own[rank]);
        let distinct: Vec<usize> = (0..queues.len()).filter(|&rank| own[rank] == rank).collect();
        let memory_of = |queue: usize| {
            let touches = (0..queues.len()).filter(|&rank| own[rank] == queue).flat_map(|rank| {
                let at = |place| At { rank, place, offset: 0 };
                [(at(Place::Source), job.source_size(rank)), (at(Place::Target), job.target_size(rank))]
            });
            touches.map(|(at, size)| call.touch(at, size, true)).collect::<Vec<_>>()
        };
        let coarse = call.is_coarse();
        let widened = |mut touches: Vec<Touch<Space>>| {
            touches
                .iter_mut()
                .filter(|touch| coarse && !touch.range.is_empty())
                .for_each(|touch| touch.range = 0..u64::MAX);
            touches
        };
        let (mut hazards, mut all) = (Hazards::default(), Vec::new());
        for &rank in &distinct {
            // Nothing holds up an out-of-order queue's commands but what they are told to wait for.
            let touches = if in_order(rank).is_some() || waits { widened(memory_of(rank)) } else { Vec::new() };
            // The wait list may fail: then all later steps have to fail as well, even those that only the queue's order
            // would hold back.
            hazards.first(in_order(rank).filter(|_| !waits), touches);
            all.push(Command { rank, what: What::Begin, waits: Vec::new() });
        }
        for step in schedule.steps.iter().filter(|step| !call.is_in_place(step)) {
            let rank = step.rank();
            let waits = hazards.next(in_order(rank), &widened(call.touches(step)));
            all.push(Command { rank, what: What::Step(*step), waits });
        }
        let mut last: Vec<usize> = (0..if waits { distinct.len() } else { 0 }).collect();
        let used = schedule.scratch.iter().enumerate().map(|(rank, slots)| {
            let whole = |slot| Touch { memory: Space::Scratch(rank, slot), range: 0..u64::MAX, writes: true };
            (0..slots.len()).map(|slot| hazards.waits(None, &[whole(slot)])).collect()
        });
        let scratch = used.collect();
        for &rank in &distinct {
            let before = hazards.waits(in_order(rank), &widened(memory_of(rank)));
            let index = all.len();
            match in_order(rank) {
                None => last.extend(&before),
                Some(_) if before.is_empty() => {
                    let is_here = |command: &Command| own[command.rank] == rank;
                    last.extend(all.iter().rposition(is_here).filter(|_| rank != own[teller]));
                }
                Some(_) => last.extend((rank != own[teller]).then_some(index)),
            }
            let waits = if in_order(rank).is_some() { before } else { Vec::new() };
            all.push(Command { rank, what: What::End, waits });
        }
        Self { all, last, scratch }
    }
}

/// The state of a call while it is enqueued.
struct Run<'a, 'b> {
    call: &'a Call<'b>,
    scratch: Vec<Vec<Arc<Memory>>>,
    operator: Option<Ready<'a>>,
}

/// Objects that operations in a context keep for later ones.
#[derive(Default)]
pub struct ScratchCache {
    operators: Operators,
    spare: Spare,
}

impl std::fmt::Debug for ScratchCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.operators.fmt(f)
    }
}

/// Enqueues a collective operation. The call blocks only for the compiler, when data of a type is first combined. The
/// event belongs to the first rank's queue, and `command` is its CL_COMMAND_*.
///
/// # Errors
/// CL_INVALID_OPERATION where a device does not have the type, what comes of building kernels, [`crate::SERVER_LOST`].
pub fn enqueue(call: &Call<'_>, scratch_cache: &ScratchCache, command: u32, order: Order<'_>) -> Result<Enqueued> {
    let Some(by_home) = call.by_home() else { return enqueue_for(call, 0, scratch_cache, command, order) };
    let Reordered { operation, queues, sources, targets, first } = &by_home;
    let call = Call { operation: *operation, queues, sources, targets, ..*call };
    enqueue_for(&call, *first, scratch_cache, command, order)
}

/// As [`enqueue`], with the event on the queue of the rank `teller`.
fn enqueue_for(
    call: &Call<'_>,
    teller: usize,
    scratch_cache: &ScratchCache,
    command: u32,
    order: Order<'_>,
) -> Result<Enqueued> {
    let job = call.job();
    let schedule = job.schedule(&Tuning::default());
    let operator = call.operator.map(|operator| scratch_cache.operators.ready(&operator, call.queues)).transpose()?;
    let Commands { all, last, scratch: used } = Commands::new(call, &job, &schedule, !order.waits.is_empty(), teller);
    let mut needed = vec![false; all.len()];
    let awaited = all.iter().flat_map(|command| &command.waits).chain(last.iter().filter(|_| order.wants_event));
    awaited.chain(used.iter().flatten().flatten()).for_each(|&at| needed[at] = true);
    let take = |(queue, slots): (&Arc<Queue>, &Vec<u64>)| {
        slots.iter().map(|&size| scratch_cache.spare.take(queue, size)).collect::<Result<Vec<_>>>()
    };
    let scratch = call.queues.iter().zip(&schedule.scratch).map(take).collect::<Result<_>>()?;
    let run = Run { call, scratch, operator };
    let mut events: Vec<Enqueued> = vec![None; all.len()];
    for (index, Command { rank, what, waits }) in all.iter().enumerate() {
        let queue = &call.queues[*rank];
        let waits: Vec<&Event> = waits.iter().filter_map(|&wait| events[wait].as_deref()).collect();
        let step = Order { waits: &waits, wants_event: needed[index] };
        events[index] = match what {
            What::Begin if needed[index] || !order.waits.is_empty() => {
                queue.enqueue_marker(Order { waits: order.waits, wants_event: needed[index] })?
            }
            What::End if !waits.is_empty() => queue.enqueue_marker(step)?,
            What::Begin | What::End => None,
            What::Step(what) => run.step(queue, what, step)?,
        };
    }
    let event = match order.wants_event {
        true => {
            let waits: Vec<&Event> = last.iter().filter_map(|&at| events[at].as_deref()).collect();
            call.queues[teller].enqueue_marker_as(Order { waits: &waits, wants_event: true }, command)?
        }
        false => None,
    };
    for ((queue, slots), used) in call.queues.iter().zip(run.scratch).zip(used) {
        for (memory, until) in slots.into_iter().zip(used) {
            scratch_cache.spare.give(memory, queue, until.into_iter().filter_map(|at| events[at].clone()).collect());
        }
    }
    // Commands on different queues wait for each other: whichever of them somebody waits for, all must run.
    if call.queues.iter().any(|queue| !Arc::ptr_eq(queue, &call.queues[0])) {
        call.queues.iter().try_for_each(|queue| queue.flush())?;
    }
    Ok(event)
}

impl Run<'_, '_> {
    fn slot(&self, rank: usize, slot: usize) -> Result<&Arc<Memory>> {
        let memory = self.scratch.get(rank).and_then(|slots| slots.get(slot));
        memory.ok_or(CL_OUT_OF_RESOURCES)
    }

    fn memory(&self, at: At) -> Result<(&Memory, usize)> {
        let offset = usize::try_from(at.offset).map_err(|_| CL_OUT_OF_RESOURCES)?;
        match at.place {
            Place::Scratch(slot) => Ok((self.slot(at.rank, slot)?, offset)),
            _ => self.call.piece(at).map(|piece| (piece.memory, piece.offset + offset)).ok_or(CL_OUT_OF_RESOURCES),
        }
    }

    fn step(&self, queue: &Arc<Queue>, step: &Step, order: Order<'_>) -> Result<Enqueued> {
        match *step {
            Step::Copy { from, to, size } => {
                queue.enqueue_copy(self.memory(from)?, self.memory(to)?, size as usize, order)
            }
            Step::Combine { rank, left, right, out, size } => {
                let operator = self.operator.as_ref().ok_or(CL_OUT_OF_RESOURCES)?;
                let memory = (self.slot(rank, left)?, self.slot(rank, right)?, self.slot(rank, out)?);
                operator.launch((rank, queue), memory, size, order)
            }
            Step::Identity { to, size } => {
                let (memory, offset) = self.memory(to)?;
                match self.operator.as_ref().and_then(Ready::identity) {
                    Some(value) => queue.enqueue_fill(memory, &value, offset, size as usize, order),
                    None if order.wants_event => queue.enqueue_marker(order),
                    None => Ok(None),
                }
            }
        }
    }
}

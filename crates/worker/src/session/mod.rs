//! The state of a session, as the one thread that reads commands sees it.

mod alarm;
pub mod common;
pub mod job;
pub mod team;

use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use ropeway_abi as cl;
use ropeway_protocol::content::ContentHash;
use ropeway_protocol::ids::{
    CommandBufferId, ContextId, DeviceQueueId, EventId, KernelId, MemoryId, ProgramId, QueueId, SamplerId, SemaphoreId,
    TransferId,
};
use ropeway_protocol::limits;
use ropeway_protocol::types::{Command, EventList, Status};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use self::common::Common;
use self::job::Job;
use crate::base::budget::Budget;
use crate::base::error::{End, unknown};
use crate::native::{self, Waits};
use crate::notify::news::News;
use crate::objects::command_buffer::CommandBuffer;
use crate::objects::semaphore::Semaphore;
use crate::objects::{Cell, Cells, Context, DeviceQueue, Kernel, Memory, Program, Queue};
use crate::rendezvous::transfer::Gate;
use crate::warmup::Warm;

/// A queue and what only the reader of commands needs of it.
pub struct Lane {
    /// What other threads see.
    pub queue: Arc<Queue>,
    /// Memory of small writes.
    pub staging: native::Staging,
    /// The last barrier of an out-of-order queue.
    pub barrier: Option<native::Event>,
}

/// Queues and events: what every command needs.
#[derive(Default)]
pub struct Lanes {
    /// The queues.
    pub queues: FxHashMap<QueueId, Lane>,
    /// The events whose names the client still uses.
    pub events: FxHashMap<EventId, Arc<Cell>>,
    /// Whether a user event was ever set to an error.
    pub failures: Arc<AtomicBool>,
    /// Queues on which something was enqueued since they were flushed.
    dirty: SmallVec<[Arc<Queue>; 4]>,
    /// From how many bytes on that are held for what is not finished it is looked which of them the device is done with.
    reclaim_from: usize,
}

/// A transfer from the client that is not over.
pub struct Incoming {
    /// Where the bytes go.
    pub gate: Arc<Gate>,
    /// How many have come.
    pub received: u64,
    /// The buffer whose first contents they are; no command is about them then.
    pub initial: Option<MemoryId>,
}

/// Program contents of which not all pieces have come.
pub struct Arriving {
    /// How many bytes they are, as their first piece says.
    pub total: u64,
    /// Those that have come.
    pub bytes: Vec<u8>,
}

/// Something natively under way that somebody should wait for: whoever has nothing else to do, or else a callback.
pub enum Deferred {
    /// A small read.
    Read(Arc<Cell>),
    /// A transfer that may not begin yet.
    Gate(Arc<Gate>),
}

/// Hands each message to the session's method that bears its name (`serve`). It is a type of its own, so that a message without such a method does
/// not compile.
pub struct Handlers<'a>(pub &'a mut Session);

/// The session.
pub struct Session {
    /// Shared with the other threads.
    pub common: Arc<Common>,
    /// Platforms, devices, warm contexts.
    pub warm: Warm,
    /// Bytes of device memory that the session may take.
    pub memory_quota: Option<u64>,
    /// Contexts.
    pub contexts: FxHashMap<ContextId, Arc<Context>>,
    /// Queues and events.
    pub lanes: Lanes,
    /// Queues on the device.
    pub device_queues: FxHashMap<DeviceQueueId, Arc<DeviceQueue>>,
    /// Memory objects of all kinds.
    pub memory: FxHashMap<MemoryId, Arc<Memory>>,
    /// Bytes that they take of the quota.
    pub memory_bytes: u64,
    /// Objects that the client has released but others may still use, with the bytes that they take of the quota.
    pub lingering: Vec<(Weak<native::Memory>, u64)>,
    /// Programs.
    pub programs: FxHashMap<ProgramId, Arc<Program>>,
    /// Kernels.
    pub kernels: FxHashMap<KernelId, Kernel>,
    /// Samplers.
    pub samplers: FxHashMap<SamplerId, Arc<Result<native::Sampler, Status>>>,
    /// Command buffers.
    pub command_buffers: FxHashMap<CommandBufferId, CommandBuffer>,
    /// Commands that they hold.
    pub recorded: usize,
    /// Semaphores.
    pub semaphores: FxHashMap<SemaphoreId, Semaphore>,
    /// User events, which are also among the events.
    pub user_events: FxHashMap<EventId, native::UserEvent>,
    /// Transfers from the client.
    pub incoming: FxHashMap<TransferId, Incoming>,
    /// Program contents of which not all pieces have come.
    pub contents: FxHashMap<ContentHash, Arriving>,
    /// What the last handler wants done.
    pub job: Option<Job>,
    /// What nobody waits for yet.
    pub deferred: SmallVec<[Deferred; 4]>,
}

/// Threads that wait where no call of the client's does, at the most: calls that wait need some, too. Callbacks tell of what is more than that.
const MOST_UNASKED: usize = 8;

impl Session {
    /// A session without objects.
    pub fn new(common: Arc<Common>, warm: Warm, memory_quota: Option<u64>) -> Self {
        let lanes = Lanes { failures: common.peers.services.failures.clone(), ..Lanes::default() };
        Self {
            common,
            warm,
            memory_quota,
            contexts: FxHashMap::default(),
            lanes,
            device_queues: FxHashMap::default(),
            memory: FxHashMap::default(),
            memory_bytes: 0,
            lingering: Vec::new(),
            programs: FxHashMap::default(),
            kernels: FxHashMap::default(),
            samplers: FxHashMap::default(),
            command_buffers: FxHashMap::default(),
            recorded: 0,
            semaphores: FxHashMap::default(),
            user_events: FxHashMap::default(),
            incoming: FxHashMap::default(),
            contents: FxHashMap::default(),
            job: None,
            deferred: SmallVec::new(),
        }
    }

    /// Adds an object under a name that must be new.
    ///
    /// # Errors
    /// The name is taken, or the session has too many objects.
    pub fn claim<K: Eq + std::hash::Hash + Copy + std::fmt::Display, V>(
        total: usize,
        map: &mut FxHashMap<K, V>,
        id: K,
        value: V,
    ) -> Result<(), End> {
        if total >= limits::MAX_OBJECTS {
            return Err(End::refused(format_args!("more than {} objects", limits::MAX_OBJECTS)));
        }
        match map.entry(id) {
            Entry::Occupied(_) => Err(End::refused(format_args!("{id} exists already"))),
            Entry::Vacant(place) => {
                place.insert(value);
                Ok(())
            }
        }
    }

    /// A memory object.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn memory(&self, id: MemoryId) -> Result<&Arc<Memory>, End> {
        self.memory.get(&id).ok_or_else(|| unknown(id))
    }

    /// Whether the session's quota has room for `bytes` more.
    pub fn has_room_for(&mut self, bytes: u64) -> bool {
        let gone = |(native, _): &mut (Weak<native::Memory>, u64)| native.strong_count() == 0;
        let freed: u64 = self.lingering.extract_if(.., gone).map(|(_, charged)| charged).sum();
        self.memory_bytes = self.memory_bytes.saturating_sub(freed);
        let within = |quota: u64| self.memory_bytes.checked_add(bytes).is_some_and(|all| all <= quota);
        self.memory_quota.is_none_or(within)
    }

    /// Adds a memory object, and counts what it takes.
    ///
    /// # Errors
    /// As [`Session::claim`].
    pub fn claim_memory(&mut self, id: MemoryId, memory: Arc<Memory>) -> Result<(), End> {
        let charged = memory.charged;
        Self::claim(self.objects(), &mut self.memory, id, memory)?;
        self.memory_bytes = self.memory_bytes.saturating_add(charged);
        Ok(())
    }

    /// How many objects there are.
    pub fn objects(&self) -> usize {
        self.contexts.len()
            + self.lanes.queues.len()
            + self.device_queues.len()
            + self.lanes.events.len()
            + self.memory.len()
            + self.programs.len()
            + self.kernels.len()
            + self.samplers.len()
            + self.command_buffers.len()
            + self.recorded
            + self.semaphores.len()
    }

    /// A context.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn context(&self, id: ContextId) -> Result<&Arc<Context>, End> {
        self.contexts.get(&id).ok_or_else(|| unknown(id))
    }

    /// Whether there is something that somebody may be waiting for, to be done when no command is left to read.
    pub fn owes_anything(&self) -> bool {
        !self.deferred.is_empty() || self.common.client.outgoing.any_left()
    }

    /// What to do when no command is left to read: what somebody may be waiting for.
    pub fn idle_job(&mut self) -> Option<Job> {
        let spare = self.common.unasked.load(Ordering::Acquire) < MOST_UNASKED;
        let deferred = if spare { self.deferred.pop() } else { None };
        self.common.unasked.fetch_add(deferred.is_some().into(), Ordering::AcqRel);
        let job = match deferred {
            Some(Deferred::Read(cell)) => Some(Job::Deliver(cell)),
            Some(Deferred::Gate(gate)) => Some(Job::Begin(gate)),
            None => self.common.client.outgoing.any_left().then_some(Job::SendNotes),
        };
        // One thread can wait for one thing only.
        self.demote(|_| false);
        job
    }

    /// Leaves everything deferred to callbacks, but for what `covered` says the next job sees to.
    pub fn demote(&mut self, covered: impl Fn(&Deferred) -> bool) {
        for deferred in self.deferred.drain(..) {
            if covered(&deferred) {
                continue;
            }
            let reporter = self.common.reporter.clone();
            let (event, turn, news): (_, _, News) = match deferred {
                Deferred::Read(cell) => {
                    if !cell.owes() {
                        continue;
                    }
                    let (event, turn) = (cell.native.clone(), cell.turn);
                    (event, turn, Box::new(move || reporter.tell_of(&[cell])))
                }
                Deferred::Gate(gate) => (gate.may_begin.clone(), None, Box::new(move || gate.begin(&reporter))),
            };
            self.common.notifier.watch(event, turn, news);
        }
    }

    /// Puts off waiting for a read or a transfer until there is nothing else to do.
    pub fn defer(&mut self, deferred: Deferred) {
        // Earlier ones are told of when they end; the latest is what a caller is likely to wait for.
        self.demote(|_| false);
        self.deferred.push(deferred);
    }
}

impl Lanes {
    /// Enqueues a command: gathers what it waits for, lets `enqueue` do it, and takes note of its event or its failure.
    ///
    /// # Errors
    /// The client named a queue or event that does not exist, or `enqueue` ends the session.
    pub fn enqueue(
        &mut self,
        total: usize,
        command: &Command,
        enqueue: impl FnOnce(&mut Lane, &Waits<'_>, bool) -> Result<Result<Option<native::Event>, Status>, End>,
    ) -> Result<(), End> {
        let lane = self.queues.get_mut(&command.queue).ok_or_else(|| unknown(command.queue))?;
        let waits = gather(&self.events, &command.waits, self.failures.load(Ordering::Relaxed))?;
        let outcome = match waits {
            Ok(waits) => enqueue(lane, &waits, command.event.is_some())?,
            Err(status) => Err(status),
        };
        let queue = &lane.queue;
        if !queue.dirty.swap(true, Ordering::Relaxed) {
            self.dirty.push(queue.clone());
        }
        match (command.event, outcome) {
            (Some(id), Ok(event)) => {
                let cell = Arc::new(Cell::new(Some(id), event, Some(queue.clone()), None));
                queue.push(cell.clone());
                Session::claim(total, &mut self.events, id, cell)
            }
            (None, Ok(_)) => Ok(()),
            (event, Err(status)) => {
                let queue = queue.clone();
                self.fail(total, event, status, &queue)
            }
        }
    }

    /// Takes note of a command that came to nothing.
    ///
    /// # Errors
    /// As [`Session::claim`].
    pub fn fail(
        &mut self,
        total: usize,
        event: Option<EventId>,
        status: Status,
        queue: &Arc<Queue>,
    ) -> Result<(), End> {
        let Some(id) = event else {
            // An error of what it waited for is told with that.
            if status != cl::CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST {
                queue.note_error(status);
            }
            return Ok(());
        };
        let cell = Arc::new(Cell::failed(id, status, Some(queue.clone())));
        queue.push(cell.clone());
        Session::claim(total, &mut self.events, id, cell)
    }

    /// Lets go of what small writes that have ended still hold, on all queues, once half of the limit is taken: a queue that is used no more would
    /// keep its part of it otherwise.
    pub fn reclaim(&mut self, staged: &Budget) {
        let (taken, half) = (staged.taken(), staged.most() / 2);
        if taken < half.max(self.reclaim_from) {
            self.reclaim_from = self.reclaim_from.min(taken + half / 8);
            return;
        }
        for Lane { queue, staging, .. } in self.queues.values_mut() {
            staging.let_go();
            if let Ok(native) = &queue.native
                && staging.retire(native).is_ok_and(|retired| retired)
                && let Err(status) = native.flush()
            {
                queue.note_error(status);
            }
        }
        // What is held by then is likely to have ended.
        self.reclaim_from = staged.taken() + half / 8;
    }

    /// A command's lane.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn lane(&mut self, id: QueueId) -> Result<&mut Lane, End> {
        self.queues.get_mut(&id).ok_or_else(|| unknown(id))
    }

    /// Takes note that something was enqueued on `queue`.
    pub fn touch(&mut self, queue: &Arc<Queue>) {
        if !queue.dirty.swap(true, Ordering::Relaxed) {
            self.dirty.push(queue.clone());
        }
    }

    /// Whether a user event was ever set to an error.
    pub fn may_have_failed(&self) -> bool {
        self.failures.load(Ordering::Relaxed)
    }

    /// Whether something is to be flushed.
    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Hands to the devices what was enqueued, but for `except`, which is about to be finished.
    pub fn flush(&mut self, except: Option<&Arc<Queue>>) {
        for queue in self.dirty.drain(..) {
            queue.dirty.store(false, Ordering::Relaxed);
            if except.is_none_or(|except| !Arc::ptr_eq(except, &queue))
                && let Ok(native) = &queue.native
                && let Err(status) = native.flush()
            {
                queue.note_error(status);
            }
        }
    }

    /// The cells of these events.
    ///
    /// # Errors
    /// One of them does not exist.
    pub fn cells(&self, list: &EventList) -> Result<Cells, End> {
        list.0.iter().map(|id| self.events.get(id).cloned().ok_or_else(|| unknown(id))).collect()
    }
}

/// The native events of a wait list. The inner error is for a list with an event that has no native one, as its command
/// came to nothing; and, where there can be such (`failures`), for one that has failed: PoCL 3.1 never ends a command that
/// begins to wait for it then.
///
/// # Errors
/// One of them does not exist.
pub fn gather<'a>(
    events: &'a FxHashMap<EventId, Arc<Cell>>,
    list: &EventList,
    failures: bool,
) -> Result<Result<Waits<'a>, Status>, End> {
    let mut waits = Waits::none();
    let mut failed = false;
    for id in &list.0 {
        let cell = events.get(id).ok_or_else(|| unknown(id))?;
        match &cell.native {
            Some(event) if failures && event.status() < 0 => failed = true,
            Some(event) => waits.push(event),
            None => failed = true,
        }
    }
    Ok(if failed { Err(cl::CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST) } else { Ok(waits) })
}

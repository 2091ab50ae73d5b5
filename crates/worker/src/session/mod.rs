//! The state of a session, as the one thread that reads commands sees it.

pub mod common;
pub mod job;
pub mod team;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use ropeway_protocol::content::ContentHash;
use ropeway_protocol::ids::{
    CommandBufferId, ContextId, DeviceQueueId, EventId, KernelId, MemoryId, ProgramId, SamplerId, SemaphoreId,
};
use ropeway_protocol::types::Status;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use self::common::Common;
use self::job::Job;
use crate::base::error::{End, unknown};
use crate::native;
use crate::notify::notification::Notification;
use crate::objects::command_buffer::CommandBuffer;
use crate::objects::semaphore::Semaphore;
use crate::objects::{Cell, Context, DeviceQueue, Kernel, Memory, Program};
use crate::queue_states::{QueueStates, claim};
use crate::rendezvous::incoming::Incomings;
use crate::rendezvous::transfer::Rendezvous;
use crate::warmup::Warm;

/// Program contents of which not all pieces have come.
pub struct Arriving {
    /// How many bytes they are, as their first piece says.
    pub total: u64,
    /// Those that have come.
    pub bytes: Vec<u8>,
}

/// Native work under way that somebody should wait for: an idle thread, or else a callback.
pub enum Deferred {
    /// A small read.
    Read(Arc<Cell>),
    /// A transfer that may not begin yet.
    Rendezvous(Arc<Rendezvous>),
}

/// Hands each message to the session's method that bears its name (`serve`). It is a type of its own, so that a message
/// without such a method does not compile.
pub struct Handlers<'a>(pub &'a mut Session);

/// The session.
pub struct Session {
    /// Shared with the other threads.
    pub common: Arc<Common>,
    /// Platforms, devices, warm contexts.
    pub warm: Warm,
    /// Contexts.
    pub contexts: FxHashMap<ContextId, Arc<Context>>,
    /// Queues and events.
    pub queue_states: QueueStates,
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
    pub incoming: Incomings,
    /// Program contents of which not all pieces have come.
    pub contents: FxHashMap<ContentHash, Arriving>,
    /// The job that the last handler asked for.
    pub job: Option<Job>,
    /// Jobs that nobody waits for yet.
    pub deferred: SmallVec<[Deferred; 4]>,
}

/// Limit on the threads that wait where no call of the client's does: calls that wait need threads, too. Callbacks
/// report whatever exceeds the limit.
const MOST_UNASKED: usize = 8;

impl Session {
    /// A session without objects.
    pub fn new(common: Arc<Common>, warm: Warm) -> Self {
        let queue_states = QueueStates::new(common.peers.services.failures.clone(), common.limits.clone());
        Self {
            common,
            warm,
            contexts: FxHashMap::default(),
            queue_states,
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
            incoming: Incomings::default(),
            contents: FxHashMap::default(),
            job: None,
            deferred: SmallVec::new(),
        }
    }

    /// A memory object.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn memory(&self, id: MemoryId) -> Result<&Arc<Memory>, End> {
        self.memory.get(&id).ok_or_else(|| unknown(id))
    }

    /// Checks whether the session may have one more memory object, which takes `bytes` of its quota.
    ///
    /// # Errors
    /// The status with which the object cannot be made: it is more than the session may have.
    pub fn allow_memory(&mut self, bytes: u64) -> Result<(), Status> {
        self.allow_object()?;
        let gone = |(native, _): &mut (Weak<native::Memory>, u64)| native.strong_count() == 0;
        let freed: u64 = self.lingering.extract_if(.., gone).map(|(_, charged)| charged).sum();
        self.memory_bytes = self.memory_bytes.saturating_sub(freed);
        self.common.limits.has_memory(self.memory_bytes);
        self.common.limits.allow_memory(self.memory_bytes, bytes)
    }

    /// Checks whether the session may have one more object.
    ///
    /// # Errors
    /// The status with which the object cannot be made.
    pub fn allow_object(&self) -> Result<(), Status> {
        self.common.limits.allow_object(self.objects())
    }

    /// Adds a memory object, and counts what it takes.
    ///
    /// # Errors
    /// As [`Session::claim`].
    pub fn claim_memory(&mut self, id: MemoryId, memory: Arc<Memory>) -> Result<(), End> {
        let charged = memory.charged;
        claim(self.objects(), &mut self.memory, id, memory)?;
        self.memory_bytes = self.memory_bytes.saturating_add(charged);
        self.common.limits.has_memory(self.memory_bytes);
        self.common.peak_memory.fetch_max(self.memory_bytes, Ordering::Relaxed);
        Ok(())
    }

    /// How many objects there are.
    pub fn objects(&self) -> usize {
        self.contexts.len()
            + self.queue_states.queues.len()
            + self.device_queues.len()
            + self.queue_states.events.len()
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

    /// Checks the work that the client has had the worker put off, and the output that the client has not read, against
    /// their bounds.
    ///
    /// # Errors
    /// It is more than that: the session ends before it takes all of the machine's memory.
    pub fn check_bounds(&self) -> Result<(), End> {
        if self.common.client.outgoing.is_too_much_left() {
            return Err(End::refused("more commands that fail, while it reads nothing, than is kept for it"));
        }
        if self.common.notifier.post.is_overrun() {
            return Err(End::refused("more events at the same time whose ends it wants to be told or passed on"));
        }
        Ok(())
    }

    /// Whether there is work that somebody may be waiting for, to be done when no command is left to read.
    pub fn owes_anything(&self) -> bool {
        !self.deferred.is_empty() || self.common.client.outgoing.any_left()
    }

    /// Returns the job to do when no command is left to read: work that somebody may be waiting for.
    pub fn idle_job(&mut self) -> Option<Job> {
        let spare = self.common.unasked.load(Ordering::Acquire) < MOST_UNASKED;
        let deferred = if spare { self.deferred.pop() } else { None };
        self.common.unasked.fetch_add(deferred.is_some().into(), Ordering::AcqRel);
        let job = match deferred {
            Some(Deferred::Read(cell)) => Some(Job::Deliver(cell)),
            Some(Deferred::Rendezvous(rendezvous)) => Some(Job::Begin(rendezvous)),
            None => self.common.client.outgoing.any_left().then_some(Job::SendNotes),
        };
        // One thread can wait for one thing only.
        self.demote(|_| false);
        job
    }

    /// Leaves all deferred work to callbacks, except what the next job covers, as `covered` says.
    pub fn demote(&mut self, covered: impl Fn(&Deferred) -> bool) {
        for deferred in self.deferred.drain(..) {
            if covered(&deferred) {
                continue;
            }
            let reporter = self.common.reporter.clone();
            let (event, turn, notification): (_, _, Notification) = match deferred {
                Deferred::Read(cell) => {
                    if !cell.owes() {
                        continue;
                    }
                    let (event, turn) = (cell.native.clone(), cell.turn);
                    (event, turn, Box::new(move || reporter.tell_of(&[cell])))
                }
                Deferred::Rendezvous(rendezvous) => {
                    (rendezvous.may_begin.clone(), None, Box::new(move || rendezvous.begin(&reporter)))
                }
            };
            self.common.notifier.watch(event, turn, notification);
        }
    }

    /// Puts off waiting for a read or a transfer until there is nothing else to do.
    pub fn defer(&mut self, deferred: Deferred) {
        // Callbacks report the end of earlier ones; the latest is the one that a caller is likely to wait for.
        self.demote(|_| false);
        self.deferred.push(deferred);
    }
}

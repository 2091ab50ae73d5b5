//! The session's objects, as several threads share them.
//!
//! An object that could not be made natively is kept with the reason, so that what uses it fails with the same.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ropeway_abi as cl;
use ropeway_protocol::ids::{EventId, TransferId};
use ropeway_protocol::image::ImageDescription;
use ropeway_protocol::types::{ArgKind, EventDone, Status};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::error::End;
use crate::native;
use crate::peers::{Ahead, ahead};
use crate::session::unknown;
use crate::transfer::Direction;
use crate::waiters::{Line, Turn};

/// Locks whatever a panicking thread left: the session is ending then anyway.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A context.
pub struct Context {
    /// The native one.
    pub native: Result<native::Context, Status>,
    /// Its devices, with their index in the platform.
    pub devices: Vec<(u32, native::Device)>,
    /// Whether transfers go straight to and from mapped buffers; otherwise through rings of pinned memory.
    pub maps: bool,
    /// The queue that large transfers go over, made when first needed.
    transfers: OnceLock<Result<Arc<native::Queue>, Status>>,
    /// The queue on which frees of shared virtual memory wait, made when first needed: what waits there holds up nothing else.
    frees: OnceLock<Result<Arc<native::Queue>, Status>>,
    /// Pinned memory for small reads, made when first needed; `None` where it does not help or cannot be had.
    pool: OnceLock<Option<Arc<native::PinnedPool>>>,
    /// Whether small writes can be enqueued before their bytes are there.
    takes_bytes_late: OnceLock<bool>,
    /// Pinned memory for data from the client.
    pub ring_in: Mutex<Option<native::Ring>>,
    /// Pinned memory for data to the client.
    pub ring_out: Mutex<Option<native::Ring>>,
    /// The queue that what goes to peers is read over, made when first needed.
    pushes: OnceLock<Result<Arc<native::Queue>, Status>>,
    /// The queue on which small reads and writes for peers wait, each for itself; an error where the device has no such queues.
    small_pushes: OnceLock<Result<Arc<native::Queue>, Status>>,
    /// Small writes that have their bytes and may not have ended.
    pub landing: Mutex<Vec<native::AwaitedWrite>>,
    /// Pinned memory for data from peers, and for data to them, that nobody uses now.
    spare_rings: [Mutex<Vec<native::Ring>>; 2],
    /// Whether there ever was shared virtual memory.
    pub has_svm: AtomicBool,
    /// Of queues that were released: when all that was enqueued on them has ended.
    pub queue_ends: Mutex<Vec<native::Event>>,
    /// Those of its devices that are parts of others. They must outlive all the rest, so they come last.
    pub parts: Vec<Arc<native::SubDevice>>,
}

impl Context {
    /// A context of `devices`.
    pub fn new(
        native: Result<native::Context, Status>,
        devices: Vec<(u32, native::Device)>,
        force_pinned: bool,
    ) -> Self {
        let maps = !force_pinned && devices.iter().all(|(_, device)| device.shares_host_memory());
        Self {
            native,
            devices,
            maps,
            transfers: OnceLock::new(),
            frees: OnceLock::new(),
            pool: OnceLock::new(),
            takes_bytes_late: OnceLock::new(),
            ring_in: Mutex::default(),
            ring_out: Mutex::default(),
            pushes: OnceLock::new(),
            small_pushes: OnceLock::new(),
            landing: Mutex::default(),
            spare_rings: Default::default(),
            has_svm: AtomicBool::new(false),
            queue_ends: Mutex::default(),
            parts: Vec::new(),
        }
    }

    /// The device of this index.
    ///
    /// # Errors
    /// The context has none.
    pub fn device(&self, index: u32) -> Result<native::Device, End> {
        let found = self.devices.iter().find(|(of, _)| *of == index);
        found.map(|(_, device)| *device).ok_or_else(|| unknown(format_args!("device {index}")))
    }

    /// The queue that large transfers go over.
    ///
    /// # Errors
    /// What making it came to.
    pub fn transfer_queue(&self) -> Result<&Arc<native::Queue>, Status> {
        self.own_queue(&self.transfers, 0)
    }

    /// The queue on which frees of shared virtual memory wait.
    ///
    /// # Errors
    /// What making it came to.
    pub fn free_queue(&self) -> Result<&Arc<native::Queue>, Status> {
        self.own_queue(&self.frees, 0)
    }

    /// The queue that what goes to peers is read over.
    ///
    /// # Errors
    /// What making it came to.
    pub fn push_queue(&self) -> Result<&Arc<native::Queue>, Status> {
        self.own_queue(&self.pushes, 0)
    }

    /// The queue on which small reads and writes for peers wait, each for itself. Only devices that share the host's memory have one: elsewhere
    /// such a queue may run its commands in their order all the same, and one that waits would hold up all others.
    ///
    /// # Errors
    /// There is none.
    pub fn small_push_queue(&self) -> Result<&Arc<native::Queue>, Status> {
        if !self.maps {
            return Err(cl::CL_INVALID_QUEUE_PROPERTIES);
        }
        self.own_queue(&self.small_pushes, cl::CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
    }

    /// Does something with a ring of pinned memory for data from peers (`Direction::In`) or to them, which is the caller's alone meanwhile.
    ///
    /// # Errors
    /// What making the ring, or `work`, came to.
    pub fn with_own_ring<R>(
        &self,
        direction: Direction,
        work: impl FnOnce(&mut native::Ring) -> Result<R, Status>,
    ) -> Result<R, Status> {
        let (spare, queue) = match direction {
            Direction::In => (&self.spare_rings[0], self.transfer_queue()?),
            Direction::Out => (&self.spare_rings[1], self.push_queue()?),
        };
        let ring = lock(spare).pop();
        let mut ring = match ring {
            Some(ring) => ring,
            None => native::Ring::new(self.native.as_ref().map_err(|status| *status)?, queue)?,
        };
        let outcome = work(&mut ring);
        lock(spare).push(ring);
        outcome
    }

    fn own_queue<'a>(
        &self,
        place: &'a OnceLock<Result<Arc<native::Queue>, Status>>,
        properties: u64,
    ) -> Result<&'a Arc<native::Queue>, Status> {
        let queue = place.get_or_init(|| {
            let (_, device) = *self.devices.first().ok_or(cl::CL_INVALID_CONTEXT)?;
            native::Queue::new(self.native.as_ref().map_err(|s| *s)?, device, properties).map(Arc::new)
        });
        queue.as_ref().map_err(|status| *status)
    }

    /// Pinned memory for small reads. Without it, they go to ordinary memory.
    pub fn pool(&self) -> Option<&Arc<native::PinnedPool>> {
        if self.maps {
            return None;
        }
        let make = || native::PinnedPool::new(self.native.as_ref().ok()?, self.transfer_queue().ok()?).ok();
        self.pool.get_or_init(make).as_ref()
    }

    /// Whether small writes can be enqueued before their bytes are there; found out when first asked.
    pub fn takes_bytes_late(&self) -> bool {
        *self.takes_bytes_late.get_or_init(|| ahead::takes_bytes_late(self).unwrap_or(false))
    }

    /// Does something with one of the rings, which is made if need be.
    ///
    /// # Errors
    /// What making the ring, or `work`, came to.
    pub fn with_ring<R>(
        &self,
        ring: &Mutex<Option<native::Ring>>,
        work: impl FnOnce(&mut native::Ring) -> Result<R, Status>,
    ) -> Result<R, Status> {
        let mut ring = lock(ring);
        let ring = match &mut *ring {
            Some(ring) => ring,
            none => {
                none.insert(native::Ring::new(self.native.as_ref().map_err(|status| *status)?, self.transfer_queue()?)?)
            }
        };
        work(ring)
    }
}

/// A memory object.
pub struct Memory {
    /// The native one.
    pub native: Result<Arc<native::Memory>, Status>,
    /// Its context.
    pub context: Arc<Context>,
    /// What it is.
    pub kind: MemoryKind,
    /// How many bytes of the session's quota it takes.
    pub charged: u64,
}

/// What a memory object is, as the client said when it made it.
#[derive(Clone, Copy, Debug)]
pub enum MemoryKind {
    /// A buffer of so many bytes.
    Buffer(u64),
    /// An image like this.
    Image(ImageDescription),
    /// A pipe.
    Pipe,
}

impl Memory {
    /// The size in bytes of a buffer; `None` for what is none.
    pub fn buffer_size(&self) -> Option<u64> {
        match self.kind {
            MemoryKind::Buffer(size) => Some(size),
            MemoryKind::Image(_) | MemoryKind::Pipe => None,
        }
    }

    /// All of its bytes; `None` where they are too many to count, or out of reach.
    pub fn whole(&self) -> Option<native::Part> {
        Some(match &self.kind {
            MemoryKind::Buffer(size) => native::Part::Bytes { offset: 0, size: *size },
            MemoryKind::Image(like) => native::Part::Image { part: like.whole(), size: like.bytes()? },
            MemoryKind::Pipe => return None,
        })
    }

    /// What an image is like; `None` for what is none.
    pub fn image(&self) -> Option<&ImageDescription> {
        match &self.kind {
            MemoryKind::Image(like) => Some(like),
            MemoryKind::Buffer(_) | MemoryKind::Pipe => None,
        }
    }
}

/// An object that is a kernel's argument.
#[derive(Clone)]
pub enum Held {
    /// A memory object.
    Memory(Arc<Memory>),
    /// A sampler, if it could be made.
    Sampler(Arc<Result<native::Sampler, Status>>),
}

impl Held {
    /// The memory object that it is.
    pub fn memory(&self) -> Option<&Memory> {
        match self {
            Self::Memory(memory) => Some(memory),
            Self::Sampler(_) => None,
        }
    }
}

/// A kernel.
pub struct Kernel {
    /// The native one.
    pub native: Result<native::Kernel, Status>,
    /// Its program's context.
    pub context: Arc<Context>,
    /// What each argument takes.
    pub kinds: Arc<[ArgKind]>,
    /// What arguments were last set to: it must live as long as a launch may use it.
    pub held: Vec<Option<Held>>,
    /// Arguments that could not be set, and why: launches fail with it.
    pub unusable: SmallVec<[(u32, Status); 1]>,
}

/// A command queue.
pub struct Queue {
    /// The native one.
    pub native: Result<native::Queue, Status>,
    /// Its context.
    pub context: Arc<Context>,
    /// Its device.
    pub device: native::Device,
    /// Whether commands run in the order they are enqueued.
    pub in_order: bool,
    /// Whether events have times.
    pub profiling: bool,
    /// Commands whose end (or data) the client has not been told, in order.
    pub pending: Mutex<VecDeque<Arc<Cell>>>,
    /// The first error of a command without an event, since the client was last told; 0 for none.
    pub first_error: AtomicI32,
    /// Whether something was enqueued since the last flush.
    pub dirty: AtomicBool,
    /// The places of its commands.
    pub line: Line,
    /// The queues beside it.
    pub ahead: Ahead,
}

impl Queue {
    /// Takes note of a command whose end the client wants to hear of.
    pub fn push(&self, cell: Arc<Cell>) {
        let mut pending = lock(&self.pending);
        // Events that the client no longer wants gather only while nobody waits on the queue.
        if pending.len() == pending.capacity() && pending.len() >= 1024 {
            pending.retain(|cell| !cell.settled());
        }
        pending.push_back(cell);
    }

    /// Keeps the first error of a command without an event.
    pub fn note_error(&self, status: Status) {
        let _ = self.first_error.compare_exchange(0, status, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// A small read whose data the client is still to get.
pub struct OwedRead {
    /// Its transfer.
    pub transfer: TransferId,
    /// Memory and event.
    pub read: native::StagedRead,
}

/// What is known of a command that the client waits for: of its event, of the data it reads, or both.
pub struct Cell {
    /// The client's name for the event, if it has one.
    pub id: Option<EventId>,
    /// The native event; `None` when the command could not be enqueued.
    pub native: Option<native::Event>,
    /// The native event that says when a gated transfer could begin; its times are the command's first ones.
    pub began: Option<native::Event>,
    /// The native event of the first of several native commands; its times, but for the end, are the command's.
    pub first: Option<native::Event>,
    /// The queue; `None` for user events.
    pub queue: Option<Arc<Queue>>,
    /// Its place in the queue, if that runs its commands in order.
    pub turn: Option<Turn>,
    /// An error found by the worker, which outweighs what the native event says; 0 for none.
    failure: AtomicI32,
    /// Whether the client was told of the end, or no longer wants to hear of it.
    told: AtomicBool,
    /// Data that the client is still to get.
    owed: Mutex<Option<OwedRead>>,
    owes: AtomicBool,
}

impl Cell {
    /// A command with an event, data to come, or both.
    pub fn new(
        id: Option<EventId>,
        native: Option<native::Event>,
        queue: Option<Arc<Queue>>,
        owed: Option<OwedRead>,
    ) -> Self {
        Self {
            id,
            native,
            began: None,
            first: None,
            turn: queue.as_ref().filter(|queue| queue.in_order).map(|queue| queue.line.turn()),
            queue,
            failure: AtomicI32::new(0),
            told: AtomicBool::new(id.is_none()),
            owes: AtomicBool::new(owed.is_some()),
            owed: Mutex::new(owed),
        }
    }

    /// A command that came to nothing.
    pub fn failed(id: EventId, status: Status, queue: Option<Arc<Queue>>) -> Self {
        let cell = Self::new(Some(id), None, queue, None);
        cell.fail(status);
        cell
    }

    /// Lets the command end with an error of the worker's.
    pub fn fail(&self, status: Status) {
        self.failure.store(status, Ordering::Release);
    }

    /// The error found by the worker; 0 for none.
    pub fn failure(&self) -> Status {
        self.failure.load(Ordering::Acquire)
    }

    /// The execution status: more than 0 while it has not ended.
    pub fn status(&self) -> Status {
        match (self.failure(), &self.native) {
            (0, Some(event)) => event.status(),
            // A gated command that failed has ended only when its native event has, or commands would overtake it.
            (failure, Some(event)) if event.ended() => failure,
            (_, Some(event)) => event.status(),
            (failure, None) => failure,
        }
    }

    /// Whether the client has all that it is to get from this.
    pub fn settled(&self) -> bool {
        self.told.load(Ordering::Acquire) && !self.owes.load(Ordering::Acquire)
    }

    /// The client no longer wants to hear of the event.
    pub fn silence(&self) {
        self.told.store(true, Ordering::Release);
    }

    /// Whether data are still owed.
    pub fn owes(&self) -> bool {
        self.owes.load(Ordering::Acquire)
    }

    /// The data owed, once.
    pub fn take_owed(&self) -> Option<OwedRead> {
        let owed = lock(&self.owed).take();
        self.owes.store(false, Ordering::Release);
        owed
    }

    /// What to tell the client of the event, once.
    pub fn tell(&self, status: Status) -> Option<EventDone> {
        let event = self.id?;
        if self.told.swap(true, Ordering::AcqRel) {
            return None;
        }
        let profiling = self.queue.as_ref().is_some_and(|queue| queue.profiling);
        let times = if profiling && status == cl::CL_COMPLETE { self.times() } else { None };
        Some(EventDone { event, status, times })
    }

    fn times(&self) -> Option<[u64; 5]> {
        let native = self.native.as_ref()?;
        let first = self.began.as_ref().or(self.first.as_ref()).unwrap_or(native);
        let end = native.time(cl::CL_PROFILING_COMMAND_END).ok()?;
        let start = match &self.began {
            Some(began) => began.time(cl::CL_PROFILING_COMMAND_END),
            None => first.time(cl::CL_PROFILING_COMMAND_START),
        };
        Some([
            first.time(cl::CL_PROFILING_COMMAND_QUEUED).ok()?,
            first.time(cl::CL_PROFILING_COMMAND_SUBMIT).ok()?,
            start.ok()?,
            end,
            native.time(cl::CL_PROFILING_COMMAND_COMPLETE).unwrap_or(end),
        ])
    }
}

/// A program. Its lock is held while it is built.
pub struct Program {
    /// Its context.
    pub context: Arc<Context>,
    /// What becomes of it.
    pub state: Mutex<ProgramState>,
}

/// What has become of a program so far.
#[derive(Default)]
pub struct ProgramState {
    /// The native program, once its contents were there.
    pub native: Option<Result<native::Program, Status>>,
    /// Its source, by name.
    pub source: Option<ropeway_protocol::content::ContentHash>,
    /// The texts that it was made of, sources or binaries, by name; those of its inputs, where it was linked.
    pub texts: Vec<ropeway_protocol::content::ContentHash>,
    /// What its kernels may be called, where the driver must not be asked ([`crate::names`]).
    pub names: Option<Arc<[String]>>,
    /// What the arguments of each kernel take.
    pub kernels: FxHashMap<String, Arc<[ArgKind]>>,
}

/// The cells of a wait list.
pub type Cells = SmallVec<[Arc<Cell>; 4]>;

//! Contexts.

use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};

use ropeway_abi as cl;
use ropeway_protocol::types::Status;
use ropeway_transport::Arena;

use crate::base::error::{End, unknown};
use crate::base::lock::lock;
use crate::native;

/// Which way the bytes of a transfer go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Into a memory object.
    In,
    /// From a memory object.
    Out,
}

/// The most windows of a context: 32 MiB in all. What finds none goes through a ring.
const MOST_WINDOWS: usize = 4;

/// A context.
pub struct Context {
    /// The native one.
    pub native: Result<native::Context, Status>,
    /// Its devices, with their index in the platform.
    pub devices: Vec<(u32, native::Device)>,
    /// Whether transfers use mapped buffers directly; otherwise they go through rings of pinned memory.
    pub maps: bool,
    /// Whether all its devices use a buffer's memory where it is, so that it may as well be shared with the client.
    pub in_place: bool,
    /// Whether they use the pages at the addresses of shared virtual memory, whatever pages those are: so these may be shared
    /// as well.
    pub svm_in_place: bool,
    /// The queue that large transfers go over, made when first needed.
    transfers: OnceLock<Result<Arc<native::Queue>, Status>>,
    /// The queue on which frees of shared virtual memory wait, made when first needed, so that a waiting free holds up
    /// nothing else.
    frees: OnceLock<Result<Arc<native::Queue>, Status>>,
    /// Pinned memory for small reads, made when first needed; `None` where it does not help or cannot be had.
    pool: OnceLock<Option<Arc<native::PinnedPool>>>,
    /// Whether small writes can be enqueued before their bytes are there.
    pub takes_bytes_late: OnceLock<bool>,
    /// Pinned memory for data from the client.
    pub ring_in: Mutex<Option<native::Ring>>,
    /// Pinned memory for data to the client.
    pub ring_out: Mutex<Option<native::Ring>>,
    /// The queue that reads data for peers, made when first needed.
    pushes: OnceLock<Result<Arc<native::Queue>, Status>>,
    /// The queue over which data from peers is copied, made when first needed.
    arrivals: OnceLock<Result<Arc<native::Queue>, Status>>,
    /// The queue on which small reads and writes for peers wait, independently of each other; an error if the device
    /// has no such queues.
    small_pushes: OnceLock<Result<Arc<native::Queue>, Status>>,
    /// Small writes that have their bytes and may not have ended.
    pub landing: Mutex<Vec<native::AwaitedWrite>>,
    /// Unused rings of pinned memory, for data from peers and for data to them.
    spare_rings: [Mutex<Vec<native::Ring>>; 2],
    /// Windows that the client looks through, which are in no use, and how many there are in all.
    windows: Mutex<(Vec<native::Window>, usize)>,
    /// Slots that the client fills and empties, once it has asked for them; `None` where transfers need none, or there can be none.
    slots: OnceLock<Option<native::Slots>>,
    /// Ranges of memory that is shared with peers.
    pinned_ranges: Mutex<Vec<Arc<native::PinnedRange>>>,
    /// Whether there ever was shared virtual memory.
    pub has_svm: AtomicBool,
    /// Events that say when all commands of released queues have ended.
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
        let pinned = |device: &native::Device| force_pinned && device.device_type() & cl::CL_DEVICE_TYPE_CUSTOM == 0;
        let maps = devices.iter().all(|(_, device)| device.shares_host_memory() && !pinned(device));
        Self {
            native,
            devices,
            maps,
            in_place: false,
            svm_in_place: false,
            transfers: OnceLock::new(),
            frees: OnceLock::new(),
            pool: OnceLock::new(),
            takes_bytes_late: OnceLock::new(),
            ring_in: Mutex::default(),
            ring_out: Mutex::default(),
            pushes: OnceLock::new(),
            arrivals: OnceLock::new(),
            small_pushes: OnceLock::new(),
            landing: Mutex::default(),
            spare_rings: Default::default(),
            windows: Mutex::default(),
            slots: OnceLock::new(),
            pinned_ranges: Mutex::default(),
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
    /// The status of the native call that creates it.
    pub fn transfer_queue(&self) -> Result<&Arc<native::Queue>, Status> {
        self.own_queue(&self.transfers, 0)
    }

    /// The queue on which frees of shared virtual memory wait.
    ///
    /// # Errors
    /// The status of the native call that creates it.
    pub fn free_queue(&self) -> Result<&Arc<native::Queue>, Status> {
        self.own_queue(&self.frees, 0)
    }

    /// Returns the queue that reads data for peers.
    ///
    /// # Errors
    /// The status of the native call that creates it.
    pub fn push_queue(&self) -> Result<&Arc<native::Queue>, Status> {
        if self.maps { self.own_queue(&self.pushes, 0) } else { self.queue_of_copies(&self.pushes) }
    }

    /// Returns the queue over which data from peers goes.
    ///
    /// # Errors
    /// The status of the native call that creates it.
    pub fn arrival_queue(&self) -> Result<&Arc<native::Queue>, Status> {
        if self.maps { self.transfer_queue() } else { self.queue_of_copies(&self.arrivals) }
    }

    /// Returns the queue on which small reads and writes for peers wait, independently of each other. Only devices that
    /// share the host's memory have one: other devices may run the commands of such a queue in order all the same, and
    /// one that waits would hold up all others.
    ///
    /// # Errors
    /// There is none.
    pub fn small_push_queue(&self) -> Result<&Arc<native::Queue>, Status> {
        if !self.maps {
            return Err(cl::CL_INVALID_QUEUE_PROPERTIES);
        }
        self.own_queue(&self.small_pushes, cl::CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
    }

    /// Runs a closure with exclusive use of a ring of pinned memory for data from peers (`Direction::In`) or to them.
    ///
    /// # Errors
    /// The status of creating the ring, or of `work`.
    pub fn with_own_ring<R>(
        &self,
        direction: Direction,
        work: impl FnOnce(&mut native::Ring) -> Result<R, Status>,
    ) -> Result<R, Status> {
        let (spare, queue) = match direction {
            Direction::In => (&self.spare_rings[0], self.arrival_queue()?),
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

    /// A window in `storage` for one transfer, to be put back when that is over. `None` where all are in use, there is no
    /// memory for one, or transfers need none.
    pub fn take_window(&self, storage: &Arc<native::SharedStorage>) -> Option<native::Window> {
        if self.maps {
            return None;
        }
        let mut windows = lock(&self.windows);
        let (spare, made) = &mut *windows;
        if let Some(window) = spare.pop() {
            return Some(window);
        }
        if *made == MOST_WINDOWS {
            return None;
        }
        let window = native::Window::new(self.native.as_ref().ok()?, self.transfer_queue().ok()?, storage).ok()?;
        *made += 1;
        Some(window)
    }

    /// Puts a window back.
    pub fn put_window(&self, window: native::Window) {
        lock(&self.windows).0.push(window);
    }

    /// Slots in `storage`, which are made when the client first asks for them.
    pub fn open_slots(&self, storage: &Arc<native::SharedStorage>) -> Option<&native::Slots> {
        let make = || native::Slots::new(self.native.as_ref().ok()?, self.transfer_queue().ok()?, storage).ok();
        self.slots.get_or_init(|| if self.maps { None } else { make() }).as_ref()
    }

    /// The slots, if the client has asked for them and there are any.
    pub fn slots(&self) -> Option<&native::Slots> {
        self.slots.get()?.as_ref()
    }

    /// These bytes of memory that is shared with a peer, for what comes from it and goes to it. `None` where transfers need
    /// none, or there can be none.
    pub fn pinned_range(&self, arena: &Arc<Arena>, range: &Range<u64>) -> Option<Arc<native::PinnedRange>> {
        if self.maps {
            return None;
        }
        let mut ranges = lock(&self.pinned_ranges);
        if let Some(made) = ranges.iter().find(|made| made.is_in(arena) && made.range() == range) {
            return Some(made.clone());
        }
        let (reads, writes) = (self.push_queue().ok()?.clone(), self.arrival_queue().ok()?.clone());
        let queues = native::Queues { reads, writes };
        let made = native::PinnedRange::new(self.native.as_ref().ok()?, queues, arena, range.clone()).ok()?;
        let made = Arc::new(made);
        ranges.push(made.clone());
        Some(made)
    }

    /// How many ranges of memory that is shared with peers it has.
    #[cfg(test)]
    pub fn pinned_ranges(&self) -> usize {
        lock(&self.pinned_ranges).len()
    }

    /// Gives up the ranges of memory that is shared no more.
    pub fn unpin(&self, arena: &Arc<Arena>) {
        lock(&self.pinned_ranges).retain(|range| !range.is_in(arena));
    }

    fn own_queue<'a>(
        &self,
        place: &'a OnceLock<Result<Arc<native::Queue>, Status>>,
        properties: u64,
    ) -> Result<&'a Arc<native::Queue>, Status> {
        self.queue_made_by(place, |context, device| native::Queue::new(context, device, properties))
    }

    /// A queue of copies between a device and memory that the host shares with peers: many at once, each of which somebody
    /// waits for.
    fn queue_of_copies<'a>(
        &self,
        place: &'a OnceLock<Result<Arc<native::Queue>, Status>>,
    ) -> Result<&'a Arc<native::Queue>, Status> {
        self.queue_made_by(place, native::Queue::with_a_waiter)
    }

    fn queue_made_by<'a>(
        &self,
        place: &'a OnceLock<Result<Arc<native::Queue>, Status>>,
        make: impl FnOnce(&native::Context, native::Device) -> Result<native::Queue, Status>,
    ) -> Result<&'a Arc<native::Queue>, Status> {
        let queue = place.get_or_init(|| {
            let (_, device) = *self.devices.first().ok_or(cl::CL_INVALID_CONTEXT)?;
            make(self.native.as_ref().map_err(|s| *s)?, device).map(Arc::new)
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

    /// Does something with one of the rings, which is made if need be.
    ///
    /// # Errors
    /// The status of creating the ring, or of `work`.
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

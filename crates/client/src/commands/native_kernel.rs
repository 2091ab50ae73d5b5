//! Functions of the application that run in the order of a queue (clEnqueueNativeKernel).
//!
//! They run in this process. The contents of the memory objects that they use are read before and written back after; a
//! user event holds up the queue's later commands until then.

use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ropeway_abi::{CL_COMMAND_NATIVE_KERNEL, CL_COMPLETE, CL_MEM_READ_ONLY, CL_OUT_OF_HOST_MEMORY};

use crate::base::host::HostRange;
use crate::base::region::Region;
use crate::base::status::{Result, Status};
use crate::base::sync::lock;
use crate::base::threads;
use crate::commands::command::{Enqueued, Order};
use crate::objects::event::Event;
use crate::objects::memory::Memory;
use crate::objects::part::Part;
use crate::objects::queue::Queue;

/// A buffer that a native kernel uses, and the memory where it finds the buffer's contents.
pub type Used = (Arc<Memory>, Arc<dyn HostRange>);

/// A function that is to run once everything before it has ended.
struct Pending {
    /// Events that have not ended.
    left: AtomicUsize,
    /// The error that one of them ended with; 0 for none.
    failure: AtomicI32,
    run: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// Set when the function has returned.
    gate: Arc<Event>,
}

impl Pending {
    /// Notes that one of the events has ended; after the last one, runs the function.
    fn one_ended(self: Arc<Self>, status: Status) {
        if status < 0 {
            self.failure.store(status, Ordering::Release);
        }
        if self.left.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let Some(run) = lock(&self.run).take() else { return };
        let failure = self.failure.load(Ordering::Acquire);
        if failure < 0 {
            let _ = self.gate.set_status(failure);
            return;
        }
        // Not on the thread of callbacks, which it may wait for.
        let gate = Arc::clone(&self.gate);
        let thread = std::thread::Builder::new().name("ropeway-native".into());
        let work = move || {
            run();
            // A lost server has ended it already.
            let _ = gate.set_status(CL_COMPLETE);
        };
        let started = threads::start(|| thread.spawn(work));
        if started.is_err() {
            let _ = self.gate.set_status(CL_OUT_OF_HOST_MEMORY);
        }
    }
}

impl Queue {
    /// Enqueues a function of the application. It runs on a thread of its own when its turn has come, and finds the
    /// contents of the buffers in `used` in the memory beside them.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn enqueue_native_kernel(
        self: &Arc<Self>,
        used: Vec<Used>,
        run: Box<dyn FnOnce() + Send>,
        order: Order<'_>,
    ) -> Result<Enqueued> {
        const COMMAND: u32 = CL_COMMAND_NATIVE_KERNEL;
        let before = Order { wants_event: true, ..order };
        let mut ready = Vec::new();
        if used.is_empty() {
            ready.extend(self.enqueue_marker_as(before, COMMAND)?);
        }
        for (memory, place) in &used {
            let target = Arc::clone(place).target(0, Region::flat(memory.size()));
            ready.extend(self.enqueue_read(Part::Bytes(memory, 0), target, false, before, COMMAND)?);
        }
        let gate = Event::user(self.context())?;
        let after = Order { waits: &[&*gate], wants_event: true };
        let mut written = Vec::new();
        for (memory, place) in used.iter().filter(|(memory, _)| memory.flags() & CL_MEM_READ_ONLY == 0) {
            // The bytes are taken once the user event is complete.
            let source = Arc::clone(place).source(0, Region::flat(memory.size()));
            written.extend(self.enqueue_write(Part::Bytes(memory, 0), source, false, after, COMMAND)?);
        }
        let mut waits: Vec<&Event> = written.iter().map(|event| &**event).collect();
        waits.push(&gate);
        let event = self.enqueue_marker_as(Order { waits: &waits, wants_event: order.wants_event }, COMMAND)?;
        let pending = Arc::new(Pending {
            left: AtomicUsize::new(ready.len()),
            failure: AtomicI32::new(0),
            run: Mutex::new(Some(Box::new(move || {
                run();
                drop(used);
            }))),
            gate: Arc::clone(&gate),
        });
        for event in ready {
            // An event that nobody holds receives no notifications: the callback holds it until it is called.
            let (pending, held) = (Arc::clone(&pending), Arc::clone(&event));
            let ended = move |status| {
                drop(held);
                pending.one_ended(status);
            };
            event.on_status(CL_COMPLETE, Box::new(ended));
        }
        Ok(event)
    }
}

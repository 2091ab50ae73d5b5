//! Command queues.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex};

use ropeway_protocol::types::Status;

use super::beside::PreEnqueued;
use super::context::Context;
use super::event::Cell;
use crate::base::lock::lock;
use crate::base::order::Sequence;
use crate::native;
use crate::turns::{DeviceTurns, Launch};
use crate::usage::QueueUsage;

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
    /// Whether a marker was seen to say when it was queued. Some implementations' markers do not.
    pub markers_timed: AtomicBool,
    /// Commands whose end (or data) the client has not been told, in order.
    pub pending: Mutex<VecDeque<Arc<Cell>>>,
    /// The first error of a command without an event, since the client was last told; 0 for none.
    pub first_error: AtomicI32,
    /// Whether something was enqueued since the last flush.
    pub dirty: AtomicBool,
    /// The places of its commands.
    pub line: Sequence,
    /// What it takes of its device.
    pub usage: QueueUsage,
    /// Whose turn it is on its device, if sessions share that by weight.
    pub turns: Option<Arc<DeviceTurns>>,
    /// The extra queues next to it.
    pub pre_enqueue: PreEnqueued,
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

    /// Where launches on this queue have to wait for their turn, and its native context.
    ///
    /// # Errors
    /// There is no native context.
    #[inline]
    pub fn in_turns(&self) -> Result<Option<(&Arc<DeviceTurns>, &native::Context)>, Status> {
        let Some(turns) = self.turns.as_ref().filter(|turns| !turns.is_open()) else { return Ok(None) };
        Ok(Some((turns, self.context.native.as_ref().map_err(|status| *status)?)))
    }

    /// A launch on this queue, of no kind in particular.
    pub fn launch(&self) -> Launch {
        let native = self.native.as_ref().map_or(0, native::Queue::address);
        Launch { kind: 0, queue: self.in_order.then_some(native) }
    }

    /// Keeps the first error of a command without an event.
    pub fn note_error(&self, status: Status) {
        let _ = self.first_error.compare_exchange(0, status, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// A command queue on the device.
pub struct DeviceQueue {
    /// The native one.
    pub native: native::DeviceQueue,
    /// Its context.
    pub context: Arc<Context>,
    /// Its device.
    pub device: native::Device,
}

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

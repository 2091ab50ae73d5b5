//! Finds out that queues are idle which nobody waits for, so that no time is counted in which nothing runs.
//!
//! A thread looks every 20 ms while a device is busy. A queue that is busy and has got no command since the last look gets
//! a marker, and the next look asks whether that has ended. A queue that gets commands all the time gets one seldom: with
//! NVIDIA's driver, a marker from another thread every 20 ms made small kernels a tenth slower.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread;

use ropeway_protocol::types::Status;

use crate::base::lock::lock;
use crate::native::{Event, Waits};
use crate::objects::Queue;
use crate::usage::{LOOK, Usage};

/// After so many looks at idle devices, the thread sleeps: who becomes busy again has to wake it.
const PATIENCE: u32 = 25;

/// After so many looks, a queue that gets commands all the time gets a marker, too: it may be idle in between.
const SELDOM: u32 = 10;

/// What the looks at a queue have left.
#[derive(Default)]
struct Looked {
    /// A marker behind so many commands.
    marker: Option<(u64, Event)>,
    /// How many commands there were at the last look.
    count: u64,
    /// Looks since there was a marker.
    looks: u32,
}

/// A queue that is looked at.
struct Seen {
    queue: Weak<Queue>,
    /// The queue itself, if the client has released it and its commands have not ended.
    kept: Option<Arc<Queue>>,
    looked: Arc<Mutex<Looked>>,
}

/// The queues that are looked at. Nobody waits for a driver while this is locked: the client makes and releases queues.
#[derive(Default)]
pub struct Idle(Mutex<Vec<Seen>>);

impl Idle {
    /// Looks at `queue` from now on.
    pub fn add(&self, queue: &Arc<Queue>) {
        let seen = Seen { queue: Arc::downgrade(queue), kept: None, looked: Arc::default() };
        lock(&self.0).push(seen);
    }

    /// Keeps a queue that the client has released until its commands have ended.
    pub fn outlive(&self, queue: &Arc<Queue>) {
        let mut all = lock(&self.0);
        let seen = all.iter_mut().find(|seen| std::ptr::eq(seen.queue.as_ptr(), Arc::as_ptr(queue)));
        if let Some(seen) = seen.filter(|_| queue.usage.is_busy()) {
            seen.kept = Some(queue.clone());
        }
    }

    /// Events behind all that was enqueued on a device and is not known to have ended.
    pub fn markers(&self, device: usize) -> Vec<Event> {
        let queues: Vec<_> = lock(&self.0).iter().filter_map(|seen| seen.queue.upgrade()).collect();
        let is_busy = |queue: &Queue| queue.usage.is_busy() || queue.dirty.load(Ordering::Relaxed);
        let busy = queues.iter().filter(|queue| queue.usage.device() == Some(device) && is_busy(queue));
        busy.filter_map(|queue| mark(queue).ok().flatten()).collect()
    }

    /// Looks until the session is over, first a [`LOOK`] after a device has become busy.
    pub fn look(&self, usage: &Usage, is_over: &AtomicBool) {
        let mut idle = 0;
        while !is_over.load(Ordering::Relaxed) {
            self.look_at_all();
            usage.add_up();
            idle = if usage.is_busy() { 0 } else { idle + 1 };
            if idle < PATIENCE {
                thread::sleep(LOOK);
            } else {
                usage.sleep();
                idle = 0;
            }
        }
    }

    fn look_at_all(&self) {
        let mut all: Vec<(Arc<Queue>, Arc<Mutex<Looked>>)> = Vec::new();
        lock(&self.0).retain(|seen| {
            let queue = seen.queue.upgrade();
            all.extend(queue.map(|queue| (queue, seen.looked.clone())));
            seen.queue.strong_count() > 0
        });
        all.iter().for_each(|(queue, looked)| look(queue, &mut lock(looked)));
        // The last owner of a queue releases it, which may take a driver long.
        let is_over = |seen: &&mut Seen| seen.kept.as_ref().is_some_and(|queue| !queue.usage.is_busy());
        let released: Vec<_> = lock(&self.0).iter_mut().filter(is_over).filter_map(|seen| seen.kept.take()).collect();
        drop(released);
    }
}

/// Puts a marker behind all that was enqueued.
fn mark(queue: &Queue) -> Result<Option<Event>, Status> {
    let native = queue.native.as_ref().map_err(|status| *status)?;
    let marker = native.marker(&Waits::none(), true)?;
    native.flush().map(|()| marker)
}

/// Finds out whether what was handed over up to an earlier look has ended.
fn look(queue: &Queue, looked: &mut Looked) {
    if let Some((count, marker)) = &looked.marker {
        if !marker.ended() {
            return;
        }
        queue.usage.ended(*count);
        looked.marker = None;
    }
    if !queue.usage.is_busy() {
        return;
    }
    // In this order: the marker is behind all commands that are counted.
    let count = queue.line.len();
    looked.looks += 1;
    if count != std::mem::replace(&mut looked.count, count) && looked.looks < SELDOM {
        return;
    }
    looked.looks = 0;
    match mark(queue) {
        Ok(marker) => looked.marker = marker.map(|marker| (count, marker)),
        // A queue that takes no commands runs none.
        Err(_) => queue.usage.ended(count),
    }
}

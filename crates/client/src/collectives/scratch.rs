//! Scratch memory of earlier operations, kept for later ones, because some devices are slow at allocating and freeing.

use std::sync::{Arc, Mutex};

use ropeway_abi::{CL_MEM_READ_WRITE, CL_OUT_OF_RESOURCES};

use crate::base::status::Result;
use crate::base::sync::lock;
use crate::objects::device::Device;
use crate::objects::event::Event;
use crate::objects::memory::Memory;
use crate::objects::queue::Queue;

/// The most bytes that are kept for each device.
const MOST_KEPT: usize = 64 << 20;

/// Memory that was used.
struct Used {
    memory: Arc<Memory>,
    /// The device of the rank that used it.
    device: Arc<Device>,
    /// The commands that may still use it.
    until: Vec<Arc<Event>>,
}

/// The scratch memory that a context keeps.
#[derive(Default)]
pub(super) struct Spare(Mutex<Vec<Used>>);

impl Spare {
    /// Memory of `size` bytes for a rank: some that nobody uses any more, as far as is known here, or new one.
    pub(super) fn take(&self, queue: &Queue, size: u64) -> Result<Arc<Memory>> {
        let size = usize::try_from(size).map_err(|_| CL_OUT_OF_RESOURCES)?;
        let fits = |used: &Used| {
            used.memory.size() == size
                && Arc::ptr_eq(&used.device, queue.device())
                && used.until.iter().all(|event| event.is_over())
        };
        let mut kept = lock(&self.0);
        // A command fails as soon as one that it waits for has, while others of these may still use the memory.
        kept.retain(|used| !used.until.iter().any(|event| event.has_failed()));
        if let Some(at) = kept.iter().position(fits) {
            return Ok(kept.remove(at).memory);
        }
        drop(kept);
        Memory::buffer(queue.context(), CL_MEM_READ_WRITE, size, None, None)
    }

    /// Keeps memory that is free once these commands have ended. Memory beyond the limit is released, the oldest first;
    /// a server frees it when nothing uses it any more.
    pub(super) fn give(&self, memory: Arc<Memory>, queue: &Queue, until: Vec<Arc<Event>>) {
        let mut kept = lock(&self.0);
        let device = queue.device();
        kept.push(Used { memory, device: Arc::clone(device), until });
        let here = |used: &&Used| Arc::ptr_eq(&used.device, device);
        let mut too_much =
            kept.iter().filter(here).map(|used| used.memory.size()).sum::<usize>().saturating_sub(MOST_KEPT);
        kept.retain(|used| {
            let goes = too_much > 0 && here(&used);
            too_much = too_much.saturating_sub(if goes { used.memory.size() } else { 0 });
            !goes
        });
    }
}

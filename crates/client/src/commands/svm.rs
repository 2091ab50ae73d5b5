//! Commands on shared virtual memory.

use std::sync::Arc;

use ropeway_abi::{
    CL_COMMAND_SVM_FREE, CL_COMMAND_SVM_MAP, CL_COMMAND_SVM_MEMCPY, CL_COMMAND_SVM_MEMFILL, CL_COMMAND_SVM_MIGRATE_MEM,
    CL_COMMAND_SVM_UNMAP, CL_COMPLETE, CL_INVALID_VALUE, CL_MAP_READ, CL_MAP_WRITE, CL_MAP_WRITE_INVALIDATE_REGION,
};

use crate::base::host::{HostSource, HostTarget};
use crate::base::region;
use crate::base::status::{Result, SERVER_LOST};
use crate::base::sync::lock;
use crate::commands::command::{Enqueued, Order};
use crate::objects::event::{Event, wait_for_all};
use crate::objects::memory::Memory;
use crate::objects::part::Part;
use crate::objects::queue::Queue;
use crate::objects::svm::Mapped;
pub use crate::objects::svm::Region;

/// Where a command on plain addresses reads: in shared memory, or in the application's own.
pub enum Source {
    /// In shared memory.
    Svm(Region),
    /// In the application's own.
    Host(Box<dyn HostSource>),
}

/// Where it writes.
pub enum Target {
    /// Into shared memory.
    Svm(Region),
    /// Into the application's own.
    Host(Box<dyn HostTarget>),
}

impl Queue {
    /// Maps a region (clEnqueueSVMMap). If `blocking`, its bytes are here when this returns.
    ///
    /// # Errors
    /// The command's error if blocking, [`crate::SERVER_LOST`].
    pub fn enqueue_svm_map(
        self: &Arc<Self>,
        region: &Region,
        size: usize,
        flags: u64,
        blocking: bool,
        order: Order<'_>,
    ) -> Result<Enqueued> {
        let (allocation, offset) = (region.allocation(), region.offset());
        if allocation.here.is_the_devices() {
            let event = self.enqueue_map_in_place(blocking, order, CL_COMMAND_SVM_MAP)?;
            lock(&allocation.mapped).push(Mapped { offset, len: size, writes: false });
            return Ok(event);
        }
        // A region mapped for writing keeps what the application does not write.
        let event = if flags & (CL_MAP_READ | CL_MAP_WRITE) != 0 {
            let target = Arc::clone(&allocation.here).target(offset, region::Region::flat(size));
            self.enqueue_read(Part::Bytes(&allocation.memory, offset), target, blocking, order, CL_COMMAND_SVM_MAP)?
        } else {
            self.enqueue_svm_nothing(CL_COMMAND_SVM_MAP, blocking, order)?
        };
        let writes = flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION) != 0;
        lock(&allocation.mapped).push(Mapped { offset, len: size, writes });
        Ok(event)
    }

    /// Unmaps what was mapped last at the beginning of `region` (clEnqueueSVMUnmap). As for buffers, nothing is sent but the
    /// event, if it is wanted, where the application has changed nothing, or only the device's own memory.
    ///
    /// # Errors
    /// CL_INVALID_VALUE when nothing is mapped there, [`crate::SERVER_LOST`].
    pub fn enqueue_svm_unmap(self: &Arc<Self>, region: &Region, order: Order<'_>) -> Result<Enqueued> {
        let (allocation, offset) = (region.allocation(), region.offset());
        let mapped = {
            let mut mapped = lock(&allocation.mapped);
            let at = mapped.iter().rposition(|mapped| mapped.offset == offset).ok_or(CL_INVALID_VALUE)?;
            mapped.remove(at)
        };
        if !mapped.writes {
            // It may be all that the application still asks of a server that is lost.
            if self.connection().look_whether_lost() {
                return Err(SERVER_LOST);
            }
            return self.enqueue_unmap_in_place(order, CL_COMMAND_SVM_UNMAP);
        }
        let source = Arc::clone(&allocation.here).source(offset, region::Region::flat(mapped.len));
        self.enqueue_write(Part::Bytes(&allocation.memory, offset), source, false, order, CL_COMMAND_SVM_UNMAP)
    }

    /// Copies `size` bytes between addresses (clEnqueueSVMMemcpy). If `blocking`, that is done when this returns, as
    /// far as the application can tell.
    ///
    /// # Errors
    /// The command's error if blocking, [`crate::SERVER_LOST`].
    pub fn enqueue_svm_copy(
        self: &Arc<Self>,
        target: Target,
        source: Source,
        size: usize,
        blocking: bool,
        order: Order<'_>,
    ) -> Result<Enqueued> {
        let command = CL_COMMAND_SVM_MEMCPY;
        match (target, source) {
            (Target::Svm(to), Source::Host(from)) => {
                self.enqueue_write(Part::Bytes(to.memory(), to.offset()), from, blocking, order, command)
            }
            (Target::Host(to), Source::Svm(from)) => {
                self.enqueue_read(Part::Bytes(from.memory(), from.offset()), to, blocking, order, command)
            }
            (Target::Svm(to), Source::Svm(from)) => self.blocking(blocking, order, |order| {
                self.enqueue_copy_as((from.memory(), from.offset()), (to.memory(), to.offset()), size, order, command)
            }),
            // The copy goes through a buffer of its own, so that it is ordered among the transfers from and into the
            // same memory.
            (Target::Host(to), Source::Host(from)) => {
                let between = Memory::buffer(self.context(), 0, size, None, None)?;
                let first = Order { wants_event: true, ..order };
                let written = self.enqueue_write(Part::Bytes(&between, 0), from, false, first, command)?;
                let waits: Vec<_> = written.as_deref().into_iter().collect();
                let then = Order { waits: &waits, wants_event: order.wants_event };
                self.enqueue_read(Part::Bytes(&between, 0), to, blocking, then, command)
            }
        }
    }

    /// Enqueues a command, a CL_COMMAND_*, that has nothing to copy or to fill.
    ///
    /// # Errors
    /// As [`Queue::enqueue_svm_copy`].
    pub fn enqueue_svm_nothing(self: &Arc<Self>, command: u32, blocking: bool, order: Order<'_>) -> Result<Enqueued> {
        self.blocking(blocking, order, |order| self.enqueue_marker_as(order, command))
    }

    /// Fills `size` bytes with a pattern (clEnqueueSVMMemFill).
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn enqueue_svm_fill(
        self: &Arc<Self>,
        region: &Region,
        pattern: &[u8],
        size: usize,
        order: Order<'_>,
    ) -> Result<Enqueued> {
        self.enqueue_fill_as(region.memory(), pattern, region.offset(), size, order, CL_COMMAND_SVM_MEMFILL)
    }

    /// Hints where regions will be needed next (clEnqueueSVMMigrateMem). The server's memory is where its devices need
    /// it, so the command only takes its place in the queue.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn enqueue_svm_migrate(self: &Arc<Self>, order: Order<'_>) -> Result<Enqueued> {
        self.enqueue_marker_as(order, CL_COMMAND_SVM_MIGRATE_MEM)
    }

    /// Calls `free` on the callback thread when the queue has reached the command (clEnqueueSVMFree), unless something
    /// it waits for has failed. The command ends after `free` has returned if that is `awaited`, else before.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn enqueue_svm_free(
        self: &Arc<Self>,
        free: impl FnOnce() + Send + 'static,
        awaited: bool,
        order: Order<'_>,
    ) -> Result<Enqueued> {
        let reached = self.enqueue_marker_as(Order { wants_event: true, ..order }, CL_COMMAND_SVM_FREE)?;
        // There always is one that was asked for.
        let Some(reached) = reached else { return Ok(None) };
        let (event, freed) = if awaited && order.wants_event {
            let freed = Event::user(self.context())?;
            let waits = [&*freed];
            let event = self.enqueue_marker_as(Order { waits: &waits, wants_event: true }, CL_COMMAND_SVM_FREE)?;
            (event, Some(freed))
        } else {
            (order.wants_event.then(|| Arc::clone(&reached)), None)
        };
        let kept = Arc::clone(&reached);
        reached.on_status(
            CL_COMPLETE,
            Box::new(move |status| {
                if status == CL_COMPLETE {
                    free();
                }
                if let Some(freed) = freed {
                    // A lost server has ended it already.
                    let _ = freed.set_status(status.min(CL_COMPLETE));
                }
                drop(kept);
            }),
        );
        Ok(event)
    }

    fn blocking(
        &self,
        blocking: bool,
        order: Order<'_>,
        enqueue: impl FnOnce(Order<'_>) -> Result<Enqueued>,
    ) -> Result<Enqueued> {
        let wants_event = order.wants_event;
        let event = enqueue(Order { wants_event: wants_event || blocking, ..order })?;
        if blocking {
            let waited: Vec<_> = event.as_deref().into_iter().collect();
            wait_for_all(&waited)?;
        }
        Ok(event.filter(|_| wants_event))
    }
}

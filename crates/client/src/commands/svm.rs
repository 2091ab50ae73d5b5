//! Coarse-grain shared virtual memory: buffers at the same addresses here and at the server.
//!
//! The server allocates, and says where. Memory of this process is put at these very addresses, so that a pointer means the same to the
//! application and to a kernel, also where it is stored in the memory itself. Between a map and its unmap the application uses its
//! copy; what travels is what the map flags need, as for any mapped buffer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ropeway_abi::{
    CL_COMMAND_SVM_FREE, CL_COMMAND_SVM_MAP, CL_COMMAND_SVM_MEMCPY, CL_COMMAND_SVM_MEMFILL, CL_COMMAND_SVM_MIGRATE_MEM,
    CL_COMMAND_SVM_UNMAP, CL_COMPLETE, CL_INVALID_VALUE, CL_MAP_READ, CL_MAP_WRITE, CL_MAP_WRITE_INVALIDATE_REGION,
    CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_MEM_USE_HOST_PTR,
};
use ropeway_protocol::ids::MemoryId;
use ropeway_protocol::messages::SvmAlloc;

use crate::base::host::{HostRange, HostSource, HostTarget, Within};
use crate::base::region;
use crate::base::status::Result;
use crate::base::sync::lock;
use crate::commands::command::{Enqueued, Order};
use crate::commands::transfer;
use crate::objects::context::Context;
use crate::objects::event::{Event, wait_for_all};
use crate::objects::memory::{Description, Kind, Memory};
use crate::objects::queue::Queue;

/// How often the server is asked for memory at addresses that are free here.
const ATTEMPTS: u32 = 16;

/// Ranges of taken addresses that the server is told of.
const MOST_TAKEN: usize = 64;

/// What is free between two taken ranges is taken with them unless it is larger than this.
const GAP: u64 = 16 << 20;

/// How far around an address that was taken others are named.
const AROUND: u64 = 64 << 30;

/// A context's allocations, by their first address.
#[derive(Default)]
pub(crate) struct Allocations(Mutex<BTreeMap<usize, Arc<Allocation>>>);

/// What clSVMAlloc gave.
struct Allocation {
    /// The server's side: a buffer, for its commands.
    memory: Arc<Memory>,
    /// The memory at the same addresses here.
    here: Arc<dyn HostRange>,
    mapped: Mutex<Vec<Mapped>>,
}

/// A mapped part of an allocation.
#[derive(Clone, Copy)]
struct Mapped {
    offset: usize,
    len: usize,
    writes: bool,
}

/// An address in shared memory, and what follows there.
#[derive(Clone)]
pub struct Region {
    allocation: Arc<Allocation>,
    offset: usize,
}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} from {}", self.allocation.memory, self.offset)
    }
}

impl Region {
    /// What it is part of, as a buffer.
    pub(crate) fn memory(&self) -> &Memory {
        &self.allocation.memory
    }

    /// Where in that it begins.
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    /// Its place as messages name it.
    pub(crate) fn place(&self) -> (MemoryId, u64) {
        let memory = self.memory();
        (memory.id(memory.context().first_home()), self.offset as u64)
    }

    /// The same memory here.
    pub(crate) fn host(&self) -> Arc<dyn HostRange> {
        Arc::new(Within { whole: Arc::clone(&self.allocation.here), offset: self.offset })
    }
}

impl Memory {
    /// Whether it was made of a pointer to shared memory (CL_MEM_USES_SVM_POINTER).
    pub fn uses_svm(&self) -> bool {
        let given = self.host_address().filter(|_| self.flags() & CL_MEM_USE_HOST_PTR != 0);
        given.is_some_and(|address| matches!(self.context().svm_region(address, 1), Ok(Some(_))))
    }
}

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

impl Context {
    /// Allocates `size` bytes at an address that is a multiple of `alignment` (0 for the default) and gives the address (clSVMAlloc). `map_at` puts
    /// memory of this process at an address, so many bytes of it, or gives `None` where there is something else.
    ///
    /// # Errors
    /// CL_MEM_OBJECT_ALLOCATION_FAILURE when no address is free on both sides, what the server's call came to, [`crate::SERVER_LOST`].
    pub fn svm_alloc(
        self: &Arc<Self>,
        flags: u64,
        size: usize,
        alignment: u32,
        map_at: impl Fn(usize, usize) -> Option<Arc<dyn HostRange>>,
    ) -> Result<usize> {
        let failure = CL_MEM_OBJECT_ALLOCATION_FAILURE;
        let home = self.needs_one_home("shared virtual memory")?;
        let page = rustix::param::page_size();
        let whole = size.checked_next_multiple_of(page).ok_or(failure)?;
        // What lies where it cannot be used is kept until there is something better, so that it is not offered again.
        let mut rejected = Vec::new();
        let mut taken = Vec::new();
        for attempt in 0..ATTEMPTS {
            let (context, page) = (home.context(), page as u32);
            let description = Description { flags, size, kind: Kind::Buffer, parent: None, host: None };
            let (memory, answer) = Memory::made_by(self, home, description, |memory| {
                let ask = SvmAlloc { memory, context, flags, size: size as u64, alignment, page, attempt, taken };
                home.connection().call(&ask)
            })?;
            let address = usize::try_from(answer).unwrap_or(0);
            // The server is not trusted with addresses, either.
            let sound = address != 0 && address.is_multiple_of((alignment.max(page)) as usize);
            if let Some(here) = if sound { map_at(address, whole) } else { None } {
                let allocation = Allocation { memory, here, mapped: Mutex::default() };
                lock(&self.svm.0).insert(address, Arc::new(allocation));
                return Ok(address);
            }
            crate::debug!("shared virtual memory at {address:#x}: there is something else here");
            rejected.push(memory);
            taken = taken_around(answer, whole as u64);
        }
        Err(failure)
    }

    /// Frees an allocation; the server does so once all that was enqueued before has ended (clSVMFree). `false` where none begins at `address`.
    pub fn svm_free(&self, address: usize) -> bool {
        let freed = lock(&self.svm.0).remove(&address);
        freed.is_some()
    }

    /// The region of `size` bytes from `address`; `None` where that is no shared memory.
    ///
    /// # Errors
    /// CL_INVALID_VALUE for a region that leaves its allocation.
    pub fn svm_region(&self, address: usize, size: usize) -> Result<Option<Region>> {
        let allocations = lock(&self.svm.0);
        let Some((first, allocation)) = allocations.range(..=address).next_back() else { return Ok(None) };
        let (offset, whole) = (address - first, allocation.memory.size());
        // The end of an allocation is an address of it, though no byte: programs pass it on as such.
        if offset > whole || offset == whole && size > 0 {
            return Ok(None);
        }
        let fits = offset.checked_add(size).is_some_and(|end| end <= whole);
        if fits { Ok(Some(Region { allocation: Arc::clone(allocation), offset })) } else { Err(CL_INVALID_VALUE) }
    }
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
        let Region { allocation, offset } = region;
        // A region mapped for writing keeps what the application does not write.
        let event = if flags & (CL_MAP_READ | CL_MAP_WRITE) != 0 {
            let target = Arc::clone(&allocation.here).target(*offset, region::Region::flat(size));
            self.enqueue_read(
                transfer::Part::Bytes(&allocation.memory, *offset),
                target,
                blocking,
                order,
                CL_COMMAND_SVM_MAP,
            )?
        } else {
            self.enqueue_svm_nothing(CL_COMMAND_SVM_MAP, blocking, order)?
        };
        let writes = flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION) != 0;
        lock(&allocation.mapped).push(Mapped { offset: *offset, len: size, writes });
        Ok(event)
    }

    /// Unmaps what was mapped last at the beginning of `region` (clEnqueueSVMUnmap).
    ///
    /// # Errors
    /// CL_INVALID_VALUE when nothing is mapped there, [`crate::SERVER_LOST`].
    pub fn enqueue_svm_unmap(self: &Arc<Self>, region: &Region, order: Order<'_>) -> Result<Enqueued> {
        let Region { allocation, offset } = region;
        let mapped = {
            let mut mapped = lock(&allocation.mapped);
            let at = mapped.iter().rposition(|mapped| mapped.offset == *offset).ok_or(CL_INVALID_VALUE)?;
            mapped.remove(at)
        };
        if !mapped.writes {
            return self.enqueue_marker_as(order, CL_COMMAND_SVM_UNMAP);
        }
        let source = Arc::clone(&allocation.here).source(*offset, region::Region::flat(mapped.len));
        self.enqueue_write(
            transfer::Part::Bytes(&allocation.memory, *offset),
            source,
            false,
            order,
            CL_COMMAND_SVM_UNMAP,
        )
    }

    /// Copies `size` bytes between addresses (clEnqueueSVMMemcpy). If `blocking`, that is done when this returns, as far as the application
    /// can tell.
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
                self.enqueue_write(transfer::Part::Bytes(to.memory(), to.offset), from, blocking, order, command)
            }
            (Target::Host(to), Source::Svm(from)) => {
                self.enqueue_read(transfer::Part::Bytes(from.memory(), from.offset), to, blocking, order, command)
            }
            (Target::Svm(to), Source::Svm(from)) => self.blocking(blocking, order, |order| {
                self.enqueue_copy_as((from.memory(), from.offset), (to.memory(), to.offset), size, order, command)
            }),
            // Through a buffer of its own, so that it has its place among the transfers from and into the same memory.
            (Target::Host(to), Source::Host(from)) => {
                let between = Memory::buffer(self.context(), 0, size, None, None)?;
                let first = Order { wants_event: true, ..order };
                let written = self.enqueue_write(transfer::Part::Bytes(&between, 0), from, false, first, command)?;
                let waits: Vec<_> = written.as_deref().into_iter().collect();
                let then = Order { waits: &waits, wants_event: order.wants_event };
                self.enqueue_read(transfer::Part::Bytes(&between, 0), to, blocking, then, command)
            }
        }
    }

    /// Nothing to copy or to fill: the command that it is all the same, a CL_COMMAND_*.
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
        self.enqueue_fill_as(region.memory(), pattern, region.offset, size, order, CL_COMMAND_SVM_MEMFILL)
    }

    /// Says where regions will be needed next (clEnqueueSVMMigrateMem). The server's memory is where its devices need it; there is no more
    /// to it than its place in the queue.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn enqueue_svm_migrate(self: &Arc<Self>, order: Order<'_>) -> Result<Enqueued> {
        self.enqueue_marker_as(order, CL_COMMAND_SVM_MIGRATE_MEM)
    }

    /// Calls `free` on the thread of callbacks when the queue has come to it (clEnqueueSVMFree); not if something it waits for has failed.
    /// The command has ended when `free` is `awaited` and has returned, or else before that.
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

/// The addresses of this process that are taken around `address`, as the kernel lists them.
fn taken_around(address: u64, len: u64) -> Vec<(u64, u64)> {
    let (from, to) = (address.saturating_sub(AROUND), address.saturating_add(len).saturating_add(AROUND));
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut taken = merge(maps.lines().filter_map(range_of).filter(|(start, end)| *start < to && *end > from));
    // The nearest come first.
    taken.sort_by_key(|(start, len)| start.abs_diff(address).min((start + len).abs_diff(address)));
    taken.truncate(MOST_TAKEN);
    taken
}

/// "start-end ...", in hexadecimal.
fn range_of(line: &str) -> Option<(u64, u64)> {
    let (start, end) = line.split_ascii_whitespace().next()?.split_once('-')?;
    Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
}

/// First addresses and lengths of ranges that come in order, those with small gaps between them as one.
fn merge(ranges: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (start, end) in ranges {
        match merged.last_mut() {
            Some((first, len)) if start.saturating_sub(*first + *len) <= GAP => *len = end.saturating_sub(*first),
            _ => merged.push((start, end.saturating_sub(start))),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_near_each_other_are_one() {
        let lines = ["1000-2000 r-xp 00000000 00:00 0", "4000-9000 rw-p", "nonsense", "80000000-80001000 rw-p [heap]"];
        let merged = merge(lines.into_iter().filter_map(range_of));
        assert_eq!(merged, [(0x1000, 0x8000), (0x8000_0000, 0x1000)]);
    }

    #[test]
    fn this_process_has_taken_its_own_addresses() {
        let here = [0u8; 16];
        let address = here.as_ptr().addr() as u64;
        let taken = taken_around(address, 16);
        assert!(taken.iter().any(|&(start, len)| (start..start + len).contains(&address)), "{taken:x?}");
        assert!(taken.len() <= MOST_TAKEN);
    }
}

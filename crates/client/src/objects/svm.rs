//! Coarse-grain shared virtual memory: buffers at the same addresses here and at the server.
//!
//! The server allocates, and says where. Memory of this process is put at these very addresses, so that a pointer means
//! the same to the application and to a kernel, also where it is stored in the memory itself. Between a map and its
//! unmap the application uses its copy; what travels is what the map flags need, as for any mapped buffer. Where the two
//! share memory and the device takes that, both have the same pages there, and nothing travels.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ropeway_abi::{CL_INVALID_VALUE, CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_MEM_USE_HOST_PTR};
use ropeway_protocol::ids::MemoryId;
use ropeway_protocol::messages::SvmAlloc;

use crate::base::host::{HostRange, Wanted, Within};
use crate::base::status::Result;
use crate::base::sync::lock;
use crate::objects::context::Context;
use crate::objects::kind::Kind;
use crate::objects::memory::{Description, Memory};

/// The most times that the server is asked for memory at addresses that are free here.
const ATTEMPTS: u32 = 16;

/// The most ranges of taken addresses that are reported to the server.
const MOST_TAKEN: usize = 64;

/// A free gap between two taken ranges is reported as taken, too, unless it is larger than this (bytes).
const GAP: u64 = 16 << 20;

/// How far around a taken address other taken ranges are reported.
const AROUND: u64 = 64 << 30;

/// All allocations, by their contexts' names and their first addresses. They are not in their contexts, which know
/// nothing of memory objects; each keeps its context until it is freed.
static ALLOCATIONS: Mutex<BTreeMap<(u64, usize), Arc<Allocation>>> = Mutex::new(BTreeMap::new());

/// An allocation made by clSVMAlloc.
pub(crate) struct Allocation {
    /// The server's side: a buffer, for its commands.
    pub memory: Arc<Memory>,
    /// The memory at the same addresses here.
    pub here: Arc<dyn HostRange>,
    pub mapped: Mutex<Vec<Mapped>>,
}

/// A mapped part of an allocation.
#[derive(Clone, Copy)]
pub(crate) struct Mapped {
    pub offset: usize,
    pub len: usize,
    /// Whether the application may have changed it, and what is here is not the device's own memory.
    pub writes: bool,
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
    /// The allocation, as a buffer.
    pub(crate) fn memory(&self) -> &Memory {
        &self.allocation.memory
    }

    /// Returns its offset in the allocation.
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    /// Its place as messages name it.
    pub(crate) fn place(&self) -> (MemoryId, u64) {
        let memory = self.memory();
        (memory.id(memory.context().first_home()), self.offset as u64)
    }

    /// The allocation that it is part of.
    pub(crate) fn allocation(&self) -> &Allocation {
        &self.allocation
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

impl Context {
    /// Allocates `size` bytes at an address that is a multiple of `alignment` (0 for the default) and returns the
    /// address (clSVMAlloc). `map_at` takes an address, and puts memory of this process there, or returns `None` if something
    /// else is there.
    ///
    /// # Errors
    /// CL_MEM_OBJECT_ALLOCATION_FAILURE when no address is free on both sides, what the server's call came to,
    /// [`crate::SERVER_LOST`].
    pub fn svm_alloc(
        self: &Arc<Self>,
        flags: u64,
        size: usize,
        alignment: u32,
        map_at: impl Fn(usize, Wanted) -> Option<Arc<dyn HostRange>>,
    ) -> Result<usize> {
        let failure = CL_MEM_OBJECT_ALLOCATION_FAILURE;
        let home = self.needs_one_home("shared virtual memory")?;
        let page = rustix::param::page_size();
        let whole = size.checked_next_multiple_of(page).ok_or(failure)?;
        // Allocations at unusable addresses are kept until a usable one is found, so that the server does not offer
        // them again.
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
            let here = if sound { map_at(address, memory.wanted(whole)) } else { None };
            if let Some(here) = here {
                let allocation = Allocation { memory, here, mapped: Mutex::default() };
                lock(&ALLOCATIONS).insert((self.name(), address), Arc::new(allocation));
                return Ok(address);
            }
            crate::debug!("shared virtual memory at {address:#x}: there is something else here");
            rejected.push(memory);
            taken = taken_around(answer, whole as u64);
        }
        Err(failure)
    }

    /// Frees an allocation; the server does so once all that was enqueued before has ended (clSVMFree). `false` where
    /// none begins at `address`.
    pub fn svm_free(&self, address: usize) -> bool {
        let freed = lock(&ALLOCATIONS).remove(&(self.name(), address));
        freed.is_some()
    }

    /// The region of `size` bytes from `address`; `None` where that is no shared memory.
    ///
    /// # Errors
    /// CL_INVALID_VALUE for a region that leaves its allocation.
    pub fn svm_region(&self, address: usize, size: usize) -> Result<Option<Region>> {
        let allocations = lock(&ALLOCATIONS);
        let before = (self.name(), 0)..=(self.name(), address);
        let Some(((_, first), allocation)) = allocations.range(before).next_back() else { return Ok(None) };
        let (offset, whole) = (address - first, allocation.memory.size());
        // The end address of an allocation still belongs to it, though no byte is there: programs pass it on as such.
        if offset > whole || offset == whole && size > 0 {
            return Ok(None);
        }
        let fits = offset.checked_add(size).is_some_and(|end| end <= whole);
        if fits { Ok(Some(Region { allocation: Arc::clone(allocation), offset })) } else { Err(CL_INVALID_VALUE) }
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

//! Storage of buffers in the memory that the worker shares with the client: the arena of their link.
//!
//! The client copies a buffer's contents straight in and out. So nothing of them is ever borrowed here; only the native
//! implementation uses them.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use ropeway_abi as cl;
use ropeway_transport::Arena;

use crate::base::lock::lock;

/// Extents of a page or more begin and end at multiples of this, in bytes.
const PAGE: usize = 4096;

/// Smaller ones begin at multiples of this, in bytes: what devices want of a buffer's address.
pub(super) const ALIGNMENT: usize = 256;

/// How far within a page each buffer of more than half a page begins behind where the one before did: all places at which
/// one may begin come in turn, and those of neighbours are far apart. Bytes at the same place of different pages are in each
/// other's way in first-level caches and when they are written and read in turn: a stencil over three buffers that all began
/// with a page took 3 to 5 times as long.
const APART: usize = 5 * ALIGNMENT;

/// How many sizes of less than a page there are.
const SMALL_SIZES: usize = (PAGE / ALIGNMENT).trailing_zeros() as usize;

/// What is divided into small ones, in bytes.
const SLAB: usize = 16 * PAGE;

/// Memory of released buffers that is kept for new ones, in bytes: new pages cost more than what is copied into them.
const KEPT: usize = 256 << 20;

/// Gives out parts of an arena.
#[derive(Debug)]
pub struct SharedStorage {
    arena: Arc<Arena>,
    extents: Mutex<Extents>,
}

/// A part of an arena. It can be given out again once this is dropped.
#[derive(Debug)]
pub struct Extent {
    storage: Arc<SharedStorage>,
    range: Range<usize>,
    pub(super) address: NonNull<u8>,
}

// SAFETY: the address is of shared memory, which belongs to no thread; the extent never uses it itself.
unsafe impl Send for Extent {}

/// Which parts of an arena are in use.
#[derive(Debug, Default)]
struct Extents {
    /// Unused ones of less than a page, by their size: the first are of [`ALIGNMENT`] bytes, each next one of twice as many.
    small: [Vec<usize>; SMALL_SIZES],
    /// Unused ones, without memory unless room was short, by where they begin, with their lengths; never two side by side.
    empty: BTreeMap<usize, usize>,
    /// Unused ones that still have their memory, the longest unused first.
    kept: VecDeque<Range<usize>>,
    /// Where within a page the next buffer begins.
    next: usize,
}

impl SharedStorage {
    /// Gives out all of `arena`.
    pub fn new(arena: Arc<Arena>) -> Arc<Self> {
        let empty = BTreeMap::from([(0, arena.size_in_bytes())]);
        Arc::new(Self { arena, extents: Mutex::new(Extents { empty, ..Extents::default() }) })
    }

    /// What it gives out parts of.
    pub(super) fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// An extent for a buffer of `size` bytes, which begins at any multiple of [`ALIGNMENT`]. `None` if there is none left.
    pub(super) fn take_for_buffer(self: &Arc<Self>, size: u64) -> Option<Extent> {
        let size = usize::try_from(size).ok()?;
        let (range, start) = lock(&self.extents).take_for_buffer(size)?;
        self.extent(range, start, size)
    }

    /// An extent for `size` bytes, whole pages if it is more than half a page. `None` if there is none left.
    pub fn take(self: &Arc<Self>, size: u64) -> Option<Extent> {
        let size = rounded(usize::try_from(size).ok()?)?;
        let range = lock(&self.extents).take(size)?;
        let start = range.start;
        self.extent(range, start, size)
    }

    fn extent(self: &Arc<Self>, range: Range<usize>, start: usize, size: usize) -> Option<Extent> {
        // What the system does not let be used is not given out again.
        let address = self.arena.address(start as u64, size)?;
        Some(Extent { storage: Arc::clone(self), range, address })
    }
}

impl Extents {
    /// Takes out an extent for a buffer of `size` bytes. Returns where the buffer begins in it, too.
    fn take_for_buffer(&mut self, size: usize) -> Option<(Range<usize>, usize)> {
        let whole = rounded(size)?;
        if small(whole).is_some() {
            return self.take(whole).map(|range| (range.clone(), range.start));
        }
        // A page more, wherever it begins: so it can be given out again for any buffer of the size.
        let range = self.take(whole.checked_add(PAGE)?)?;
        let start = range.start + self.next;
        self.next = (self.next + APART) % PAGE;
        Some((range, start))
    }

    /// Takes out an extent of `size` bytes, or a little more.
    fn take(&mut self, size: usize) -> Option<Range<usize>> {
        let Some(small) = small(size) else { return self.take_pages(size) };
        if self.small[small].is_empty() {
            let slab = self.take_pages(SLAB)?;
            self.small[small].extend(slab.step_by(size).rev());
        }
        self.small[small].pop().map(|start| start..start + size)
    }

    /// Takes out whole pages, at the lowest address there is.
    fn take_pages(&mut self, size: usize) -> Option<Range<usize>> {
        let fits = |range: &Range<usize>| (size..=size + size / 4).contains(&range.len());
        if let Some(kept) = self.kept.iter().position(fits) {
            return self.kept.remove(kept);
        }
        let first =
            |extents: &Self| extents.empty.iter().find(|(_, len)| **len >= size).map(|(start, len)| (*start, *len));
        // An arena that is not much larger than what is kept may have no other room: the part of a virtual machine's device.
        let (start, len) = first(self).or_else(|| {
            std::mem::take(&mut self.kept).into_iter().for_each(|range| self.put_empty(range));
            first(self)
        })?;
        self.empty.remove(&start);
        if len > size {
            self.empty.insert(start + size, len - size);
        }
        Some(start..start + size)
    }

    /// Takes an extent back, with its memory. Returns extents that are to lose theirs, and then to be put back as empty ones.
    fn put(&mut self, range: Range<usize>) -> Vec<Range<usize>> {
        if let Some(small) = small(range.len()) {
            self.small[small].push(range.start);
            return Vec::new();
        }
        self.kept.push_back(range);
        let mut size: usize = self.kept.iter().map(Range::len).sum();
        let mut emptied = Vec::new();
        while size > KEPT
            && let Some(oldest) = self.kept.pop_front()
        {
            size -= oldest.len();
            emptied.push(oldest);
        }
        emptied
    }

    /// Takes an extent back that has no memory.
    fn put_empty(&mut self, mut range: Range<usize>) {
        if let Some((&start, &len)) = self.empty.range(..range.start).next_back()
            && start + len == range.start
        {
            self.empty.remove(&start);
            range.start = start;
        }
        if let Some(len) = self.empty.remove(&range.end) {
            range.end += len;
        }
        self.empty.insert(range.start, range.len());
    }
}

/// The size of the extent for so many bytes.
fn rounded(size: usize) -> Option<usize> {
    if size > PAGE / 2 {
        return size.checked_next_multiple_of(PAGE);
    }
    Some(size.max(ALIGNMENT).next_power_of_two())
}

/// Which of the small sizes this is.
fn small(size: usize) -> Option<usize> {
    (size < PAGE).then(|| (size / ALIGNMENT).trailing_zeros() as usize)
}

impl Drop for Extent {
    fn drop(&mut self) {
        let emptied = lock(&self.storage.extents).put(self.range.clone());
        for range in emptied {
            // Where this fails, the memory stays in use, and the extent is as good.
            let _ = self.storage.arena.give_back(range.clone());
            lock(&self.storage.extents).put_empty(range);
        }
    }
}

/// What keeps the memory of a buffer for it alone.
#[derive(Debug)]
#[expect(dead_code, reason = "they are kept until they are dropped")]
pub(super) enum Keeper {
    /// A part that was given out.
    Extent(Extent),
    /// All of what it is a part of.
    Arena(Arc<Arena>),
}

/// Called by the native implementation when a buffer and all commands that use it are gone.
pub(super) extern "C" fn end_of_buffer(_: cl::cl_mem, keeper: *mut c_void) {
    // SAFETY: `Memory::over_host` has registered this with a box of this type, and it is called once.
    drop(unsafe { Box::from_raw(keeper.cast::<Keeper>()) });
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn extents() -> Extents {
        Extents { empty: BTreeMap::from([(0, 1000 * MIB)]), ..Extents::default() }
    }

    #[test]
    fn extents_never_overlap_and_come_back() {
        let mut extents = extents();
        let mut taken: Vec<Range<usize>> = Vec::new();
        let mut seed = 7_u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = (seed >> 33) as usize;
            if number.is_multiple_of(2) && !taken.is_empty() {
                let range = taken.swap_remove(number / 2 % taken.len());
                extents.put(range).into_iter().for_each(|range| extents.put_empty(range));
                continue;
            }
            let size = rounded((number % (20 * MIB)) >> (number / 3 % 24)).unwrap();
            let Some(range) = extents.take(size) else { continue };
            assert!((size..=size + size / 4).contains(&range.len()) && range.end <= 1000 * MIB);
            assert!(range.start.is_multiple_of(if size < PAGE { size } else { PAGE }));
            assert!(taken.iter().all(|other| range.end <= other.start || other.end <= range.start));
            taken.push(range);
        }
        for range in taken.drain(..) {
            extents.put(range).into_iter().for_each(|range| extents.put_empty(range));
        }
        let kept: Vec<_> = extents.kept.drain(..).collect();
        kept.into_iter().for_each(|range| extents.put_empty(range));
        let small: usize = extents.small.iter().zip(0..).map(|(all, size)| all.len() * (ALIGNMENT << size)).sum();
        assert_eq!(small + extents.empty.values().sum::<usize>(), 1000 * MIB);
    }

    #[test]
    fn what_is_kept_gives_way_where_there_is_no_other_room() {
        let mut extents = Extents { empty: BTreeMap::from([(0, 64 * MIB)]), ..Extents::default() };
        for size in [16, 33, 5] {
            let range = extents.take(size * MIB).unwrap();
            assert!(extents.put(range).is_empty(), "it is kept");
        }
        assert_eq!(extents.take(60 * MIB), Some(0..60 * MIB));
        assert_eq!(extents.take(5 * MIB), None);
        assert_eq!(extents.take(4 * MIB), Some(60 * MIB..64 * MIB));
    }

    #[test]
    fn buffers_begin_at_different_places_of_a_page_and_end_within_their_extents() {
        let mut extents = extents();
        for size in [PAGE / 2 + 1, PAGE, 128 << 10, MIB - 1] {
            let mut places = Vec::new();
            for _ in 0..PAGE / ALIGNMENT {
                let (range, start) = extents.take_for_buffer(size).unwrap();
                assert!(start.is_multiple_of(ALIGNMENT) && range.start <= start && start + size <= range.end);
                places.push(start % PAGE);
            }
            let far = |pair: &[usize]| pair[0].abs_diff(pair[1]) >= 4 * ALIGNMENT;
            assert!(places.windows(2).all(far), "{places:?}");
            places.sort_unstable();
            assert!(places.into_iter().eq((0..PAGE).step_by(ALIGNMENT)));
        }
        let (range, start) = extents.take_for_buffer(1000).unwrap();
        assert_eq!((range.len(), start), (1024, range.start), "these are apart as it is");
        let (kept, _) = extents.take_for_buffer(MIB).unwrap();
        assert!(extents.put(kept.clone()).is_empty());
        assert_eq!(extents.take_for_buffer(MIB).unwrap().0, kept, "it fits wherever the next begins");
    }

    #[test]
    fn memory_is_kept_for_the_next_buffer_and_not_more_than_that() {
        let mut extents = extents();
        let first = extents.take(16 * MIB).unwrap();
        assert!(extents.put(first.clone()).is_empty());
        assert_eq!(extents.take(15 * MIB), Some(first.clone()), "it fits well enough");
        assert!(extents.put(first.clone()).is_empty());
        let other = extents.take(MIB).unwrap();
        assert_ne!(other, first, "it would waste most of it");
        let large = extents.take(KEPT).unwrap();
        assert_eq!(extents.put(large.clone()), [first]);
        assert_eq!(extents.kept, [large]);
    }
}

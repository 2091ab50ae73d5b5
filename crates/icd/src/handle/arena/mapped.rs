//! Address space for slots.

use std::ptr::{self, NonNull};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

use super::Slot;

/// Most objects that are alive at a time, if there is address space for their slots.
const MOST_SLOTS: usize = 4 << 20;

/// Reserves address space; memory is taken as slots are used. Takes less where the process may not have as much.
/// Returns the first slot and their number; they are valid for ever.
pub(super) fn reserve() -> Option<(NonNull<Slot>, usize)> {
    let mut slots = MOST_SLOTS;
    while slots >= 1024 {
        let bytes = slots * size_of::<Slot>();
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let mapped = unsafe { mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags) };
        if let Some(base) = mapped.ok().and_then(NonNull::new) {
            // Huge pages would make the first object cost 2 MiB; only advice, so a refusal does not matter.
            // SAFETY: exactly the mapping made above, and advice that leaves its contents alone.
            let _ = unsafe { madvise(base.as_ptr(), bytes, Advice::LinuxNoHugepage) };
            // A mapping is aligned to pages and zero, which is a valid Slot, since its fields are atomics without a
            // niche.
            return Some((base.cast(), slots));
        }
        slots /= 2;
    }
    None
}

//! A few slots on the heap, where there is no address space to reserve: loom's atomics are no plain memory, and Miri
//! does not know such mappings.

use std::ptr::NonNull;

use super::Slot;

/// Enough for the tests.
const SLOTS: usize = if cfg!(miri) { 4096 } else { 4 };

/// As that of the ordinary memory.
pub(super) fn reserve() -> Option<(NonNull<Slot>, usize)> {
    let slots: Vec<_> = (0..SLOTS).map(|_| Slot::default()).collect();
    Some((NonNull::from(slots.leak()).cast(), SLOTS))
}

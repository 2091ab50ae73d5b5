//! Numbers for new objects.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that was never used in this process, for a new object.
pub(crate) fn new_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

//! A limit on how much of a resource may be taken at a time.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Something that is taken and given back, up to a limit, such as bytes.
#[derive(Debug)]
pub struct Budget {
    taken: AtomicUsize,
    most: usize,
}

impl Budget {
    /// Of `most`, nothing of which is taken.
    pub fn new(most: usize) -> Self {
        Self { taken: AtomicUsize::new(0), most }
    }

    /// Takes `size`; returns false, and takes nothing, if that would exceed the limit.
    pub fn take(&self, size: usize) -> bool {
        let fits = |taken: usize| taken.checked_add(size).filter(|all| *all <= self.most);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    /// How much is taken.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// How much may be taken in all.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Gives back what was taken.
    pub fn give_back(&self, size: usize) {
        self.taken.fetch_sub(size, Ordering::Relaxed);
    }
}

//! The order in which commands are enqueued.

use std::sync::atomic::{AtomicU64, Ordering};

/// The order of a queue's commands.
pub struct Sequence {
    name: u64,
    next: AtomicU64,
}

/// A command's place in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn {
    /// The queue's name.
    pub line: u64,
    /// How many commands came before it there.
    pub number: u64,
}

impl Sequence {
    /// A new one.
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { name: NEXT.fetch_add(1, Ordering::Relaxed), next: AtomicU64::new(0) }
    }

    /// How many commands have a place.
    pub fn len(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// The place of the next command.
    pub fn turn(&self) -> Turn {
        Turn { line: self.name, number: self.next.fetch_add(1, Ordering::Relaxed) }
    }
}

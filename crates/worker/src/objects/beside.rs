//! Extra queues next to a queue of the application's, which carry pre-enqueued small reads and writes for peers
//! ([`crate::peers::pre_enqueue`]).

use std::sync::{Mutex, OnceLock};

use super::queue::Queue;
use crate::base::order::{Sequence, Turn};
use crate::native;

/// The extra queues of a queue of the application's, made when first needed; `None` if they cannot be made.
#[derive(Default)]
pub struct PreEnqueued {
    /// For reads behind its commands.
    pub reads: OnceLock<Option<Beside>>,
    /// For writes that precede the queue's commands.
    pub writes: OnceLock<Option<Beside>>,
}

/// An extra queue next to a queue of the application's.
pub struct Beside {
    /// The native one.
    pub native: native::Queue,
    /// The places of its commands.
    pub line: Sequence,
    /// The command that the last read comes behind, and the end of that read.
    pub last: Mutex<Option<(Turn, native::Event)>>,
}

impl Beside {
    /// Makes an extra queue for `queue`; `None` if it cannot be made.
    pub fn new(queue: &Queue) -> Option<Self> {
        let native = native::Queue::new(queue.context.native.as_ref().ok()?, queue.device, 0).ok()?;
        Some(Self { native, line: Sequence::new(), last: Mutex::default() })
    }
}

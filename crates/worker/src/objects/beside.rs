//! Queues beside one of the application's, over which small reads and writes for peers go before it is their turn ([`crate::peers::ahead`]).

use std::sync::{Mutex, OnceLock};

use super::queue::Queue;
use crate::base::order::{Line, Turn};
use crate::native;

/// The queues beside one of the application's, made when first needed; none where they cannot be made.
#[derive(Default)]
pub struct Ahead {
    /// For reads behind its commands.
    pub reads: OnceLock<Option<Beside>>,
    /// For writes before them.
    pub writes: OnceLock<Option<Beside>>,
}

/// A queue beside another.
pub struct Beside {
    /// The native one.
    pub native: native::Queue,
    /// The places of its commands.
    pub line: Line,
    /// Behind which command the last read comes, and its end.
    pub last: Mutex<Option<(Turn, native::Event)>>,
}

impl Beside {
    /// One beside `queue`; `None` where it cannot be made.
    pub fn new(queue: &Queue) -> Option<Self> {
        let native = native::Queue::new(queue.context.native.as_ref().ok()?, queue.device, 0).ok()?;
        Some(Self { native, line: Line::new(), last: Mutex::default() })
    }
}

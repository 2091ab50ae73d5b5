//! Kernels and what their arguments hold.

use std::sync::Arc;

use ropeway_protocol::types::{ArgKind, Status};
use smallvec::SmallVec;

use super::context::Context;
use super::memory::Memory;
use super::queue::DeviceQueue;
use crate::native;

/// An object that is a kernel's argument.
#[derive(Clone)]
pub enum Held {
    /// A memory object.
    Memory(Arc<Memory>),
    /// A sampler, if it could be made.
    Sampler(Arc<Result<native::Sampler, Status>>),
    /// A queue on the device.
    Queue(Arc<DeviceQueue>),
}

impl Held {
    /// The memory object that it is.
    pub fn memory(&self) -> Option<&Memory> {
        match self {
            Self::Memory(memory) => Some(memory),
            Self::Sampler(_) | Self::Queue(_) => None,
        }
    }
}

/// A kernel.
pub struct Kernel {
    /// The native one.
    pub native: Result<native::Kernel, Status>,
    /// Its program's context.
    pub context: Arc<Context>,
    /// The kind of each argument.
    pub kinds: Arc<[ArgKind]>,
    /// Objects that the arguments were last set to: they must live as long as a launch may use them.
    pub held: Vec<Option<Held>>,
    /// Arguments that could not be set, with the status that launches then fail with.
    pub unusable: SmallVec<[(u32, Status); 1]>,
}

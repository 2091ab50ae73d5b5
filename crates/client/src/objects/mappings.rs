//! Where a memory object is mapped, and which parts of it are.

use std::sync::{Arc, Mutex};

use ropeway_protocol::image::ImagePart;

use crate::base::host::HostRange;
use crate::base::region::Region;
use crate::base::status::Result;
use crate::base::sync::lock;

/// A buffer's place in the application's memory, and which parts are mapped.
pub(crate) struct Mappings {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    range: Option<Arc<dyn HostRange>>,
    mapped: Vec<Mapped>,
}

/// A mapped part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mapped {
    /// Where it begins, in bytes.
    pub offset: usize,
    /// Its shape.
    pub region: Region,
    /// Which part of an image it is.
    pub image: Option<ImagePart>,
    /// Whether unmapping writes it back: where it is not the device's own memory.
    pub writes: bool,
}

impl Mappings {
    pub(crate) fn new(host: Option<Arc<dyn HostRange>>) -> Self {
        Self { state: Mutex::new(State { range: host, mapped: Vec::new() }) }
    }

    /// How many parts are mapped.
    pub(crate) fn count(&self) -> usize {
        lock(&self.state).mapped.len()
    }

    /// Returns the memory to which the object is mapped, once there is any.
    pub(crate) fn range(&self) -> Option<Arc<dyn HostRange>> {
        lock(&self.state).range.clone()
    }

    /// Returns the memory to which the object is mapped; `make` provides it if there is none yet.
    ///
    /// # Errors
    /// Those of `make`.
    pub(crate) fn range_or(
        &self,
        make: impl FnOnce() -> Result<Option<Arc<dyn HostRange>>>,
    ) -> Result<Option<Arc<dyn HostRange>>> {
        let mut state = lock(&self.state);
        if state.range.is_none() {
            state.range = make()?;
        }
        Ok(state.range.clone())
    }

    /// Records that a part is mapped.
    pub(crate) fn add(&self, mapped: Mapped) {
        lock(&self.state).mapped.push(mapped);
    }

    /// Removes the mapped part that begins at `address`, and returns it with the memory where it is; `None` if none
    /// begins there.
    pub(crate) fn remove(&self, address: usize) -> Option<(Arc<dyn HostRange>, Mapped)> {
        let mut state = lock(&self.state);
        let range = state.range.clone()?;
        let offset = address.checked_sub(range.address())?;
        let at = state.mapped.iter().position(|m| m.offset == offset)?;
        Some((range, state.mapped.swap_remove(at)))
    }
}

//! The number of meaningful bytes of a buffer (cl_pocl_content_size), which the first bytes of another buffer give.

use std::sync::Arc;

use ropeway_abi as cl;
use ropeway_protocol::types::Status;

use super::memory::Memory;
use crate::native::{Part, Place, Ranges, StagedRead, Waits};

/// The buffer that holds the content size.
#[derive(Clone)]
pub struct Contents(pub Arc<Memory>);

impl Contents {
    /// The size of the content size itself, in bytes.
    pub const SIZE: u64 = 8;

    /// Returns the current number of meaningful bytes; waits for the device.
    ///
    /// # Errors
    /// The status of the native call that failed.
    pub fn len(&self) -> Result<u64, Status> {
        let native = self.0.native.as_ref().map_err(|status| *status)?;
        let queue = self.0.context.push_queue()?;
        let part = Part::Bytes { offset: 0, size: Self::SIZE };
        let read = StagedRead::enqueue(queue, (native, &part), &Waits::none(), Place::ordinary(&part)?)?;
        queue.flush()?;
        let bytes = read.bytes()?.try_into().map_err(|_| cl::CL_OUT_OF_RESOURCES)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Returns the parts of these ranges that lie before the end of the meaningful bytes; `None` if there are none.
    ///
    /// # Errors
    /// As [`Contents::len`].
    pub fn of(&self, ranges: &Ranges) -> Result<Option<Ranges>, Status> {
        let end = self.len()?;
        let list = ranges.list().iter().filter(|(offset, _)| *offset < end);
        Ok(Ranges::new(list.map(|&(offset, size)| (offset, size.min(end - offset))).collect()))
    }
}

//! What command buffers are made of.

use serde::{Deserialize, Serialize};

use crate::ids::{KernelId, MemoryId};
use crate::types::NdRange;

/// What one command of a command buffer does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Recorded<'a> {
    /// Launches a kernel with the arguments that it has when this is recorded.
    Kernel {
        /// The kernel.
        kernel: KernelId,
        /// How much of it.
        range: NdRange,
    },
    /// Copies between buffers.
    CopyBuffer {
        /// From where.
        source: MemoryId,
        /// To where.
        target: MemoryId,
        /// The first byte to copy.
        source_offset: u64,
        /// Where it goes.
        target_offset: u64,
        /// How many bytes.
        size: u64,
    },
    /// Fills part of a buffer with a pattern of 1 to 128 bytes.
    FillBuffer {
        /// The buffer.
        buffer: MemoryId,
        /// The pattern.
        #[serde(borrow)]
        pattern: &'a [u8],
        /// The first byte to fill.
        offset: u64,
        /// How many bytes.
        size: u64,
    },
    /// Holds back all commands behind it until those that it waits for have ended: all before it, where its wait list is empty.
    Barrier,
}

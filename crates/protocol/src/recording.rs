//! What command buffers are made of.

use serde::{Deserialize, Serialize};

use crate::ids::{KernelId, MemoryId};
use crate::image::ImagePart;
use crate::types::{BufferRect, NdRange};

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
    /// Copies between rectangular regions of buffers, which are of the same size.
    CopyBufferRect {
        /// From where.
        source: MemoryId,
        /// To where.
        target: MemoryId,
        /// The region to copy.
        from: BufferRect,
        /// The region it goes to.
        to: BufferRect,
    },
    /// Copies between images of the same format.
    CopyImage {
        /// From where.
        source: MemoryId,
        /// To where.
        target: MemoryId,
        /// The first element to copy.
        from: [u64; 3],
        /// Where it goes.
        to: [u64; 3],
        /// How many elements each way.
        region: [u64; 3],
    },
    /// Copies part of an image to a buffer, packed.
    CopyImageToBuffer {
        /// From where.
        source: MemoryId,
        /// The part.
        part: ImagePart,
        /// To where.
        target: MemoryId,
        /// The first byte there.
        offset: u64,
    },
    /// Copies packed elements from a buffer into part of an image.
    CopyBufferToImage {
        /// From where.
        source: MemoryId,
        /// The first byte there.
        offset: u64,
        /// To where.
        target: MemoryId,
        /// The part.
        part: ImagePart,
    },
    /// Fills part of an image with a color: four numbers of 32 bits, of the kind that its format asks for.
    FillImage {
        /// The image.
        image: MemoryId,
        /// The part.
        part: ImagePart,
        /// The color.
        color: [u32; 4],
    },
    /// Holds back all commands behind it until those that it waits for have ended: all before it, where its wait list is empty.
    Barrier,
}

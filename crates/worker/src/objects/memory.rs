//! Memory objects of all kinds.

use std::sync::Arc;

use ropeway_protocol::image::ImageDescription;
use ropeway_protocol::types::Status;

use super::context::Context;
use crate::native;

/// A memory object.
pub struct Memory {
    /// The native one.
    pub native: Result<Arc<native::Memory>, Status>,
    /// Its context.
    pub context: Arc<Context>,
    /// What it is.
    pub kind: MemoryKind,
    /// How many bytes of the session's quota it takes.
    pub charged: u64,
}

/// What a memory object is, as the client said when it made it.
#[derive(Clone, Copy, Debug)]
pub enum MemoryKind {
    /// A buffer of so many bytes.
    Buffer(u64),
    /// An image like this.
    Image(ImageDescription),
    /// A pipe.
    Pipe,
}

impl Memory {
    /// The size in bytes of a buffer; `None` for what is none.
    pub fn buffer_size(&self) -> Option<u64> {
        match self.kind {
            MemoryKind::Buffer(size) => Some(size),
            MemoryKind::Image(_) | MemoryKind::Pipe => None,
        }
    }

    /// All of its bytes; `None` where they are too many to count, or out of reach.
    pub fn whole(&self) -> Option<native::Part> {
        Some(match &self.kind {
            MemoryKind::Buffer(size) => native::Part::Bytes { offset: 0, size: *size },
            MemoryKind::Image(like) => native::Part::Image { part: like.whole(), size: like.bytes()? },
            MemoryKind::Pipe => return None,
        })
    }

    /// What an image is like; `None` for what is none.
    pub fn image(&self) -> Option<&ImageDescription> {
        match &self.kind {
            MemoryKind::Image(like) => Some(like),
            MemoryKind::Buffer(_) | MemoryKind::Pipe => None,
        }
    }
}

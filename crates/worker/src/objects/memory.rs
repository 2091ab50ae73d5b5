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
    /// The object's kind.
    pub kind: MemoryKind,
    /// How many bytes of the session's quota it takes.
    pub charged: u64,
}

/// The kind of a memory object, as the client declared it on creation.
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

    /// Returns the part that is the whole object; `None` if its size overflows, or if it cannot be accessed.
    pub fn whole(&self) -> Option<native::Part> {
        Some(match &self.kind {
            MemoryKind::Buffer(size) => native::Part::Bytes { offset: 0, size: *size },
            MemoryKind::Image(like) => native::Part::Image { part: like.whole(), size: like.bytes()? },
            MemoryKind::Pipe => return None,
        })
    }

    /// The image's description; `None` for other memory objects.
    pub fn image(&self) -> Option<&ImageDescription> {
        match &self.kind {
            MemoryKind::Image(like) => Some(like),
            MemoryKind::Buffer(_) | MemoryKind::Pipe => None,
        }
    }
}

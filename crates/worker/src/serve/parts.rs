//! Parts of memory objects, as messages name them: each is held against its object.

use std::sync::Arc;

use ropeway_protocol::ids::MemoryId;
use ropeway_protocol::image::ImagePart;
use ropeway_protocol::types::BufferRect;

use crate::base::error::End;
use crate::native::Part;
use crate::objects::Memory;
use crate::session::Session;

impl Session {
    /// A buffer of which the range is part.
    ///
    /// # Errors
    /// There is no such object, it is not a buffer, or the range leaves it.
    pub fn buffer_range(&self, id: MemoryId, offset: u64, size: u64) -> Result<Arc<Memory>, End> {
        let buffer = self.memory(id)?;
        let whole = buffer.buffer_size().ok_or_else(|| End::refused(format_args!("{id} is not a buffer")))?;
        match offset.checked_add(size) {
            Some(end) if end <= whole => Ok(buffer.clone()),
            _ => Err(End::refused(format_args!("{size} bytes at {offset} are not within {id} of {whole} bytes"))),
        }
    }

    /// A buffer and part of it, bytes that lie together.
    ///
    /// # Errors
    /// As [`Session::buffer_range`].
    pub fn buffer_bytes(&self, id: MemoryId, offset: u64, size: u64) -> Result<(Arc<Memory>, Part), End> {
        Ok((self.buffer_range(id, offset, size)?, Part::Bytes { offset, size }))
    }

    /// A buffer and part of it, a region.
    ///
    /// # Errors
    /// There is no such buffer, or the region is none or leaves it.
    pub fn buffer_rect(&self, id: MemoryId, rect: BufferRect) -> Result<(Arc<Memory>, Part), End> {
        let bounds = rect.bounds().ok_or_else(|| End::refused(format_args!("{rect:?} is no region of {id}")))?;
        Ok((self.buffer_range(id, bounds.0, bounds.1)?, Part::Rect(rect)))
    }

    /// An image and part of it.
    ///
    /// # Errors
    /// There is no such object, it is not an image, or the part leaves it.
    pub fn image_part(&self, id: MemoryId, part: ImagePart) -> Result<(Arc<Memory>, Part), End> {
        let memory = self.memory(id)?;
        let like = memory.image().ok_or_else(|| End::refused(format_args!("{id} is not an image")))?;
        match like.region_bytes(part.region) {
            Some(size) if like.holds(&part) => Ok((memory.clone(), Part::Image { part, size })),
            _ => Err(End::refused(format_args!("{part:?} is not within {id} of {:?} elements", like.extent))),
        }
    }
}

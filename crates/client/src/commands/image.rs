//! Commands that copy and fill images.

use std::sync::Arc;

use ropeway_abi::{
    CL_COMMAND_COPY_BUFFER_TO_IMAGE, CL_COMMAND_COPY_IMAGE, CL_COMMAND_COPY_IMAGE_TO_BUFFER, CL_COMMAND_FILL_IMAGE,
};
use ropeway_protocol::image::ImagePart;
use ropeway_protocol::messages::{CopyBufferToImage, CopyImage, CopyImageToBuffer, FillImage};

use crate::base::status::Result;
use crate::commands::command::{Enqueued, Order};
use crate::objects::access::{Access, Use};
use crate::objects::memory::Memory;
use crate::objects::queue::Queue;

impl Queue {
    /// Copies `region` elements between images (clEnqueueCopyImage).
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn enqueue_copy_image(
        self: &Arc<Self>,
        (source, from): (&Memory, [u64; 3]),
        (target, to): (&Memory, [u64; 3]),
        region: [u64; 3],
        order: Order<'_>,
    ) -> Result<Enqueued> {
        let (from_part, to_part) = (ImagePart { origin: from, region }, ImagePart { origin: to, region });
        let uses = [Use::image(source, Access::Read, from_part), Use::image(target, Access::Write, to_part)];
        let (source, target) = (source.id(self.home()), target.id(self.home()));
        self.enqueue(order, CL_COMMAND_COPY_IMAGE, &uses, |command| CopyImage {
            command,
            source,
            target,
            from,
            to,
            region,
        })
    }

    /// Copies part of an image to `offset` of a buffer (clEnqueueCopyImageToBuffer).
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn enqueue_copy_image_to_buffer(
        self: &Arc<Self>,
        (source, part): (&Memory, ImagePart),
        (target, offset): (&Memory, usize),
        order: Order<'_>,
    ) -> Result<Enqueued> {
        let size = source.bytes_of(part);
        let uses = [Use::image(source, Access::Read, part), Use::bytes(target, Access::Write, offset, size)];
        let (source, target, offset) = (source.id(self.home()), target.id(self.home()), offset as u64);
        self.enqueue(order, CL_COMMAND_COPY_IMAGE_TO_BUFFER, &uses, |command| CopyImageToBuffer {
            command,
            source,
            part,
            target,
            offset,
        })
    }

    /// Copies from `offset` of a buffer to part of an image (clEnqueueCopyBufferToImage).
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn enqueue_copy_buffer_to_image(
        self: &Arc<Self>,
        (source, offset): (&Memory, usize),
        (target, part): (&Memory, ImagePart),
        order: Order<'_>,
    ) -> Result<Enqueued> {
        let size = target.bytes_of(part);
        let uses = [Use::bytes(source, Access::Read, offset, size), Use::image(target, Access::Write, part)];
        let (source, target, offset) = (source.id(self.home()), target.id(self.home()), offset as u64);
        self.enqueue(order, CL_COMMAND_COPY_BUFFER_TO_IMAGE, &uses, |command| CopyBufferToImage {
            command,
            source,
            offset,
            target,
            part,
        })
    }

    /// Fills part of an image with a color of four numbers (clEnqueueFillImage).
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn enqueue_fill_image(
        self: &Arc<Self>,
        image: &Memory,
        part: ImagePart,
        color: [u32; 4],
        order: Order<'_>,
    ) -> Result<Enqueued> {
        let uses = [Use::image(image, Access::Write, part)];
        let image = image.id(self.home());
        self.enqueue(order, CL_COMMAND_FILL_IMAGE, &uses, |command| FillImage { command, image, part, color })
    }
}

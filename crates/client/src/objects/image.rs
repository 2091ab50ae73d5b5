//! Images.

use std::sync::Arc;

use ropeway_abi::{
    CL_COMMAND_COPY_BUFFER_TO_IMAGE, CL_COMMAND_COPY_IMAGE, CL_COMMAND_COPY_IMAGE_TO_BUFFER, CL_COMMAND_FILL_IMAGE,
};
use ropeway_protocol::image::{ImageDescription, ImageFormat, ImageKind, ImagePart};
use ropeway_protocol::messages::{
    CopyBufferToImage, CopyImage, CopyImageToBuffer, CreateImage, FillImage, ImageFormats, MemoryStatus,
};

use crate::base::host::{HostRange, HostSource};
use crate::base::region::Region;
use crate::base::status::Result;
use crate::base::sync::lock;
use crate::commands::command::{Enqueued, Order};
use crate::objects::buffer::FirstContents;
use crate::objects::context::Context;
use crate::objects::home::{Home, in_each};
use crate::objects::memory::{Description, HOST_FLAGS, Kind, Memory};
use crate::objects::queue::Queue;
use crate::planning::prepare::{Access, Use};

/// Where the elements of an image, or of a part of one, lie in the application's memory: so many bytes each way from one to the
/// next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// From one element to the next: its size.
    pub element: usize,
    /// From one row to the next, and from one slice to the next (CL_IMAGE_SLICE_PITCH; from one image of an array to the next).
    pub strides: [usize; 2],
}

impl Layout {
    /// The layout of `region` elements of `kind` with these pitches, each of which is 0 where there is nothing in between. `None`
    /// where a pitch is less than what it spans, or too much.
    pub fn new(
        kind: ImageKind,
        element: usize,
        region: [usize; 3],
        row_pitch: usize,
        slice_pitch: usize,
    ) -> Option<Self> {
        let row = element.checked_mul(region[0])?;
        let row_pitch = if row_pitch == 0 { row } else { row_pitch };
        let rows = if kind == ImageKind::Image1DArray { 1 } else { region[1] };
        let slice = row_pitch.checked_mul(rows)?;
        // One image has no slices: their pitch says nothing.
        let slice_pitch = if slice_pitch == 0 || kind.slices().is_none() { slice } else { slice_pitch };
        let layout = match kind {
            // The images of a 1D array are its rows.
            ImageKind::Image1DArray => [slice_pitch, slice_pitch.checked_mul(region[1])?],
            _ => [row_pitch, slice_pitch],
        };
        (row_pitch >= row && slice_pitch >= slice).then_some(Self { element, strides: layout })
    }

    /// Where the element at `origin` lies, from the first.
    pub fn offset(&self, origin: [usize; 3]) -> Option<usize> {
        let [x, y, z] = origin;
        let [row, slice] = self.strides;
        x.checked_mul(self.element)?.checked_add(y.checked_mul(row)?)?.checked_add(z.checked_mul(slice)?)
    }

    /// The bytes of `region`, to be read or written.
    pub fn region(&self, region: [usize; 3]) -> Option<Region> {
        let [row, slice] = self.strides;
        Region::new([region[0].checked_mul(self.element)?, region[1], region[2]], row, slice)
    }
}

/// What an image is, beside what all memory objects are.
#[derive(Clone, Copy, Debug)]
pub struct Image {
    /// Its type, format and size.
    pub like: ImageDescription,
    /// CL_IMAGE_ROW_PITCH, in bytes.
    pub row_pitch: usize,
    /// CL_IMAGE_SLICE_PITCH, in bytes; 0 for an image without slices.
    pub slice_pitch: usize,
}

/// What a new image is made of.
pub enum Material<'a> {
    /// Memory of its own, with these first contents (all elements), and mapped there.
    Own(Option<&'a dyn HostSource>, Option<Arc<dyn HostRange>>),
    /// A buffer's or image's memory.
    Of(&'a Arc<Memory>),
}

impl Image {
    /// How many elements it has each way.
    pub fn extent(&self) -> [usize; 3] {
        self.like.extent.map(|n| n as usize)
    }

    /// CL_IMAGE_ELEMENT_SIZE, in bytes.
    pub fn element(&self) -> usize {
        self.like.format.element_size().unwrap_or(1) as usize
    }

    /// Where its elements lie in memory that it is mapped to.
    pub fn layout(&self) -> Option<Layout> {
        Layout::new(self.like.kind, self.element(), self.extent(), self.row_pitch, self.slice_pitch)
    }

    /// How many bytes that memory has (CL_MEM_SIZE): with what lies between rows and slices.
    pub fn size(&self) -> Option<usize> {
        let [_, height, depth] = self.extent();
        match self.like.kind.slices() {
            Some(_) if self.like.kind == ImageKind::Image1DArray => self.slice_pitch.checked_mul(height),
            Some(_) => self.slice_pitch.checked_mul(depth),
            None => self.row_pitch.checked_mul(height),
        }
    }
}

impl Memory {
    /// Makes an image.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn image(
        context: &Arc<Context>,
        flags: u64,
        image: Image,
        size: usize,
        material: Material<'_>,
    ) -> Result<Arc<Self>> {
        let (contents, host, parent) = match material {
            Material::Own(contents, host) => (contents, host, None),
            Material::Of(parent) => (None, None, Some(Arc::clone(parent))),
        };
        Self::new(context, Description { flags, size, kind: Kind::Image(image), parent, host }, contents)
    }

    pub(crate) fn create_image(&self, home: &Home, image: &Image, contents: Option<&dyn HostSource>) -> Result<()> {
        let contents = FirstContents::new(contents);
        let create = CreateImage {
            image: self.id(home),
            context: home.context(),
            flags: self.flags() & !HOST_FLAGS,
            like: image.like,
            of: self.ensure_parent(home)?,
            initial: contents.initial,
        };
        home.connection().post_with_tail(&create, &contents.tail)?;
        contents.follow(home)
    }

    /// Asks the servers whether the object could be made, where the client cannot tell: somewhere, as a native context with
    /// several devices needs one that has it.
    ///
    /// # Errors
    /// What the native call returned, [`crate::SERVER_LOST`].
    pub fn confirm(&self) -> Result<()> {
        let asked = in_each(self.context().all_homes(), |home| {
            self.ensure(home)?;
            home.connection().call(&MemoryStatus { memory: self.id(home) })
        });
        asked.into_iter().reduce(Result::or).unwrap_or(Ok(()))
    }

    /// How many bytes part of an image has.
    fn bytes_of(&self, part: ImagePart) -> usize {
        self.as_image().and_then(|image| image.like.region_bytes(part.region)).unwrap_or(0) as usize
    }

    /// What it is as an image; `None` for what is none.
    pub fn as_image(&self) -> Option<&Image> {
        match self.kind() {
            Kind::Image(image) => Some(image),
            _ => None,
        }
    }
}

impl Context {
    /// The formats of images of `image_type`, a CL_MEM_OBJECT_IMAGE…, made with `flags`; asked for once.
    ///
    /// # Errors
    /// What the native call returned, [`crate::SERVER_LOST`].
    pub fn image_formats(&self, flags: u64, image_type: u32) -> Result<Arc<[ImageFormat]>> {
        let key = (flags & !HOST_FLAGS, image_type);
        if let Some(known) = lock(self.formats()).get(&key) {
            return Ok(Arc::clone(known));
        }
        let asked = in_each(self.all_homes(), |home| {
            home.connection().call(&ImageFormats { context: home.context(), flags: key.0, image_type })
        });
        // What some of its devices have.
        let mut formats: Vec<ImageFormat> = Vec::new();
        let mut answered = Err(crate::SERVER_LOST);
        for answer in asked {
            answered = answered.or(answer.as_ref().map(|_| ()).map_err(|status| *status));
            for format in answer.unwrap_or_default() {
                if !formats.contains(&format) {
                    formats.push(format);
                }
            }
        }
        answered?;
        // What nothing is known of cannot be moved either.
        formats.retain(|format| format.element_size().is_some());
        let formats: Arc<[ImageFormat]> = formats.into();
        lock(self.formats()).insert(key, Arc::clone(&formats));
        Ok(formats)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pitches_are_filled_in_and_checked() {
        let layout = |kind, row, slice| Layout::new(kind, 4, [5, 3, 2], row, slice).map(|l| l.strides);
        assert_eq!(layout(ImageKind::Image3D, 0, 0), Some([20, 60]));
        assert_eq!(layout(ImageKind::Image3D, 24, 0), Some([24, 72]));
        assert_eq!(layout(ImageKind::Image3D, 24, 80), Some([24, 80]));
        assert_eq!(layout(ImageKind::Image3D, 24, 71), None);
        assert_eq!(layout(ImageKind::Image3D, 19, 0), None);
        assert_eq!(layout(ImageKind::Image2D, 20, 1), Some([20, 60]), "one image has no slices");
        assert_eq!(layout(ImageKind::Image1DArray, 0, 32).map(|s| s[0]), Some(32), "each image of an array is a row");
        assert_eq!(layout(ImageKind::Image3D, usize::MAX, 0), None);
    }

    #[test]
    fn elements_lie_where_the_pitches_say() {
        let layout = Layout { element: 4, strides: [32, 128] };
        assert_eq!(layout.offset([1, 1, 1]), Some(164));
        assert_eq!(layout.region([5, 3, 2]).map(|region| region.span()), Some(128 + 64 + 20));
        assert_eq!(layout.region([9, 3, 2]), None);
    }
}

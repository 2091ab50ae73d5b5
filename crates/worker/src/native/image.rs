//! Images, and the commands that move their elements.

use std::sync::Arc;

use ropeway_abi as cl;
use ropeway_protocol::image::{ImageDescription, ImageFormat, ImageKind, ImagePart};
use ropeway_protocol::types::Status;

use super::api::api;
use super::memory::Shape;
use super::{Context, Event, Memory, Queue, Waits, check};

/// Limit on the number of formats that an implementation is believed to report.
const MAX_FORMATS: u32 = 4096;

/// The memory behind a new image.
#[derive(Clone, Copy, Debug)]
pub enum Material<'a> {
    /// Memory of its own.
    Own,
    /// Memory of its own, with these first contents: the packed bytes of all elements.
    Copied(&'a [u8]),
    /// This buffer's or image's memory.
    Of(&'a Arc<Memory>),
}

/// An origin or region as native sizes; it is part of an image, so that each fits.
fn sizes(of: [u64; 3]) -> [usize; 3] {
    of.map(|n| n as usize)
}

impl Memory {
    /// clCreateImage. `flags` must be without those about host memory.
    ///
    /// # Errors
    /// The status of the native call; CL_INVALID_IMAGE_DESCRIPTOR or CL_INVALID_IMAGE_SIZE for a description that makes
    /// no sense.
    pub fn image(context: &Context, flags: u64, like: ImageDescription, of: Material<'_>) -> Result<Self, Status> {
        let bytes = like.bytes().ok_or(cl::CL_INVALID_IMAGE_SIZE)?;
        let (mut flags, mut host, mut buffer) = (flags, std::ptr::null_mut(), std::ptr::null_mut());
        match of {
            Material::Own => {}
            Material::Copied(contents) if contents.len() as u64 != bytes => return Err(cl::CL_INVALID_IMAGE_SIZE),
            Material::Copied(contents) => {
                flags |= cl::CL_MEM_COPY_HOST_PTR;
                host = contents.as_ptr().cast_mut().cast();
            }
            Material::Of(of) => {
                match of.shape {
                    Shape::Buffer(size) if like.bytes_of_buffer().is_none_or(|needed| needed > size) => {
                        return Err(cl::CL_INVALID_IMAGE_DESCRIPTOR);
                    }
                    Shape::Image(of) if of.extent != like.extent => return Err(cl::CL_INVALID_IMAGE_DESCRIPTOR),
                    _ => {}
                }
                buffer = of.mem;
            }
        }
        let [width, y, z] = sizes(like.extent);
        let (image_type, height, depth, array) = match like.kind {
            ImageKind::Image1D => (cl::CL_MEM_OBJECT_IMAGE1D, 0, 0, 0),
            ImageKind::Image1DBuffer => (cl::CL_MEM_OBJECT_IMAGE1D_BUFFER, 0, 0, 0),
            ImageKind::Image1DArray => (cl::CL_MEM_OBJECT_IMAGE1D_ARRAY, 0, 0, y),
            ImageKind::Image2D => (cl::CL_MEM_OBJECT_IMAGE2D, y, 0, 0),
            ImageKind::Image2DArray => (cl::CL_MEM_OBJECT_IMAGE2D_ARRAY, y, 0, z),
            ImageKind::Image3D => (cl::CL_MEM_OBJECT_IMAGE3D, y, z, 0),
        };
        if like.extent[like.kind.dimensions()..].iter().any(|n| *n != 1) {
            return Err(cl::CL_INVALID_IMAGE_DESCRIPTOR);
        }
        let format = cl::cl_image_format {
            image_channel_order: like.format.order,
            image_channel_data_type: like.format.data_type,
        };
        let described = cl::_cl_image_desc {
            image_type,
            image_width: width,
            image_height: height,
            image_depth: depth,
            image_array_size: array,
            image_row_pitch: like.row_pitch as usize,
            image_slice_pitch: 0,
            num_mip_levels: 0,
            num_samples: 0,
            buffer,
        };
        let mut status = 0;
        // SAFETY: `host` is null or holds all elements, packed, which the call copies before it returns; `buffer` is
        // null or alive. The description is laid out as the header's, whose last member is a union of two handles.
        let mem = unsafe {
            (api().clCreateImage)(
                context.0,
                flags,
                &raw const format,
                (&raw const described).cast(),
                host,
                &raw mut status,
            )
        };
        check(status)?;
        Ok(match of {
            Material::Of(of) => Self::within(mem, Shape::Image(like), of.clone()),
            _ => Self::of(mem, Shape::Image(like)),
        })
    }

    /// The image's description.
    fn like(&self) -> Result<&ImageDescription, Status> {
        match &self.shape {
            Shape::Image(like) => Ok(like),
            Shape::Buffer(_) | Shape::Pipe => Err(cl::CL_INVALID_MEM_OBJECT),
        }
    }

    /// The bytes of a part of the image, which must be one.
    fn part(&self, part: &ImagePart) -> Result<usize, Status> {
        let like = self.like()?;
        let bytes = like.region_bytes(part.region).and_then(|bytes| usize::try_from(bytes).ok());
        bytes.filter(|_| like.holds(part)).ok_or(cl::CL_INVALID_VALUE)
    }
}

impl Context {
    /// clGetSupportedImageFormats.
    ///
    /// # Errors
    /// The status of the native call.
    pub fn image_formats(&self, flags: u64, image_type: u32) -> Result<Vec<ImageFormat>, Status> {
        let ask = |room: u32, list: *mut cl::cl_image_format, count: &mut u32| {
            // SAFETY: `list` is null or has `room` entries.
            check(unsafe { (api().clGetSupportedImageFormats)(self.0, flags, image_type, room, list, count) })
        };
        let mut count = 0;
        ask(0, std::ptr::null_mut(), &mut count)?;
        let count = count.min(MAX_FORMATS);
        let none = cl::cl_image_format { image_channel_order: 0, image_channel_data_type: 0 };
        let mut list = vec![none; count as usize];
        if count > 0 {
            ask(count, list.as_mut_ptr(), &mut 0)?;
        }
        let format = |f: &cl::cl_image_format| ImageFormat {
            order: f.image_channel_order,
            data_type: f.image_channel_data_type,
        };
        Ok(list.iter().map(format).collect())
    }
}

impl Queue {
    /// clEnqueueWriteImage of packed bytes, not blocking.
    ///
    /// # Errors
    /// The status of the native call; CL_INVALID_VALUE when the part is none of the image, or has not `size` bytes.
    ///
    /// # Safety
    /// `from` must be readable for `size` bytes until the command has ended.
    pub unsafe fn write_image(
        &self,
        image: &Memory,
        part: &ImagePart,
        (from, size): (*const u8, usize),
        waits: &Waits<'_>,
        event: bool,
    ) -> Result<Option<Event>, Status> {
        if image.part(part)? != size {
            return Err(cl::CL_INVALID_VALUE);
        }
        let (origin, region) = (sizes(part.origin), sizes(part.region));
        let (count, list) = waits.parts();
        // SAFETY: the part is within the image and has `size` packed bytes; the caller answers for `from`.
        self.enqueue(waits, event, |out| unsafe {
            (api().clEnqueueWriteImage)(
                self.raw(),
                image.mem,
                cl::CL_FALSE,
                origin.as_ptr(),
                region.as_ptr(),
                0,
                0,
                from.cast(),
                count,
                list,
                out,
            )
        })
    }

    /// clEnqueueReadImage into packed bytes, not blocking, always with an event.
    ///
    /// # Errors
    /// As [`Queue::write_image`].
    ///
    /// # Safety
    /// `into` must be writable for `size` bytes, and nothing else may touch it, until the command has ended.
    pub unsafe fn read_image(
        &self,
        image: &Memory,
        part: &ImagePart,
        (into, size): (*mut u8, usize),
        waits: &Waits<'_>,
    ) -> Result<Event, Status> {
        if image.part(part)? != size {
            return Err(cl::CL_INVALID_VALUE);
        }
        let (origin, region) = (sizes(part.origin), sizes(part.region));
        let (count, list) = waits.parts();
        // SAFETY: as in `write_image`.
        let event = self.enqueue(waits, true, |out| unsafe {
            (api().clEnqueueReadImage)(
                self.raw(),
                image.mem,
                cl::CL_FALSE,
                origin.as_ptr(),
                region.as_ptr(),
                0,
                0,
                into.cast(),
                count,
                list,
                out,
            )
        })?;
        event.ok_or(cl::CL_OUT_OF_RESOURCES)
    }

    /// clEnqueueCopyImage.
    ///
    /// # Errors
    /// The status of the native call; CL_INVALID_VALUE when a region leaves its image, CL_IMAGE_FORMAT_MISMATCH.
    pub fn copy_image(
        &self,
        (source, from): (&Memory, [u64; 3]),
        (target, to): (&Memory, [u64; 3]),
        region: [u64; 3],
        waits: &Waits<'_>,
        event: bool,
    ) -> Result<Option<Event>, Status> {
        source.part(&ImagePart { origin: from, region })?;
        target.part(&ImagePart { origin: to, region })?;
        if source.like()?.format != target.like()?.format {
            return Err(cl::CL_IMAGE_FORMAT_MISMATCH);
        }
        let (from, to, region) = (sizes(from), sizes(to), sizes(region));
        let (count, list) = waits.parts();
        // SAFETY: both regions are within their images.
        self.enqueue(waits, event, |out| unsafe {
            (api().clEnqueueCopyImage)(
                self.raw(),
                source.mem,
                target.mem,
                from.as_ptr(),
                to.as_ptr(),
                region.as_ptr(),
                count,
                list,
                out,
            )
        })
    }

    /// clEnqueueCopyImageToBuffer.
    ///
    /// # Errors
    /// The status of the native call; CL_INVALID_VALUE when a region leaves its object.
    pub fn copy_image_to_buffer(
        &self,
        (source, part): (&Memory, &ImagePart),
        (target, offset): (&Memory, u64),
        waits: &Waits<'_>,
        event: bool,
    ) -> Result<Option<Event>, Status> {
        let (offset, _) = target.range(offset, source.part(part)? as u64)?;
        let (origin, region) = (sizes(part.origin), sizes(part.region));
        let (count, list) = waits.parts();
        // SAFETY: the part is within the image, and its bytes within the buffer.
        self.enqueue(waits, event, |out| unsafe {
            (api().clEnqueueCopyImageToBuffer)(
                self.raw(),
                source.mem,
                target.mem,
                origin.as_ptr(),
                region.as_ptr(),
                offset,
                count,
                list,
                out,
            )
        })
    }

    /// clEnqueueCopyBufferToImage.
    ///
    /// # Errors
    /// The status of the native call; CL_INVALID_VALUE when a region leaves its object.
    pub fn copy_buffer_to_image(
        &self,
        (source, offset): (&Memory, u64),
        (target, part): (&Memory, &ImagePart),
        waits: &Waits<'_>,
        event: bool,
    ) -> Result<Option<Event>, Status> {
        let (offset, _) = source.range(offset, target.part(part)? as u64)?;
        let (origin, region) = (sizes(part.origin), sizes(part.region));
        let (count, list) = waits.parts();
        // SAFETY: the part is within the image, and its bytes within the buffer.
        self.enqueue(waits, event, |out| unsafe {
            (api().clEnqueueCopyBufferToImage)(
                self.raw(),
                source.mem,
                target.mem,
                offset,
                origin.as_ptr(),
                region.as_ptr(),
                count,
                list,
                out,
            )
        })
    }

    /// clEnqueueFillImage. `color` is four numbers of 32 bits, of the kind that the image's format asks for; the native
    /// call copies them before it returns.
    ///
    /// # Errors
    /// The status of the native call; CL_INVALID_VALUE when the part is none of the image.
    pub fn fill_image(
        &self,
        image: &Memory,
        part: &ImagePart,
        color: [u32; 4],
        waits: &Waits<'_>,
        event: bool,
    ) -> Result<Option<Event>, Status> {
        image.part(part)?;
        let (origin, region) = (sizes(part.origin), sizes(part.region));
        let (count, list) = waits.parts();
        // SAFETY: the part is within the image, and the color is as long as the longest that is read.
        self.enqueue(waits, event, |out| unsafe {
            (api().clEnqueueFillImage)(
                self.raw(),
                image.mem,
                color.as_ptr().cast(),
                origin.as_ptr(),
                region.as_ptr(),
                count,
                list,
                out,
            )
        })
    }
}

//! Images of commands, and parts of them.

use ropeway_abi::{
    CL_INVALID_IMAGE_SIZE, CL_INVALID_MEM_OBJECT, CL_INVALID_OPERATION, CL_INVALID_VALUE, cl_int, cl_mem,
};
use ropeway_client::image::Image;
use ropeway_protocol::image::ImagePart;

use super::image::fits;
use super::order::memory_for;
use crate::handle::Handle;
use crate::objects::{Memory, Queue};

/// The image that a command on `queue` is about.
///
/// # Errors
/// CL_INVALID_MEM_OBJECT if it is not a valid image object; CL_INVALID_CONTEXT if the context associated with the queue
/// and with the image are not the same; CL_INVALID_OPERATION if the queue's device does not support images;
/// CL_INVALID_IMAGE_SIZE if the image's dimensions are not supported by it.
pub(super) fn image_for(queue: &Queue, handle: cl_mem) -> Result<(Handle<Memory>, Image), cl_int> {
    let memory = memory_for(queue, handle)?;
    let image = *memory.client.as_image().ok_or(CL_INVALID_MEM_OBJECT)?;
    let limits = queue.device.limits.images.as_ref().ok_or(CL_INVALID_OPERATION)?;
    if fits(&image.like, limits) { Ok((memory, image)) } else { Err(CL_INVALID_IMAGE_SIZE) }
}

/// # Errors
/// CL_INVALID_VALUE if the region specified by origin and region is out of bounds, or if values in them do not follow
/// the rules: 0 in origin and 1 in region for what the type of image does not have, at least 1 in region.
pub(super) fn part_of(image: &Image, origin: [usize; 3], region: [usize; 3]) -> Result<ImagePart, cl_int> {
    let part = ImagePart { origin: origin.map(|n| n as u64), region: region.map(|n| n as u64) };
    if image.like.holds(&part) { Ok(part) } else { Err(CL_INVALID_VALUE) }
}

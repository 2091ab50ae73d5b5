//! The arguments of copies and fills, checked: the same for commands that are enqueued and for those that a command
//! buffer records.
//!
//! Rectangular copies of buffers are in [`super::rect`].

use std::ffi::c_void;

use ropeway_abi::{
    CL_DEPTH, CL_IMAGE_FORMAT_MISMATCH, CL_INVALID_CONTEXT, CL_INVALID_MEM_OBJECT, CL_INVALID_VALUE,
    CL_MEM_COPY_OVERLAP, cl_int, cl_mem,
};
use ropeway_protocol::image::ImagePart;

use super::image_part::{image_for, part_of};
use super::order::{buffer_for, check_alignment, check_region, find_buffer};
use super::three;
use crate::handle::Handle;
use crate::objects::{Memory, Queue};

/// The largest type of OpenCL C, double16 and long16.
const MAX_PATTERN: usize = 128;

/// The buffers of a copy.
///
/// # Errors
/// CL_INVALID_MEM_OBJECT, and as said below.
pub fn copy(
    queue: &Queue,
    (source, target): (cl_mem, cl_mem),
    (source_offset, target_offset): (usize, usize),
    size: usize,
) -> Result<(Handle<Memory>, Handle<Memory>), cl_int> {
    let source = find_buffer(source)?;
    let target = find_buffer(target)?;
    // CL_INVALID_CONTEXT if the contexts of the queue and of the buffers are not the same.
    if source.context != queue.context || target.context != queue.context {
        return Err(CL_INVALID_CONTEXT);
    }
    check_alignment(&queue.device, &source)?;
    check_alignment(&queue.device, &target)?;
    // CL_INVALID_VALUE if either region is out of bounds.
    check_region(&source, source_offset, size)?;
    check_region(&target, target_offset, size)?;
    // CL_MEM_COPY_OVERLAP if both are the same buffer or sub-buffer object and the regions overlap, or if they are
    // different sub-buffers of the same associated buffer object and they overlap.
    let (from, to) = (source.client.offset() + source_offset, target.client.offset() + target_offset);
    if source.client.storage_id() == target.client.storage_id() && from.abs_diff(to) < size {
        return Err(CL_MEM_COPY_OVERLAP);
    }
    Ok((source, target))
}

/// The bytes of a fill's pattern; in shared virtual memory the offset is the address.
///
/// # Errors
/// As said below.
///
/// # Safety
/// `pattern` is null or valid for reads of `len` bytes, for as long as the call lasts.
pub unsafe fn pattern<'a>(
    pattern: *const c_void,
    len: usize,
    (offset, size): (usize, usize),
) -> Result<&'a [u8], cl_int> {
    // CL_INVALID_VALUE if pattern is NULL, or if pattern_size is not one of 1, 2, 4, ... 128.
    if pattern.is_null() || !len.is_power_of_two() || len > MAX_PATTERN {
        return Err(CL_INVALID_VALUE);
    }
    // CL_INVALID_VALUE if offset and size are not a multiple of pattern_size.
    if !offset.is_multiple_of(len) || !size.is_multiple_of(len) {
        return Err(CL_INVALID_VALUE);
    }
    // SAFETY: the caller's promise; not null.
    Ok(unsafe { std::slice::from_raw_parts(pattern.cast::<u8>(), len) })
}

/// The buffer of a fill.
///
/// # Errors
/// CL_INVALID_MEM_OBJECT, CL_INVALID_CONTEXT; CL_INVALID_VALUE if the region is out of bounds.
pub fn fill(queue: &Queue, buffer: cl_mem, offset: usize, size: usize) -> Result<Handle<Memory>, cl_int> {
    let buffer = buffer_for(queue, buffer)?;
    check_region(&buffer, offset, size)?;
    Ok(buffer)
}

/// Images and the parts of them that a copy is about.
pub struct ImageCopy {
    pub source: (Handle<Memory>, ImagePart),
    pub target: (Handle<Memory>, ImagePart),
}

/// # Errors
/// As [`image_for`] and [`part_of`], and as said below.
///
/// # Safety
/// The three pointers are null or valid for reads of three sizes.
pub unsafe fn copy_image(
    queue: &Queue,
    (source, target): (cl_mem, cl_mem),
    (source_origin, target_origin, region): (*const usize, *const usize, *const usize),
) -> Result<ImageCopy, cl_int> {
    let (source, source_image) = image_for(queue, source)?;
    let (target, target_image) = image_for(queue, target)?;
    // CL_IMAGE_FORMAT_MISMATCH if both do not use the same image format.
    if source_image.like.format != target_image.like.format {
        return Err(CL_IMAGE_FORMAT_MISMATCH);
    }
    // SAFETY: the caller's promise.
    let (from, to, region) = unsafe { (three(source_origin)?, three(target_origin)?, three(region)?) };
    let from = part_of(&source_image, from, region)?;
    let to = part_of(&target_image, to, region)?;
    // CL_MEM_COPY_OVERLAP if both are the same image object and the regions overlap.
    let apart = |dim: usize| from.origin[dim].abs_diff(to.origin[dim]) >= from.region[dim];
    if source == target && !(0..3).any(apart) {
        return Err(CL_MEM_COPY_OVERLAP);
    }
    Ok(ImageCopy { source: (source, from), target: (target, to) })
}

/// The image, the part of it, and the buffer of a copy between the two, in either direction.
///
/// # Errors
/// As [`image_for`], [`buffer_for`] and [`part_of`], and as said below.
///
/// # Safety
/// The pointers are null or valid for reads of three sizes.
pub unsafe fn image_and_buffer(
    queue: &Queue,
    image: cl_mem,
    (origin, region): (*const usize, *const usize),
    (buffer, offset): (cl_mem, usize),
) -> Result<(Handle<Memory>, ImagePart, Handle<Memory>), cl_int> {
    let (memory, image) = image_for(queue, image)?;
    let buffer = buffer_for(queue, buffer)?;
    // CL_INVALID_MEM_OBJECT if the image is a 1D image buffer object created from the buffer.
    if memory.parent.as_ref().is_some_and(|parent| *parent == buffer) {
        return Err(CL_INVALID_MEM_OBJECT);
    }
    // SAFETY: the caller's promise.
    let part = part_of(&image, unsafe { three(origin)? }, unsafe { three(region)? })?;
    // CL_INVALID_VALUE if the region of the buffer, offset and as many bytes as the part of the image has, is out of
    // bounds.
    let end = image.like.region_bytes(part.region).and_then(|bytes| bytes.checked_add(offset as u64));
    if end.is_none_or(|end| end > buffer.client.size() as u64) {
        return Err(CL_INVALID_VALUE);
    }
    Ok((memory, part, buffer))
}

/// The image, the part of it, and the color of a fill.
///
/// # Errors
/// As [`image_for`] and [`part_of`], and as said below.
///
/// # Safety
/// `origin` and `region` are null or valid for reads of three sizes; `color` is null or what the image's format asks
/// for.
pub unsafe fn fill_image(
    queue: &Queue,
    image: cl_mem,
    color: *const c_void,
    (origin, region): (*const usize, *const usize),
) -> Result<(Handle<Memory>, ImagePart, [u32; 4]), cl_int> {
    let (memory, image) = image_for(queue, image)?;
    // CL_INVALID_VALUE if fill_color is NULL.
    if color.is_null() {
        return Err(CL_INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    let part = part_of(&image, unsafe { three(origin)? }, unsafe { three(region)? })?;
    let color = color.cast::<u32>();
    let color = match image.like.format.order {
        // A depth is one number, where a color is four.
        // SAFETY: the caller's promise.
        CL_DEPTH => [unsafe { color.read_unaligned() }, 0, 0, 0],
        // SAFETY: the caller's promise.
        _ => unsafe { color.cast::<[u32; 4]>().read_unaligned() },
    };
    Ok((memory, part, color))
}

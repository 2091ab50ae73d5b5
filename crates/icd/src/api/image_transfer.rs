//! Reading, writing, mapping, copying and filling images (OpenCL 3.0 API, sections 5.3.4 to 5.3.8).

use std::ffi::c_void;
use std::ptr;

use ropeway_abi::{
    CL_COMMAND_READ_IMAGE, CL_COMMAND_WRITE_IMAGE, CL_FALSE, CL_INVALID_VALUE, cl_bool, cl_command_queue, cl_event,
    cl_int, cl_map_flags, cl_mem, cl_uint,
};
use ropeway_client::image::{Image, Layout};
use ropeway_client::transfer::Part;
use ropeway_protocol::image::ImagePart;

use super::copies::{self, ImageCopy};
use super::image_part::{image_for, part_of};
use super::mapping::check_map;
use super::order::Request;
use super::transfer::{InHost, read, write};
use super::{put, three};
use crate::handle::Handle;
use crate::objects::Queue;
use crate::{guard, host};

/// The elements of a read or a write in the image and in the host's memory, checked.
///
/// # Errors
/// Those of [`three`] and [`part_of`]; CL_INVALID_VALUE if a pitch is neither 0 nor enough for the rows or slices.
///
/// # Safety
/// `origin` and `region` are null or have three entries.
unsafe fn places<P>(
    image: &Image,
    (origin, region): (*const usize, *const usize),
    (row_pitch, slice_pitch): (usize, usize),
    ptr: P,
) -> Result<(ImagePart, InHost<P>), cl_int> {
    // SAFETY: the caller's promise.
    let (origin, region) = unsafe { (three(origin)?, three(region)?) };
    let part = part_of(image, origin, region)?;
    let layout = Layout::new(image.like.kind, image.element(), region, row_pitch, slice_pitch);
    let region = layout.and_then(|layout| layout.region(region)).ok_or(CL_INVALID_VALUE)?;
    Ok((part, InHost { ptr, first: 0, region }))
}

/// clEnqueueReadImage.
pub unsafe extern "C" fn clEnqueueReadImage(
    queue: cl_command_queue,
    image: cl_mem,
    blocking: cl_bool,
    origin: *const usize,
    region: *const usize,
    row_pitch: usize,
    slice_pitch: usize,
    ptr: *mut c_void,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueReadImage", || {
        let queue = Handle::<Queue>::find(queue)?;
        let (memory, image) = image_for(&queue, image)?;
        // SAFETY: the caller's promise.
        let (part, in_host) = unsafe { places(&image, (origin, region), (row_pitch, slice_pitch), ptr)? };
        let part = Part::Image(&memory.client, part);
        let events = (num_events, wait_list, event);
        // SAFETY: the caller's promise.
        unsafe { read(&queue, (&memory, part), in_host, blocking, events, CL_COMMAND_READ_IMAGE) }
    })
}

/// clEnqueueWriteImage.
pub unsafe extern "C" fn clEnqueueWriteImage(
    queue: cl_command_queue,
    image: cl_mem,
    blocking: cl_bool,
    origin: *const usize,
    region: *const usize,
    row_pitch: usize,
    slice_pitch: usize,
    ptr: *const c_void,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueWriteImage", || {
        let queue = Handle::<Queue>::find(queue)?;
        let (memory, image) = image_for(&queue, image)?;
        // SAFETY: the caller's promise.
        let (part, in_host) = unsafe { places(&image, (origin, region), (row_pitch, slice_pitch), ptr)? };
        let part = Part::Image(&memory.client, part);
        let events = (num_events, wait_list, event);
        // SAFETY: the caller's promise.
        unsafe { write(&queue, (&memory, part), in_host, blocking, events, CL_COMMAND_WRITE_IMAGE) }
    })
}

/// clEnqueueCopyImage.
pub unsafe extern "C" fn clEnqueueCopyImage(
    queue: cl_command_queue,
    source: cl_mem,
    target: cl_mem,
    source_origin: *const usize,
    target_origin: *const usize,
    region: *const usize,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueCopyImage", || {
        let queue = Handle::<Queue>::find(queue)?;
        let origins = (source_origin, target_origin, region);
        // SAFETY: the caller's promise.
        let ImageCopy { source, target } = unsafe { copies::copy_image(&queue, (source, target), origins)? };
        // SAFETY: the caller's promise.
        let request = unsafe { Request::read(&queue, num_events, wait_list, event)? };
        request.run(&queue, |order| {
            let ((source, from), (target, to)) = (&source, &target);
            let (source, target) = ((&*source.client, from.origin), (&*target.client, to.origin));
            queue.client.enqueue_copy_image(source, target, from.region, order)
        })
    })
}

/// clEnqueueCopyImageToBuffer.
pub unsafe extern "C" fn clEnqueueCopyImageToBuffer(
    queue: cl_command_queue,
    source: cl_mem,
    target: cl_mem,
    origin: *const usize,
    region: *const usize,
    offset: usize,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueCopyImageToBuffer", || {
        let queue = Handle::<Queue>::find(queue)?;
        // SAFETY: the caller's promise.
        let (source, part, target) =
            unsafe { copies::image_and_buffer(&queue, source, (origin, region), (target, offset))? };
        // SAFETY: the caller's promise.
        let request = unsafe { Request::read(&queue, num_events, wait_list, event)? };
        request.run(&queue, |order| {
            queue.client.enqueue_copy_image_to_buffer((&source.client, part), (&target.client, offset), order)
        })
    })
}

/// clEnqueueCopyBufferToImage.
pub unsafe extern "C" fn clEnqueueCopyBufferToImage(
    queue: cl_command_queue,
    source: cl_mem,
    target: cl_mem,
    offset: usize,
    origin: *const usize,
    region: *const usize,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueCopyBufferToImage", || {
        let queue = Handle::<Queue>::find(queue)?;
        // SAFETY: the caller's promise.
        let (target, part, source) =
            unsafe { copies::image_and_buffer(&queue, target, (origin, region), (source, offset))? };
        // SAFETY: the caller's promise.
        let request = unsafe { Request::read(&queue, num_events, wait_list, event)? };
        request.run(&queue, |order| {
            queue.client.enqueue_copy_buffer_to_image((&source.client, offset), (&target.client, part), order)
        })
    })
}

/// clEnqueueFillImage.
pub unsafe extern "C" fn clEnqueueFillImage(
    queue: cl_command_queue,
    image: cl_mem,
    fill_color: *const c_void,
    origin: *const usize,
    region: *const usize,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueFillImage", || {
        let queue = Handle::<Queue>::find(queue)?;
        // SAFETY: the caller's promise.
        let (memory, part, color) = unsafe { copies::fill_image(&queue, image, fill_color, (origin, region))? };
        // SAFETY: the caller's promise.
        let request = unsafe { Request::read(&queue, num_events, wait_list, event)? };
        request.run(&queue, |order| queue.client.enqueue_fill_image(&memory.client, part, color, order))
    })
}

/// clEnqueueMapImage.
pub unsafe extern "C" fn clEnqueueMapImage(
    queue: cl_command_queue,
    image: cl_mem,
    blocking: cl_bool,
    flags: cl_map_flags,
    origin: *const usize,
    region: *const usize,
    row_pitch: *mut usize,
    slice_pitch: *mut usize,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
    errcode_ret: *mut cl_int,
) -> *mut c_void {
    // SAFETY: the caller's promise, here and below.
    unsafe {
        guard::create("clEnqueueMapImage", errcode_ret, || {
            let queue = Handle::<Queue>::find(queue)?;
            let (memory, image) = image_for(&queue, image)?;
            let part = part_of(&image, three(origin)?, three(region)?)?;
            // CL_INVALID_VALUE if image_row_pitch is NULL, or if image_slice_pitch is for a 3D image or an array.
            if row_pitch.is_null() || image.like.kind.slices().is_some() && slice_pitch.is_null() {
                return Err(CL_INVALID_VALUE);
            }
            check_map(&memory, flags)?;
            let request = Request::read(&queue, num_events, wait_list, event)?;
            let address = request.run_with(&queue, |order| {
                let blocking = blocking != CL_FALSE;
                queue.client.enqueue_map_image(&memory.client, flags, part, blocking, order, host::allocate)
            })?;
            put(row_pitch, image.row_pitch);
            put(slice_pitch, image.slice_pitch);
            Ok(ptr::with_exposed_provenance_mut(address))
        })
    }
}

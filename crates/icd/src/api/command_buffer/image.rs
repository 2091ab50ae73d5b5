//! Recorded commands on images.

use std::ffi::c_void;

use ropeway_abi::{
    cl_command_buffer_khr, cl_command_properties_khr, cl_command_queue, cl_int, cl_mem, cl_mutable_command_khr,
    cl_sync_point_khr, cl_uint,
};

use super::record::Recording;
use crate::api::copies::{self, ImageCopy};
use crate::guard;

/// clCommandCopyImageKHR.
pub unsafe extern "C" fn clCommandCopyImageKHR(
    command_buffer: cl_command_buffer_khr,
    command_queue: cl_command_queue,
    properties: *const cl_command_properties_khr,
    source: cl_mem,
    target: cl_mem,
    source_origin: *const usize,
    target_origin: *const usize,
    region: *const usize,
    num_sync_points: cl_uint,
    wait_list: *const cl_sync_point_khr,
    sync_point: *mut cl_sync_point_khr,
    mutable_handle: *mut cl_mutable_command_khr,
) -> cl_int {
    guard::status("clCommandCopyImageKHR", || {
        let waits = (num_sync_points, wait_list);
        // SAFETY: the caller's promise.
        let recording =
            unsafe { Recording::begin(command_buffer, command_queue, properties, waits, sync_point, mutable_handle)? };
        // Errors as of clEnqueueCopyImage.
        let origins = (source_origin, target_origin, region);
        // SAFETY: the caller's promise.
        let copy = unsafe { copies::copy_image(recording.queue(), (source, target), origins)? };
        let ImageCopy { source: (source, from), target: (target, to) } = copy;
        recording.end(|commands, waits| {
            let (source, target) = ((&*source.client, from.origin), (&*target.client, to.origin));
            commands.record_copy_image(source, target, from.region, waits)
        })
    })
}

/// clCommandCopyImageToBufferKHR.
pub unsafe extern "C" fn clCommandCopyImageToBufferKHR(
    command_buffer: cl_command_buffer_khr,
    command_queue: cl_command_queue,
    properties: *const cl_command_properties_khr,
    source: cl_mem,
    target: cl_mem,
    origin: *const usize,
    region: *const usize,
    offset: usize,
    num_sync_points: cl_uint,
    wait_list: *const cl_sync_point_khr,
    sync_point: *mut cl_sync_point_khr,
    mutable_handle: *mut cl_mutable_command_khr,
) -> cl_int {
    guard::status("clCommandCopyImageToBufferKHR", || {
        let waits = (num_sync_points, wait_list);
        // SAFETY: the caller's promise.
        let recording =
            unsafe { Recording::begin(command_buffer, command_queue, properties, waits, sync_point, mutable_handle)? };
        // Errors as of clEnqueueCopyImageToBuffer.
        // SAFETY: the caller's promise.
        let (image, part, buffer) =
            unsafe { copies::image_and_buffer(recording.queue(), source, (origin, region), (target, offset))? };
        recording.end(|commands, waits| {
            commands.record_copy_image_to_buffer((&image.client, part), (&buffer.client, offset), waits)
        })
    })
}

/// clCommandCopyBufferToImageKHR.
pub unsafe extern "C" fn clCommandCopyBufferToImageKHR(
    command_buffer: cl_command_buffer_khr,
    command_queue: cl_command_queue,
    properties: *const cl_command_properties_khr,
    source: cl_mem,
    target: cl_mem,
    offset: usize,
    origin: *const usize,
    region: *const usize,
    num_sync_points: cl_uint,
    wait_list: *const cl_sync_point_khr,
    sync_point: *mut cl_sync_point_khr,
    mutable_handle: *mut cl_mutable_command_khr,
) -> cl_int {
    guard::status("clCommandCopyBufferToImageKHR", || {
        let waits = (num_sync_points, wait_list);
        // SAFETY: the caller's promise.
        let recording =
            unsafe { Recording::begin(command_buffer, command_queue, properties, waits, sync_point, mutable_handle)? };
        // Errors as of clEnqueueCopyBufferToImage.
        // SAFETY: the caller's promise.
        let (image, part, buffer) =
            unsafe { copies::image_and_buffer(recording.queue(), target, (origin, region), (source, offset))? };
        recording.end(|commands, waits| {
            commands.record_copy_buffer_to_image((&buffer.client, offset), (&image.client, part), waits)
        })
    })
}

/// clCommandFillImageKHR.
pub unsafe extern "C" fn clCommandFillImageKHR(
    command_buffer: cl_command_buffer_khr,
    command_queue: cl_command_queue,
    properties: *const cl_command_properties_khr,
    image: cl_mem,
    fill_color: *const c_void,
    origin: *const usize,
    region: *const usize,
    num_sync_points: cl_uint,
    wait_list: *const cl_sync_point_khr,
    sync_point: *mut cl_sync_point_khr,
    mutable_handle: *mut cl_mutable_command_khr,
) -> cl_int {
    guard::status("clCommandFillImageKHR", || {
        let waits = (num_sync_points, wait_list);
        // SAFETY: the caller's promise.
        let recording =
            unsafe { Recording::begin(command_buffer, command_queue, properties, waits, sync_point, mutable_handle)? };
        // Errors as of clEnqueueFillImage.
        // SAFETY: the caller's promise.
        let (image, part, color) =
            unsafe { copies::fill_image(recording.queue(), image, fill_color, (origin, region))? };
        recording.end(|commands, waits| commands.record_fill_image(&image.client, part, color, waits))
    })
}

//! Recorded commands on memory objects and shared virtual memory.

use std::ffi::c_void;

use ropeway_abi::{
    CL_INVALID_OPERATION, cl_command_buffer_khr, cl_command_properties_khr, cl_command_queue, cl_int, cl_mem,
    cl_mutable_command_khr, cl_sync_point_khr, cl_uint,
};

use super::record::Recording;
use crate::api::copies;
use crate::api::rect::Copy;
use crate::api::svm::{check_copy, region_of, supports};
use crate::guard;

/// clCommandCopyBufferKHR.
pub unsafe extern "C" fn clCommandCopyBufferKHR(
    command_buffer: cl_command_buffer_khr,
    command_queue: cl_command_queue,
    properties: *const cl_command_properties_khr,
    source: cl_mem,
    target: cl_mem,
    source_offset: usize,
    target_offset: usize,
    size: usize,
    num_sync_points: cl_uint,
    wait_list: *const cl_sync_point_khr,
    sync_point: *mut cl_sync_point_khr,
    mutable_handle: *mut cl_mutable_command_khr,
) -> cl_int {
    guard::status("clCommandCopyBufferKHR", || {
        let waits = (num_sync_points, wait_list);
        // SAFETY: the caller's promise.
        let recording =
            unsafe { Recording::begin(command_buffer, command_queue, properties, waits, sync_point, mutable_handle)? };
        // Errors as of clEnqueueCopyBuffer.
        let offsets = (source_offset, target_offset);
        let (source, target) = copies::copy(recording.queue(), (source, target), offsets, size)?;
        recording.end(|commands, waits| {
            commands.record_copy((&source.client, source_offset), (&target.client, target_offset), size, waits)
        })
    })
}

/// clCommandCopyBufferRectKHR.
pub unsafe extern "C" fn clCommandCopyBufferRectKHR(
    command_buffer: cl_command_buffer_khr,
    command_queue: cl_command_queue,
    properties: *const cl_command_properties_khr,
    source: cl_mem,
    target: cl_mem,
    source_origin: *const usize,
    target_origin: *const usize,
    region: *const usize,
    source_row_pitch: usize,
    source_slice_pitch: usize,
    target_row_pitch: usize,
    target_slice_pitch: usize,
    num_sync_points: cl_uint,
    wait_list: *const cl_sync_point_khr,
    sync_point: *mut cl_sync_point_khr,
    mutable_handle: *mut cl_mutable_command_khr,
) -> cl_int {
    guard::status("clCommandCopyBufferRectKHR", || {
        let waits = (num_sync_points, wait_list);
        // SAFETY: the caller's promise.
        let recording =
            unsafe { Recording::begin(command_buffer, command_queue, properties, waits, sync_point, mutable_handle)? };
        // Errors as of clEnqueueCopyBufferRect.
        let origins = (source_origin, target_origin, region);
        let pitches = ((source_row_pitch, source_slice_pitch), (target_row_pitch, target_slice_pitch));
        // SAFETY: the caller's promise.
        let Copy { source, target } = unsafe { Copy::read(recording.queue(), (source, target), origins, pitches)? };
        recording.end(|commands, waits| {
            commands.record_copy_rect((&source.0.client, source.1), (&target.0.client, target.1), waits)
        })
    })
}

/// clCommandFillBufferKHR.
pub unsafe extern "C" fn clCommandFillBufferKHR(
    command_buffer: cl_command_buffer_khr,
    command_queue: cl_command_queue,
    properties: *const cl_command_properties_khr,
    buffer: cl_mem,
    pattern: *const c_void,
    pattern_size: usize,
    offset: usize,
    size: usize,
    num_sync_points: cl_uint,
    wait_list: *const cl_sync_point_khr,
    sync_point: *mut cl_sync_point_khr,
    mutable_handle: *mut cl_mutable_command_khr,
) -> cl_int {
    guard::status("clCommandFillBufferKHR", || {
        let waits = (num_sync_points, wait_list);
        // SAFETY: the caller's promise.
        let recording =
            unsafe { Recording::begin(command_buffer, command_queue, properties, waits, sync_point, mutable_handle)? };
        // Errors as of clEnqueueFillBuffer.
        let buffer = copies::fill(recording.queue(), buffer, offset, size)?;
        // SAFETY: the caller's promise.
        let pattern = unsafe { copies::pattern(pattern, pattern_size, (offset, size))? };
        recording.end(|commands, waits| commands.record_fill(&buffer.client, pattern, offset, size, waits))
    })
}

/// clCommandSVMMemcpyKHR.
pub unsafe extern "C" fn clCommandSVMMemcpyKHR(
    command_buffer: cl_command_buffer_khr,
    command_queue: cl_command_queue,
    properties: *const cl_command_properties_khr,
    dst_ptr: *mut c_void,
    src_ptr: *const c_void,
    size: usize,
    num_sync_points: cl_uint,
    wait_list: *const cl_sync_point_khr,
    sync_point: *mut cl_sync_point_khr,
    mutable_handle: *mut cl_mutable_command_khr,
) -> cl_int {
    guard::status("clCommandSVMMemcpyKHR", || {
        let waits = (num_sync_points, wait_list);
        // SAFETY: the caller's promise.
        let recording =
            unsafe { Recording::begin(command_buffer, command_queue, properties, waits, sync_point, mutable_handle)? };
        // CL_INVALID_OPERATION if the device associated with the queue does not support SVM.
        if !supports(&recording.queue().device) {
            return Err(CL_INVALID_OPERATION);
        }
        // Errors as of clEnqueueSVMMemcpy.
        check_copy(dst_ptr, src_ptr, size)?;
        // A recorded command is carried out later, and repeatedly, so it cannot name memory of the application's own.
        let target = region_of(recording.queue(), dst_ptr, size)?;
        let source = region_of(recording.queue(), src_ptr, size)?;
        recording.end(|commands, waits| commands.record_svm_copy(&source, &target, size, waits))
    })
}

/// clCommandSVMMemFillKHR.
pub unsafe extern "C" fn clCommandSVMMemFillKHR(
    command_buffer: cl_command_buffer_khr,
    command_queue: cl_command_queue,
    properties: *const cl_command_properties_khr,
    svm_ptr: *mut c_void,
    pattern: *const c_void,
    pattern_size: usize,
    size: usize,
    num_sync_points: cl_uint,
    wait_list: *const cl_sync_point_khr,
    sync_point: *mut cl_sync_point_khr,
    mutable_handle: *mut cl_mutable_command_khr,
) -> cl_int {
    guard::status("clCommandSVMMemFillKHR", || {
        let waits = (num_sync_points, wait_list);
        // SAFETY: the caller's promise.
        let recording =
            unsafe { Recording::begin(command_buffer, command_queue, properties, waits, sync_point, mutable_handle)? };
        // CL_INVALID_OPERATION if the device associated with the queue does not support SVM.
        if !supports(&recording.queue().device) {
            return Err(CL_INVALID_OPERATION);
        }
        // Errors as of clEnqueueSVMMemFill.
        // SAFETY: the caller's promise.
        let pattern = unsafe { copies::pattern(pattern, pattern_size, (svm_ptr.addr(), size))? };
        let region = region_of(recording.queue(), svm_ptr, size)?;
        recording.end(|commands, waits| commands.record_svm_fill(&region, pattern, size, waits))
    })
}

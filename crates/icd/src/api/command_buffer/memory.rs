//! Recorded commands on memory objects and shared virtual memory.

use std::ffi::c_void;

use ropeway_abi::{
    CL_INVALID_CONTEXT, CL_INVALID_OPERATION, CL_INVALID_VALUE, CL_MEM_COPY_OVERLAP, cl_command_buffer_khr,
    cl_command_properties_khr, cl_command_queue, cl_int, cl_mem, cl_mutable_command_khr, cl_sync_point_khr, cl_uint,
};

use super::record::Recording;
use crate::api::order::{buffer_for, check_region, find_buffer};
use crate::api::rect::Copy;
use crate::api::svm::{region_of, supports};
use crate::guard;

/// The largest type of OpenCL C, double16 and long16.
const MAX_PATTERN: usize = 128;

/// The bytes of a fill's pattern.
///
/// # Errors
/// CL_INVALID_VALUE if pattern is NULL, or if pattern_size is not one of 1, 2, 4, ... 128, or if offset and size are not a
/// multiple of it.
///
/// # Safety
/// `pattern` is null or valid for reads of `len` bytes, for as long as the call lasts.
unsafe fn read_pattern<'a>(pattern: *const c_void, len: usize, offset: usize, size: usize) -> Result<&'a [u8], cl_int> {
    if pattern.is_null() || !len.is_power_of_two() || len > MAX_PATTERN {
        return Err(CL_INVALID_VALUE);
    }
    if !offset.is_multiple_of(len) || !size.is_multiple_of(len) {
        return Err(CL_INVALID_VALUE);
    }
    // SAFETY: the caller's promise; not null.
    Ok(unsafe { std::slice::from_raw_parts(pattern.cast::<u8>(), len) })
}

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
        let (source, target) = (find_buffer(source)?, find_buffer(target)?);
        let context = &recording.queue().context;
        if source.context != *context || target.context != *context {
            return Err(CL_INVALID_CONTEXT);
        }
        check_region(&source, source_offset, size)?;
        check_region(&target, target_offset, size)?;
        if source == target && source_offset.abs_diff(target_offset) < size {
            return Err(CL_MEM_COPY_OVERLAP);
        }
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
        let buffer = buffer_for(recording.queue(), buffer)?;
        check_region(&buffer, offset, size)?;
        // SAFETY: the caller's promise.
        let pattern = unsafe { read_pattern(pattern, pattern_size, offset, size)? };
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
        if dst_ptr.is_null() || src_ptr.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        if dst_ptr.addr().abs_diff(src_ptr.addr()) < size {
            return Err(CL_MEM_COPY_OVERLAP);
        }
        // What is carried out later, and again, cannot be about memory of the application's own.
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
        let pattern = unsafe { read_pattern(pattern, pattern_size, svm_ptr.addr(), size)? };
        let region = region_of(recording.queue(), svm_ptr, size)?;
        recording.end(|commands, waits| commands.record_svm_fill(&region, pattern, size, waits))
    })
}

/// Functions whose ordinary commands are not recorded yet: arguments that they all have are checked, then they are refused.
macro_rules! refused {
    ($($name:ident ($($arg:ident: $type:ty),*);)*) => {$(
        #[doc = concat!(stringify!($name), ".")]
        pub unsafe extern "C" fn $name(
            command_buffer: cl_command_buffer_khr,
            command_queue: cl_command_queue,
            properties: *const cl_command_properties_khr,
            $($arg: $type,)*
            num_sync_points: cl_uint,
            wait_list: *const cl_sync_point_khr,
            sync_point: *mut cl_sync_point_khr,
            mutable_handle: *mut cl_mutable_command_khr,
        ) -> cl_int {
            guard::status(stringify!($name), || {
                let waits = (num_sync_points, wait_list);
                // SAFETY: the caller's promise.
                let _recording = unsafe {
                    Recording::begin(command_buffer, command_queue, properties, waits, sync_point, mutable_handle)?
                };
                Err::<(), _>(CL_INVALID_OPERATION)
            })
        }
    )*};
}

refused! {
    clCommandCopyBufferToImageKHR(
        _source: cl_mem, _target: cl_mem, _offset: usize, _origin: *const usize, _region: *const usize
    );
    clCommandCopyImageKHR(
        _source: cl_mem, _target: cl_mem, _source_origin: *const usize, _target_origin: *const usize,
        _region: *const usize
    );
    clCommandCopyImageToBufferKHR(
        _source: cl_mem, _target: cl_mem, _origin: *const usize, _region: *const usize, _offset: usize
    );
    clCommandFillImageKHR(_image: cl_mem, _color: *const c_void, _origin: *const usize, _region: *const usize);
}

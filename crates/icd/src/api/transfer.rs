//! Reading, writing, copying and filling buffers (OpenCL 3.0 API, section 5.2).

use std::ffi::c_void;

use ropeway_abi::{
    CL_COMMAND_READ_BUFFER, CL_COMMAND_WRITE_BUFFER, CL_FALSE, CL_INVALID_OPERATION, CL_INVALID_VALUE,
    CL_MEM_HOST_NO_ACCESS, CL_MEM_HOST_READ_ONLY, CL_MEM_HOST_WRITE_ONLY, cl_bool, cl_command_queue, cl_event, cl_int,
    cl_mem, cl_uint,
};

use ropeway_client::region::Region;
use ropeway_client::transfer::Part;

use super::copies;
use super::order::{Request, buffer_for, check_region};
use crate::handle::Handle;
use crate::objects::{Memory, Queue};
use crate::{guard, host};

/// clEnqueueReadBuffer.
pub unsafe extern "C" fn clEnqueueReadBuffer(
    queue: cl_command_queue,
    buffer: cl_mem,
    blocking: cl_bool,
    offset: usize,
    size: usize,
    ptr: *mut c_void,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueReadBuffer", || {
        let queue = Handle::<Queue>::find(queue)?;
        let buffer = buffer_for(&queue, buffer)?;
        // CL_INVALID_VALUE if the region is out of bounds or if ptr is a NULL value.
        check_region(&buffer, offset, size)?;
        if ptr.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        // SAFETY: the caller's promise.
        let request = unsafe { Request::read(&queue, num_events, wait_list, event)? };
        // CL_INVALID_OPERATION if the buffer was created with CL_MEM_HOST_WRITE_ONLY or CL_MEM_HOST_NO_ACCESS.
        check_access(&buffer, CL_MEM_HOST_WRITE_ONLY)?;
        // SAFETY: the caller's promise, until the command has ended.
        let target = unsafe { host::target(ptr, Region::flat(size)) };
        request.run(&queue, |order| {
            let part = Part::Bytes(&buffer.client, offset);
            queue.client.enqueue_read(part, target, blocking != CL_FALSE, order, CL_COMMAND_READ_BUFFER)
        })
    })
}

/// clEnqueueWriteBuffer.
pub unsafe extern "C" fn clEnqueueWriteBuffer(
    queue: cl_command_queue,
    buffer: cl_mem,
    blocking: cl_bool,
    offset: usize,
    size: usize,
    ptr: *const c_void,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueWriteBuffer", || {
        let queue = Handle::<Queue>::find(queue)?;
        let buffer = buffer_for(&queue, buffer)?;
        // CL_INVALID_VALUE if the region is out of bounds or if ptr is a NULL value.
        check_region(&buffer, offset, size)?;
        if ptr.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        // SAFETY: the caller's promise.
        let request = unsafe { Request::read(&queue, num_events, wait_list, event)? };
        // CL_INVALID_OPERATION if the buffer was created with CL_MEM_HOST_READ_ONLY or CL_MEM_HOST_NO_ACCESS.
        check_access(&buffer, CL_MEM_HOST_READ_ONLY)?;
        // SAFETY: the caller's promise, until the command has ended.
        let source = unsafe { host::source(ptr, Region::flat(size)) };
        request.run(&queue, |order| {
            let part = Part::Bytes(&buffer.client, offset);
            queue.client.enqueue_write(part, source, blocking != CL_FALSE, order, CL_COMMAND_WRITE_BUFFER)
        })
    })
}

/// # Errors
/// CL_INVALID_OPERATION if the buffer was created with `forbidden` or with CL_MEM_HOST_NO_ACCESS.
pub fn check_access(buffer: &Memory, forbidden: u64) -> Result<(), cl_int> {
    let forbidden = forbidden | CL_MEM_HOST_NO_ACCESS;
    if buffer.client.flags() & forbidden == 0 { Ok(()) } else { Err(CL_INVALID_OPERATION) }
}

/// clEnqueueCopyBuffer.
pub unsafe extern "C" fn clEnqueueCopyBuffer(
    queue: cl_command_queue,
    source: cl_mem,
    target: cl_mem,
    source_offset: usize,
    target_offset: usize,
    size: usize,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueCopyBuffer", || {
        let queue = Handle::<Queue>::find(queue)?;
        let (source, target) = copies::copy(&queue, (source, target), (source_offset, target_offset), size)?;
        // SAFETY: the caller's promise.
        let request = unsafe { Request::read(&queue, num_events, wait_list, event)? };
        request.run(&queue, |order| {
            let (source, target) = ((&*source.client, source_offset), (&*target.client, target_offset));
            queue.client.enqueue_copy(source, target, size, order)
        })
    })
}

/// clEnqueueFillBuffer.
pub unsafe extern "C" fn clEnqueueFillBuffer(
    queue: cl_command_queue,
    buffer: cl_mem,
    pattern: *const c_void,
    pattern_size: usize,
    offset: usize,
    size: usize,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueFillBuffer", || {
        let queue = Handle::<Queue>::find(queue)?;
        let buffer = copies::fill(&queue, buffer, offset, size)?;
        // SAFETY: the caller's promise.
        let pattern = unsafe { copies::pattern(pattern, pattern_size, (offset, size))? };
        // SAFETY: the caller's promise.
        let request = unsafe { Request::read(&queue, num_events, wait_list, event)? };
        request.run(&queue, |order| queue.client.enqueue_fill(&buffer.client, pattern, offset, size, order))
    })
}

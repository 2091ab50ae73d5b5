//! Mapping buffers (OpenCL 3.0 API, section 5.2.4 and 5.5.2).

use std::ffi::c_void;
use std::ptr;

use ropeway_abi::{
    CL_FALSE, CL_INVALID_VALUE, CL_MAP_READ, CL_MAP_WRITE, CL_MAP_WRITE_INVALIDATE_REGION, CL_MEM_HOST_READ_ONLY,
    CL_MEM_HOST_WRITE_ONLY, cl_bool, cl_command_queue, cl_event, cl_int, cl_map_flags, cl_mem, cl_uint,
};

use super::order::{Request, buffer_for, check_region, memory_for};
use super::transfer::check_access;
use crate::handle::Handle;
use crate::objects::{Memory, Queue};
use crate::{guard, host};

/// clEnqueueMapBuffer.
pub unsafe extern "C" fn clEnqueueMapBuffer(
    queue: cl_command_queue,
    buffer: cl_mem,
    blocking: cl_bool,
    flags: cl_map_flags,
    offset: usize,
    size: usize,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
    errcode_ret: *mut cl_int,
) -> *mut c_void {
    // SAFETY: the caller's promise, here and below.
    unsafe {
        guard::create("clEnqueueMapBuffer", errcode_ret, || {
            let queue = Handle::<Queue>::find(queue)?;
            let buffer = buffer_for(&queue, buffer)?;
            let request = Request::read(&queue, num_events, wait_list, event)?;
            // CL_INVALID_VALUE if the region is out of bounds, or if size is 0.
            check_region(&buffer, offset, size)?;
            check_map(&buffer, flags)?;
            let address = request.run_with(&queue, |order| {
                let blocking = blocking != CL_FALSE;
                queue.client.enqueue_map(&buffer.client, flags, offset, size, blocking, order, host::allocate)
            })?;
            Ok(ptr::with_exposed_provenance_mut(address))
        })
    }
}

/// # Errors
/// CL_INVALID_VALUE if values specified in map_flags are not valid: an invalidated region can be neither read nor kept.
/// CL_INVALID_OPERATION if the host may not read the object and CL_MAP_READ is set, or may not write it and one of the
/// others is.
pub fn check_map(memory: &Memory, flags: cl_map_flags) -> Result<(), cl_int> {
    let (read, write) = (flags & CL_MAP_READ != 0, flags & CL_MAP_WRITE != 0);
    let invalidate = flags & CL_MAP_WRITE_INVALIDATE_REGION != 0;
    let unknown = flags & !(CL_MAP_READ | CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION) != 0;
    if unknown || invalidate && (read || write) {
        return Err(CL_INVALID_VALUE);
    }
    if read {
        check_access(memory, CL_MEM_HOST_WRITE_ONLY)?;
    }
    if write || invalidate {
        check_access(memory, CL_MEM_HOST_READ_ONLY)?;
    }
    Ok(())
}

/// clEnqueueUnmapMemObject.
pub unsafe extern "C" fn clEnqueueUnmapMemObject(
    queue: cl_command_queue,
    memobj: cl_mem,
    mapped_ptr: *mut c_void,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueUnmapMemObject", || {
        let queue = Handle::<Queue>::find(queue)?;
        let memory = memory_for(&queue, memobj)?;
        // SAFETY: the caller's promise.
        let request = unsafe { Request::read(&queue, num_events, wait_list, event)? };
        // CL_INVALID_VALUE if mapped_ptr is not a valid pointer returned by clEnqueueMapBuffer for memobj: the client
        // knows.
        request.run(&queue, |order| queue.client.enqueue_unmap(&memory.client, mapped_ptr.addr(), order))
    })
}

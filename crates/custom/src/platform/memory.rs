//! Buffers.

use std::ffi::c_void;
use std::sync::Arc;

use ropeway_abi as cl;

use super::context::Context;
use super::handle::{Object, get, release, retain};
use super::info::give;
use crate::memory::{Range, Storage};

/// A buffer or a part of one.
pub(super) struct Memory {
    pub(super) range: Range,
    /// It lives as long as its objects.
    _context: Arc<Object<Context>>,
}

/// clCreateBuffer.
pub(super) unsafe extern "C" fn clCreateBuffer(
    context: cl::cl_context,
    flags: cl::cl_mem_flags,
    size: usize,
    host: *mut c_void,
    status: *mut cl::cl_int,
) -> cl::cl_mem {
    // SAFETY: the worker's own handle; `host` has `size` bytes where a flag says so.
    let made = unsafe { get::<Context, _>(context) }.ok_or(cl::CL_INVALID_CONTEXT).and_then(|context| {
        // SAFETY: as above.
        let range = unsafe { buffer(flags, size, host) }?;
        Ok(Object::new(Memory { range, _context: context }).into_handle())
    });
    // SAFETY: null or valid for a write.
    unsafe { give(status, made) }
}

/// Memory for a buffer.
///
/// # Safety
/// `host` has `size` bytes if `flags` say that it is used or copied; used, as long as the buffer lives.
unsafe fn buffer(flags: u64, size: usize, host: *mut c_void) -> Result<Range, cl::cl_int> {
    if size == 0 {
        return Err(cl::CL_INVALID_BUFFER_SIZE);
    }
    if flags & (cl::CL_MEM_USE_HOST_PTR | cl::CL_MEM_COPY_HOST_PTR) != 0 && host.is_null() {
        return Err(cl::CL_INVALID_HOST_PTR);
    }
    let storage = if flags & cl::CL_MEM_USE_HOST_PTR != 0 {
        // SAFETY: by the promise of the caller.
        unsafe { Storage::over(host, size) }
    } else {
        Storage::new(size)
    };
    let storage = storage.ok_or(cl::CL_MEM_OBJECT_ALLOCATION_FAILURE)?;
    let mut range = Range::new(&storage, 0, size).ok_or(cl::CL_INVALID_BUFFER_SIZE)?;
    if flags & cl::CL_MEM_COPY_HOST_PTR != 0 {
        // SAFETY: by the promise of the caller.
        range.bytes_mut().copy_from_slice(unsafe { std::slice::from_raw_parts(host.cast(), size) });
    }
    Ok(range)
}

/// clCreateSubBuffer.
pub(super) unsafe extern "C" fn clCreateSubBuffer(
    parent: cl::cl_mem,
    _: cl::cl_mem_flags,
    create_type: cl::cl_buffer_create_type,
    info: *const c_void,
    status: *mut cl::cl_int,
) -> cl::cl_mem {
    // SAFETY: the worker's own handle.
    let made = unsafe { get::<Memory, _>(parent) }.ok_or(cl::CL_INVALID_MEM_OBJECT).and_then(|parent| {
        if create_type != cl::CL_BUFFER_CREATE_TYPE_REGION || info.is_null() {
            return Err(cl::CL_INVALID_VALUE);
        }
        // SAFETY: it is of the type that goes with CL_BUFFER_CREATE_TYPE_REGION.
        let region = unsafe { info.cast::<cl::cl_buffer_region>().read() };
        let range = parent.range.part(region.origin, region.size).ok_or(cl::CL_INVALID_VALUE)?;
        Ok(Object::new(Memory { range, _context: parent._context.clone() }).into_handle())
    });
    // SAFETY: null or valid for a write.
    unsafe { give(status, made) }
}

/// clRetainMemObject.
pub(super) unsafe extern "C" fn clRetainMemObject(memory: cl::cl_mem) -> cl::cl_int {
    // SAFETY: the worker's own handle.
    if unsafe { retain::<Memory, _>(memory) } { cl::CL_SUCCESS } else { cl::CL_INVALID_MEM_OBJECT }
}

/// clReleaseMemObject. Commands that use it keep its memory.
pub(super) unsafe extern "C" fn clReleaseMemObject(memory: cl::cl_mem) -> cl::cl_int {
    // SAFETY: the worker's own handle, with a reference.
    if unsafe { release::<Memory, _>(memory) }.is_some() { cl::CL_SUCCESS } else { cl::CL_INVALID_MEM_OBJECT }
}

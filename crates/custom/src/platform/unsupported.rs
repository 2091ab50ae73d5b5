//! What custom devices do not have: images, samplers, word of a memory object's end.

use std::ffi::c_void;

use ropeway_abi as cl;

use super::info::{give, write};

/// clGetSupportedImageFormats: none.
pub(super) unsafe extern "C" fn clGetSupportedImageFormats(
    context: cl::cl_context,
    _: cl::cl_mem_flags,
    _: cl::cl_mem_object_type,
    _: cl::cl_uint,
    _: *mut cl::cl_image_format,
    count: *mut cl::cl_uint,
) -> cl::cl_int {
    if context.is_null() {
        return cl::CL_INVALID_CONTEXT;
    }
    // SAFETY: null or valid for a write.
    unsafe { write(count, 0) };
    cl::CL_SUCCESS
}

/// clCreateImage: CL_INVALID_OPERATION, as of a context whose devices have no images.
pub(super) unsafe extern "C" fn clCreateImage(
    context: cl::cl_context,
    _: cl::cl_mem_flags,
    _: *const cl::cl_image_format,
    _: *const cl::cl_image_desc,
    _: *mut c_void,
    status: *mut cl::cl_int,
) -> cl::cl_mem {
    let code = if context.is_null() { cl::CL_INVALID_CONTEXT } else { cl::CL_INVALID_OPERATION };
    // SAFETY: null or valid for a write.
    unsafe { give(status, Err(code)) }
}

/// clCreateSampler: CL_INVALID_OPERATION, likewise.
pub(super) unsafe extern "C" fn clCreateSampler(
    context: cl::cl_context,
    _: cl::cl_bool,
    _: cl::cl_addressing_mode,
    _: cl::cl_filter_mode,
    status: *mut cl::cl_int,
) -> cl::cl_sampler {
    let code = if context.is_null() { cl::CL_INVALID_CONTEXT } else { cl::CL_INVALID_OPERATION };
    // SAFETY: null or valid for a write.
    unsafe { give(status, Err(code)) }
}

/// clReleaseSampler: there are none.
pub(super) unsafe extern "C" fn clReleaseSampler(_: cl::cl_sampler) -> cl::cl_int {
    cl::CL_INVALID_SAMPLER
}

/// clSetMemObjectDestructorCallback: CL_INVALID_OPERATION. The worker asks for it only where it has given the memory.
pub(super) unsafe extern "C" fn clSetMemObjectDestructorCallback(
    memory: cl::cl_mem,
    _: Option<unsafe extern "C" fn(cl::cl_mem, *mut c_void)>,
    _: *mut c_void,
) -> cl::cl_int {
    if memory.is_null() { cl::CL_INVALID_MEM_OBJECT } else { cl::CL_INVALID_OPERATION }
}

macro_rules! of_images {
    ($($(#[$doc:meta])* $name:ident($($argument:ty),*);)*) => {
        $($(#[$doc])* pub(super) unsafe extern "C" fn $name($(_: $argument),*) -> cl::cl_int {
            // There is no image that it could be called with.
            cl::CL_INVALID_MEM_OBJECT
        })*
    };
}

type Sizes = *const usize;
type Events = *const cl::cl_event;

of_images! {
    /// clEnqueueReadImage.
    clEnqueueReadImage(cl::cl_command_queue, cl::cl_mem, cl::cl_bool, Sizes, Sizes, usize, usize, *mut c_void, cl::cl_uint, Events, *mut cl::cl_event);
    /// clEnqueueWriteImage.
    clEnqueueWriteImage(cl::cl_command_queue, cl::cl_mem, cl::cl_bool, Sizes, Sizes, usize, usize, *const c_void, cl::cl_uint, Events, *mut cl::cl_event);
    /// clEnqueueFillImage.
    clEnqueueFillImage(cl::cl_command_queue, cl::cl_mem, *const c_void, Sizes, Sizes, cl::cl_uint, Events, *mut cl::cl_event);
    /// clEnqueueCopyImage.
    clEnqueueCopyImage(cl::cl_command_queue, cl::cl_mem, cl::cl_mem, Sizes, Sizes, Sizes, cl::cl_uint, Events, *mut cl::cl_event);
    /// clEnqueueCopyImageToBuffer.
    clEnqueueCopyImageToBuffer(cl::cl_command_queue, cl::cl_mem, cl::cl_mem, Sizes, Sizes, usize, cl::cl_uint, Events, *mut cl::cl_event);
    /// clEnqueueCopyBufferToImage.
    clEnqueueCopyBufferToImage(cl::cl_command_queue, cl::cl_mem, cl::cl_mem, usize, Sizes, Sizes, cl::cl_uint, Events, *mut cl::cl_event);
}

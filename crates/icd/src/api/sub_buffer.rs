//! Sub-buffers (OpenCL 3.0 API, section 5.2.1).

use std::ffi::c_void;

use ropeway_abi::{
    CL_BUFFER_CREATE_TYPE_REGION, CL_INVALID_BUFFER_SIZE, CL_INVALID_MEM_OBJECT, CL_INVALID_VALUE,
    CL_MISALIGNED_SUB_BUFFER_OFFSET, cl_buffer_create_type, cl_buffer_region, cl_int, cl_mem, cl_mem_flags,
};
use ropeway_client::memory;

use super::memory::{HOST_POINTER, check_flags, inherited};
use super::order::{check_alignment, find_buffer};
use crate::guard;
use crate::handle::Handle;
use crate::objects::Memory;

/// clCreateSubBuffer.
pub unsafe extern "C" fn clCreateSubBuffer(
    buffer: cl_mem,
    flags: cl_mem_flags,
    create_type: cl_buffer_create_type,
    create_info: *const c_void,
    errcode_ret: *mut cl_int,
) -> cl_mem {
    // SAFETY: the caller's promise, here and below.
    unsafe {
        guard::create("clCreateSubBuffer", errcode_ret, || {
            // CL_INVALID_MEM_OBJECT if buffer is not a valid buffer object or is a sub-buffer object.
            let buffer = find_buffer(buffer)?;
            if buffer.parent.is_some() {
                return Err(CL_INVALID_MEM_OBJECT);
            }
            let flags = flags_of(buffer.client.flags(), flags)?;
            // CL_INVALID_VALUE if the value specified in buffer_create_type is not valid, or if buffer_create_info is
            // NULL.
            if create_type != CL_BUFFER_CREATE_TYPE_REGION || create_info.is_null() {
                return Err(CL_INVALID_VALUE);
            }
            let cl_buffer_region { origin, size } = create_info.cast::<cl_buffer_region>().read();
            // CL_INVALID_BUFFER_SIZE if size is 0.
            if size == 0 {
                return Err(CL_INVALID_BUFFER_SIZE);
            }
            // CL_INVALID_VALUE if the region specified by the cl_buffer_region structure is out of bounds in buffer.
            if origin.checked_add(size).is_none_or(|end| end > buffer.client.size()) {
                return Err(CL_INVALID_VALUE);
            }
            let client = memory::Memory::sub_buffer(&buffer.client, flags, origin, size)?;
            let context = buffer.context.clone();
            let memory = Memory { client, context, parent: Some(buffer.clone()), properties: Vec::new() };
            // CL_MISALIGNED_SUB_BUFFER_OFFSET if there are no devices in context for which the origin is aligned to
            // CL_DEVICE_MEM_BASE_ADDR_ALIGN.
            if buffer.context.devices.iter().all(|device| check_alignment(device, &memory).is_err()) {
                return Err(CL_MISALIGNED_SUB_BUFFER_OFFSET);
            }
            Ok(Handle::new(&buffer.context, memory)?.give())
        })
    }
}

/// The flags of a sub-buffer: its own, and the buffer's where its own leave the choice.
///
/// # Errors
/// CL_INVALID_VALUE for flags that are not valid, or that allow what the buffer does not.
fn flags_of(buffer: cl_mem_flags, flags: cl_mem_flags) -> Result<cl_mem_flags, cl_int> {
    check_flags(flags)?;
    // CL_INVALID_VALUE if flags specifies CL_MEM_USE_HOST_PTR, CL_MEM_ALLOC_HOST_PTR or CL_MEM_COPY_HOST_PTR.
    if flags & HOST_POINTER != 0 {
        return Err(CL_INVALID_VALUE);
    }
    inherited(buffer, flags)
}

#[cfg(test)]
mod tests {
    use ropeway_abi::{
        CL_MEM_COPY_HOST_PTR, CL_MEM_HOST_NO_ACCESS, CL_MEM_HOST_READ_ONLY, CL_MEM_HOST_WRITE_ONLY, CL_MEM_READ_ONLY,
        CL_MEM_READ_WRITE, CL_MEM_USE_HOST_PTR, CL_MEM_WRITE_ONLY,
    };

    use super::*;

    #[test]
    fn what_is_not_said_is_flags_of() {
        let buffer = CL_MEM_READ_ONLY | CL_MEM_HOST_WRITE_ONLY | CL_MEM_USE_HOST_PTR;
        assert_eq!(flags_of(buffer, 0), Ok(buffer));
        assert_eq!(flags_of(CL_MEM_READ_WRITE, CL_MEM_WRITE_ONLY), Ok(CL_MEM_WRITE_ONLY));
        let closed = CL_MEM_READ_ONLY | CL_MEM_HOST_NO_ACCESS | CL_MEM_USE_HOST_PTR;
        assert_eq!(flags_of(buffer, CL_MEM_HOST_NO_ACCESS), Ok(closed));
    }

    #[test]
    fn nothing_more_is_allowed() {
        for (buffer, flags) in [
            (CL_MEM_WRITE_ONLY, CL_MEM_READ_ONLY),
            (CL_MEM_WRITE_ONLY, CL_MEM_READ_WRITE),
            (CL_MEM_READ_ONLY, CL_MEM_READ_WRITE),
            (CL_MEM_HOST_NO_ACCESS, CL_MEM_HOST_READ_ONLY),
            (CL_MEM_HOST_READ_ONLY, CL_MEM_HOST_WRITE_ONLY),
            (CL_MEM_READ_WRITE, CL_MEM_COPY_HOST_PTR),
            (CL_MEM_READ_WRITE, CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY),
        ] {
            assert_eq!(flags_of(buffer, flags), Err(CL_INVALID_VALUE), "{buffer:#x} {flags:#x}");
        }
    }
}

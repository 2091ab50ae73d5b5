//! Buffers of which only the first bytes mean something (cl_pocl_content_size 1.0.0).

use ropeway_abi::{CL_INVALID_CONTEXT, CL_INVALID_VALUE, cl_int, cl_mem, cl_version};

use super::content_size;
use crate::handle::Handle;
use crate::objects::Memory;
use crate::{capabilities, guard};

/// The extension's name.
pub const NAME: &str = "cl_pocl_content_size";

/// Its version.
pub const VERSION: cl_version = capabilities::version(1, 0, 0);

/// Bytes that the number takes.
const SIZE: usize = 8;

super::functions! {
    content_size::clSetContentSizeBufferPoCL,
}

/// clSetContentSizeBufferPoCL.
pub unsafe extern "C" fn clSetContentSizeBufferPoCL(buffer: cl_mem, content_size_buffer: cl_mem) -> cl_int {
    guard::status("clSetContentSizeBufferPoCL", || {
        // CL_INVALID_MEM_OBJECT if buffer or content_size_buffer are not a valid mem objects.
        let (buffer, size) = (Handle::<Memory>::find(buffer)?, Handle::<Memory>::find(content_size_buffer)?);
        // CL_INVALID_VALUE if buffer or content_size_buffer are not of CL_MEM_OBJECT_BUFFER type, or
        // content_size_buffer is too small. It must be at least 64bits large.
        if !buffer.client.is_buffer() || !size.client.is_buffer() || size.client.size() < SIZE {
            return Err(CL_INVALID_VALUE);
        }
        // CL_INVALID_CONTEXT if buffer and content_size_buffer are not in the same context.
        if buffer.context != size.context {
            return Err(CL_INVALID_CONTEXT);
        }
        // A buffer that tells its own size would never be let go.
        if buffer.client.storage_id() == size.client.storage_id() {
            return Err(CL_INVALID_VALUE);
        }
        buffer.client.set_content_size(&size.client);
        Ok(())
    })
}

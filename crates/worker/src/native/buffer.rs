//! Buffers.

use ropeway_abi as cl;
use ropeway_protocol::types::Status;

use super::api::api;
use super::{Context, check};

/// A native buffer, with its size so that no access leaves it.
#[derive(Debug)]
pub struct Buffer {
    pub(super) mem: cl::cl_mem,
    size: u64,
}

// SAFETY: OpenCL's handles may be used from any thread (OpenCL 3.0 API, appendix A.2).
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// clCreateBuffer, with `contents` (as long as the buffer) where given. `flags` must be without those about host memory.
    ///
    /// # Errors
    /// What the native call returned.
    pub fn new(context: &Context, flags: u64, size: u64, contents: Option<&[u8]>) -> Result<Self, Status> {
        let bytes = usize::try_from(size).map_err(|_| cl::CL_INVALID_BUFFER_SIZE)?;
        let (flags, host) = match contents {
            Some(contents) if contents.len() != bytes => return Err(cl::CL_INVALID_BUFFER_SIZE),
            // The native call copies from the pointer before it returns.
            Some(contents) => (flags | cl::CL_MEM_COPY_HOST_PTR, contents.as_ptr().cast_mut().cast()),
            None => (flags, std::ptr::null_mut()),
        };
        let mut status = 0;
        // SAFETY: `host` is null or as long as the buffer.
        let mem = unsafe { (api().clCreateBuffer)(context.0, flags, bytes, host, &raw mut status) };
        check(status)?;
        Ok(Self { mem, size })
    }

    /// `offset` and `size` as native sizes, when they lie within the buffer.
    pub(super) fn range(&self, offset: u64, size: u64) -> Result<(usize, usize), Status> {
        match offset.checked_add(size) {
            Some(end) if end <= self.size => Ok((offset as usize, size as usize)),
            _ => Err(cl::CL_INVALID_VALUE),
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: this is the one reference that the value owns.
        unsafe { (api().clReleaseMemObject)(self.mem) };
    }
}

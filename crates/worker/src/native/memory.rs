//! Memory objects.

use ropeway_abi as cl;
use ropeway_protocol::types::Status;

use super::api::api;
use super::{Context, check};

/// A native memory object, with its shape so that no access leaves it.
#[derive(Debug)]
pub struct Memory {
    pub(super) mem: cl::cl_mem,
    pub(super) shape: Shape,
}

/// What a memory object is, and how much of it there is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    /// A buffer of so many bytes.
    Buffer(u64),
}

// SAFETY: OpenCL's handles may be used from any thread (OpenCL 3.0 API, appendix A.2).
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// clCreateBuffer, with `contents` (as long as the buffer) where given. `flags` must be without those about host memory.
    ///
    /// # Errors
    /// What the native call returned.
    pub fn buffer(context: &Context, flags: u64, size: u64, contents: Option<&[u8]>) -> Result<Self, Status> {
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
        Ok(Self { mem, shape: Shape::Buffer(size) })
    }

    /// `offset` and `size` as native sizes, when this is a buffer and they lie within it.
    pub(super) fn range(&self, offset: u64, size: u64) -> Result<(usize, usize), Status> {
        let Shape::Buffer(whole) = self.shape;
        match offset.checked_add(size) {
            Some(end) if end <= whole => Ok((offset as usize, size as usize)),
            _ => Err(cl::CL_INVALID_VALUE),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: this is the one reference that the value owns.
        unsafe { (api().clReleaseMemObject)(self.mem) };
    }
}

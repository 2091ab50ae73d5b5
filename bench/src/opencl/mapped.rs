//! Buffers that are mapped.

use std::ffi::c_void;
use std::ptr;

use opencl_sys::*;

use super::{Buffer, Context, Error, Queue, Result, call, check};

impl Context {
    /// A buffer of `size` bytes that is to be mapped (CL_MEM_ALLOC_HOST_PTR).
    pub fn buffer_to_map(&self, size: usize) -> Result<Buffer> {
        let (flags, mut status) = (CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, 0);
        // SAFETY: no host memory is given.
        let id = unsafe { call!(self.api, clCreateBuffer(self.id, flags, size, ptr::null_mut(), &mut status)) };
        check(status, "clCreateBuffer")?;
        Ok(Buffer { api: self.api, id })
    }
}

impl Queue {
    /// Maps `size` bytes of `buffer`, which has them, to read and write, and unmaps them. `visit` is given them as words.
    pub fn map_buffer<T>(&self, buffer: &mut Buffer, size: usize, visit: impl FnOnce(&mut [u32]) -> T) -> Result<T> {
        let (flags, none, mut status) = (CL_MAP_READ | CL_MAP_WRITE, ptr::null(), 0);
        // SAFETY: the buffer has so many bytes; the call blocks until the host may use them.
        let start: *mut c_void = unsafe {
            let (event, status) = (ptr::null_mut(), &mut status);
            call!(self.api, clEnqueueMapBuffer(self.id, buffer.id, CL_TRUE, flags, 0, size, 0, none, event, status))
        };
        check(status, "clEnqueueMapBuffer")?;
        // SAFETY: mapped memory is the host's until it is unmapped, and nobody else has `buffer`; mappings of whole buffers
        // are aligned for the largest type of OpenCL.
        let seen = visit(unsafe { std::slice::from_raw_parts_mut(start.cast(), size / size_of::<u32>()) });
        // SAFETY: it is mapped there, and the slice is gone.
        let status =
            unsafe { call!(self.api, clEnqueueUnmapMemObject(self.id, buffer.id, start, 0, none, ptr::null_mut())) };
        check(status, "clEnqueueUnmapMemObject")?;
        Ok(seen)
    }
}

//! Coarse-grain shared virtual memory.

use std::ffi::c_void;
use std::ptr;

use opencl_sys::*;

use super::{Context, Device, Error, Functions, Kernel, Queue, Result, call, check};

/// Memory that host and device have at the same address. It is freed before its context, and when no command uses it.
pub struct Svm {
    api: &'static Functions,
    context: cl_context,
    start: *mut c_void,
    size: usize,
}

impl Drop for Svm {
    fn drop(&mut self) {
        if let Some(free) = self.api.clSVMFree {
            // SAFETY: `start` was allocated in this context, and this is its only owner.
            unsafe { free(self.context, self.start) };
        }
    }
}

impl Device {
    /// Returns whether the device has coarse-grain shared virtual memory.
    pub fn has_svm(&self) -> Result<bool> {
        let mut can: cl_device_svm_capabilities = 0;
        let into = ptr::from_mut(&mut can).cast::<c_void>();
        let size = size_of_val(&can);
        // SAFETY: `into` is of the answer's type, whose size is given.
        let status = unsafe {
            call!(self.api, clGetDeviceInfo(self.id, CL_DEVICE_SVM_CAPABILITIES, size, into, ptr::null_mut()))
        };
        // Devices before OpenCL 2.0 do not know the question.
        Ok(status == CL_SUCCESS && can & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER != 0)
    }
}

impl Context {
    /// `size` bytes.
    pub fn svm(&self, size: usize) -> Result<Svm> {
        // SAFETY: the context is alive.
        let start = unsafe { call!(self.api, clSVMAlloc(self.id, CL_MEM_READ_WRITE, size, 0)) };
        if start.is_null() {
            return Err(Error("clSVMAlloc gave nothing".into()));
        }
        Ok(Svm { api: self.api, context: self.id, start, size })
    }
}

impl Kernel {
    /// Sets an argument to the start of `memory`.
    pub fn set_svm(&self, index: u32, memory: &Svm) -> Result<()> {
        // SAFETY: the pointer is to memory of the kernel's context.
        let status = unsafe { call!(self.api, clSetKernelArgSVMPointer(self.id, index, memory.start)) };
        check(status, "clSetKernelArgSVMPointer")
    }
}

impl Queue {
    /// Maps `memory`, calls `visit` with its contents as words, and unmaps it; the first word's address is that of the
    /// memory.
    pub fn map<T>(&self, memory: &mut Svm, flags: cl_map_flags, visit: impl FnOnce(&mut [u64]) -> T) -> Result<T> {
        let (start, size) = (memory.start, memory.size);
        // SAFETY: the memory has `size` bytes; the call blocks until the host may use them.
        let status = unsafe {
            call!(self.api, clEnqueueSVMMap(self.id, CL_TRUE, flags, start, size, 0, ptr::null(), ptr::null_mut()))
        };
        check(status, "clEnqueueSVMMap")?;
        // SAFETY: mapped memory is the host's until it is unmapped, and nobody else has `memory`; allocations are
        // aligned for the largest type of OpenCL.
        let seen = visit(unsafe { std::slice::from_raw_parts_mut(start.cast(), size / size_of::<u64>()) });
        // SAFETY: the memory is mapped, and the slice is gone.
        let status = unsafe { call!(self.api, clEnqueueSVMUnmap(self.id, start, 0, ptr::null(), ptr::null_mut())) };
        check(status, "clEnqueueSVMUnmap")?;
        Ok(seen)
    }
}

//! Command buffers (cl_khr_command_buffer); only the platform gives the addresses of their functions.

use std::ffi::CStr;
use std::ptr;

use opencl_sys::*;

use super::{Device, Error, Kernel, Queue, Result, check};

const NAME: &str = "cl_khr_command_buffer";
/// Version 0.9.8, whose functions opencl-sys describes; the functions of other versions have different arguments.
const VERSION: cl_version = (9 << 12) | 8;

/// Commands that have been recorded for one queue.
pub struct Recorded {
    enqueue: clEnqueueCommandBufferKHR_t,
    release: clReleaseCommandBufferKHR_t,
    id: cl_command_buffer_khr,
}

impl Drop for Recorded {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: `id` was created by this platform, and this is its only owner.
            unsafe { release(self.id) };
        }
    }
}

/// Calls a function of the extension. The caller's `unsafe` block says why the arguments are right.
macro_rules! call {
    ($function:expr, $($arg:expr),* $(,)?) => {
        match $function {
            Some(function) => function($($arg),*),
            None => return Err(Error(format!("{NAME} lacks a function"))),
        }
    };
}

impl Device {
    /// Returns whether the device has the version of command buffers that is used here.
    pub fn records(&self) -> Result<bool> {
        let none = cl_name_version { version: 0, name: [0; CL_NAME_VERSION_MAX_NAME_SIZE] };
        let mut list = vec![none; 512];
        let (size, mut used) = (size_of_val(list.as_slice()), 0);
        let into = list.as_mut_ptr().cast();
        // SAFETY: `into` has as many bytes as announced.
        let status = unsafe {
            super::call!(self.api, clGetDeviceInfo(self.id, CL_DEVICE_EXTENSIONS_WITH_VERSION, size, into, &mut used))
        };
        let found = list.iter().take(used / size_of::<cl_name_version>());
        let mut found =
            found.filter(|it| CStr::from_bytes_until_nul(&it.name).is_ok_and(|n| n.to_bytes() == NAME.as_bytes()));
        // Before OpenCL 3.0 there is no such list.
        Ok(status == CL_SUCCESS && found.any(|it| it.version == VERSION))
    }

    /// Records `count` launches of `kernel` with one work-item each.
    pub fn record(&self, queue: &Queue, kernel: &Kernel, count: usize) -> Result<Recorded> {
        if !self.records()? {
            return Err(Error(format!("the device has no {NAME} 0.9.8")));
        }
        macro_rules! find {
            ($name:literal, $type:ty) => {{
                // SAFETY: the platform is the library's, and the name a C string.
                let address = unsafe {
                    super::call!(self.api, clGetExtensionFunctionAddressForPlatform(self.platform, $name.as_ptr()))
                };
                // SAFETY: the function of this name has this type in the extension's version 0.9.8; null is `None`.
                unsafe { std::mem::transmute::<*mut std::ffi::c_void, $type>(address) }
            }};
        }
        let create = find!(c"clCreateCommandBufferKHR", clCreateCommandBufferKHR_t);
        let launch = find!(c"clCommandNDRangeKernelKHR", clCommandNDRangeKernelKHR_t);
        let finalize = find!(c"clFinalizeCommandBufferKHR", clFinalizeCommandBufferKHR_t);
        let enqueue = find!(c"clEnqueueCommandBufferKHR", clEnqueueCommandBufferKHR_t);
        let release = find!(c"clReleaseCommandBufferKHR", clReleaseCommandBufferKHR_t);
        let mut status = 0;
        // SAFETY: one queue, as announced; no properties.
        let id = unsafe { call!(create, 1, &queue.id, ptr::null(), &mut status) };
        check(status, "clCreateCommandBufferKHR")?;
        let recorded = Recorded { enqueue, release, id };
        let (items, none, no_point) = (1, ptr::null(), ptr::null());
        let (point, handle) = (ptr::null_mut(), ptr::null_mut());
        for _ in 0..count {
            // SAFETY: the buffer's own queue; one dimension, as announced; nothing waited for or given back.
            let status = unsafe {
                let (queue, properties) = (ptr::null_mut(), ptr::null());
                call!(launch, id, queue, properties, kernel.id, 1, none, &items, none, 0, no_point, point, handle)
            };
            check(status, "clCommandNDRangeKernelKHR")?;
        }
        // SAFETY: the command buffer is alive.
        check(unsafe { call!(finalize, id) }, "clFinalizeCommandBufferKHR")?;
        Ok(recorded)
    }
}

impl Recorded {
    /// Enqueues all of it on its queue.
    pub fn replay(&self) -> Result<()> {
        // SAFETY: the command buffer is alive; it has its queue; nothing is waited for.
        let status = unsafe { call!(self.enqueue, 0, ptr::null_mut(), self.id, 0, ptr::null(), ptr::null_mut()) };
        check(status, "clEnqueueCommandBufferKHR")
    }
}

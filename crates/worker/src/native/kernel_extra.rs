//! Functions of kernels since OpenCL 2.0: clones, and queries about launches.

use std::ffi::c_void;

use ropeway_abi as cl;
use ropeway_abi::functions::{clGetKernelSubGroupInfo_t, clGetKernelSuggestedLocalWorkSize_t};
use ropeway_protocol::types::{NdRange, Status};

use super::api::api;
use super::{Device, Kernel, Queue, check};

/// Most values of one answer to clGetKernelSubGroupInfo: three sizes.
const MAX_VALUES: usize = 3;

impl Kernel {
    /// clCloneKernel; `device` is one that it was built for.
    ///
    /// # Errors
    /// The status of the native call; CL_INVALID_OPERATION where there is none.
    pub fn try_clone(&self, device: Device) -> Result<Self, Status> {
        let clone = api().clCloneKernel.filter(|_| device.is_at_least(2, 1)).ok_or(cl::CL_INVALID_OPERATION)?;
        let mut status = 0;
        // SAFETY: the kernel is alive.
        let kernel = unsafe { clone(self.0, &raw mut status) };
        check(status)?;
        if kernel.is_null() { Err(cl::CL_OUT_OF_RESOURCES) } else { Ok(Self(kernel)) }
    }

    /// clGetKernelSubGroupInfo on `device`: sizes, `room` of them at most.
    ///
    /// # Errors
    /// The status of the native call; CL_INVALID_OPERATION where there is none.
    pub fn sub_group_info(&self, device: Device, name: u32, input: &[u64], room: usize) -> Result<Vec<u64>, Status> {
        let ask = match api().clGetKernelSubGroupInfo.filter(|_| device.is_at_least(2, 1)) {
            Some(ask) => ask,
            None => {
                // A loader finds one of its own for every device, which calls what the driver may not have.
                let extensions = device.text(cl::CL_DEVICE_EXTENSIONS);
                let has = extensions.split_ascii_whitespace().any(|name| name == "cl_khr_subgroups");
                let found = if has { device.function(c"clGetKernelSubGroupInfoKHR") } else { None };
                let found = found.ok_or(cl::CL_INVALID_OPERATION)?;
                // SAFETY: cl_khr_subgroups declares it with the core function's type; a pointer and the optional
                // function pointer have the same representation, and it is not null.
                let found = unsafe { std::mem::transmute::<*mut c_void, clGetKernelSubGroupInfo_t>(found.as_ptr()) };
                found.ok_or(cl::CL_INVALID_OPERATION)?
            }
        };
        let input: Vec<usize> = input.iter().map(|&value| value as usize).collect();
        let mut values = vec![0usize; room.min(MAX_VALUES)];
        let mut written = 0;
        // SAFETY: input and output have the announced sizes.
        check(unsafe {
            ask(
                self.0,
                device.0,
                name,
                size_of_val(input.as_slice()),
                if input.is_empty() { std::ptr::null() } else { input.as_ptr().cast() },
                size_of_val(values.as_slice()),
                if values.is_empty() { std::ptr::null_mut() } else { values.as_mut_ptr().cast() },
                &raw mut written,
            )
        })?;
        values.truncate(written / size_of::<usize>());
        Ok(values.into_iter().map(|value| value as u64).collect())
    }
}

impl Queue {
    /// clGetKernelSuggestedLocalWorkSizeKHR for a launch on this queue, which is one of `device`.
    ///
    /// # Errors
    /// The status of the native call; CL_INVALID_OPERATION where there is none.
    pub fn suggested_local_size(&self, device: Device, kernel: &Kernel, range: &NdRange) -> Result<[u64; 3], Status> {
        if !(1..=3).contains(&range.dims) {
            return Err(cl::CL_INVALID_WORK_DIMENSION);
        }
        let found = device.function(c"clGetKernelSuggestedLocalWorkSizeKHR").ok_or(cl::CL_INVALID_OPERATION)?;
        // SAFETY: cl_khr_suggested_local_work_size declares it with this type; a pointer and the optional function
        // pointer have the same representation, and it is not null.
        let ask = unsafe { std::mem::transmute::<*mut c_void, clGetKernelSuggestedLocalWorkSize_t>(found.as_ptr()) };
        let ask = ask.ok_or(cl::CL_INVALID_OPERATION)?;
        let offset = range.offset.map(|sizes| sizes.map(|n| n as usize));
        let global = range.global.map(|n| n as usize);
        let mut local = [0usize; 3];
        // SAFETY: the arrays have three entries, as many as `dims` can ask for.
        check(unsafe {
            ask(
                self.raw(),
                kernel.0,
                u32::from(range.dims),
                offset.as_ref().map_or(std::ptr::null(), |sizes| sizes.as_ptr()),
                global.as_ptr(),
                local.as_mut_ptr(),
            )
        })?;
        Ok(local.map(|n| n as u64))
    }
}

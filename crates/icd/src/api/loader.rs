//! Functions for the ICD loader (cl_khr_icd 2.0.0).

use std::ffi::{c_char, c_void};
use std::ptr;

use ropeway_abi::{CL_INVALID_PLATFORM, CL_INVALID_VALUE, CL_PLATFORM_NOT_FOUND_KHR, cl_int, cl_platform_id, cl_uint};

use super::{check_enumeration, collectives, command_buffer, content_size, enumerate, semaphore, servers, text};
use crate::handle::Handle;
use crate::objects::Platform;
use crate::registry::platforms;
use crate::{dispatch, guard};

/// clIcdGetPlatformIDsKHR.
pub unsafe extern "C" fn clIcdGetPlatformIDsKHR(
    num_entries: cl_uint,
    list: *mut cl_platform_id,
    num_platforms: *mut cl_uint,
) -> cl_int {
    guard::status("clIcdGetPlatformIDsKHR", || {
        check_enumeration(num_entries, list, num_platforms)?;
        let all: Vec<_> = platforms().iter().map(Handle::raw).collect();
        // SAFETY: the caller's promise.
        unsafe { enumerate(&all, num_entries, list, num_platforms) };
        // CL_PLATFORM_NOT_FOUND_KHR if zero platforms are available.
        if all.is_empty() { Err(CL_PLATFORM_NOT_FOUND_KHR) } else { Ok(()) }
    })
}

/// clIcdGetFunctionAddressForPlatformKHR.
pub unsafe extern "C" fn clIcdGetFunctionAddressForPlatformKHR(
    platform: cl_platform_id,
    name: *const c_char,
) -> *mut c_void {
    // SAFETY: no error code is wanted; the name is the caller's promise.
    unsafe {
        guard::create("clIcdGetFunctionAddressForPlatformKHR", ptr::null_mut(), || {
            Handle::<Platform>::find(platform)?;
            let name = text(name).ok_or(CL_INVALID_VALUE)?;
            function(name).ok_or(CL_INVALID_VALUE)
        })
    }
}

/// clIcdSetPlatformDispatchDataKHR.
pub unsafe extern "C" fn clIcdSetPlatformDispatchDataKHR(platform: cl_platform_id, data: *mut c_void) -> cl_int {
    guard::status("clIcdSetPlatformDispatchDataKHR", || {
        let platform = Handle::<Platform>::find(platform).map_err(|_| CL_INVALID_PLATFORM)?;
        // Objects made from now on take it over from these.
        platform.set_dispatch_data(data);
        for device in platform.all_devices() {
            device.set_dispatch_data(data);
        }
        Ok(())
    })
}

/// The function of the API, or of an extension of this platform, with this name.
pub fn function(name: &[u8]) -> Option<*mut c_void> {
    match name {
        b"clIcdGetPlatformIDsKHR" => Some(clIcdGetPlatformIDsKHR as *mut c_void),
        b"clIcdGetFunctionAddressForPlatformKHR" => Some(clIcdGetFunctionAddressForPlatformKHR as *mut c_void),
        b"clIcdSetPlatformDispatchDataKHR" => Some(clIcdSetPlatformDispatchDataKHR as *mut c_void),
        // cl_khr_create_command_queue: the same function under its older name.
        b"clCreateCommandQueueWithPropertiesKHR" => dispatch::by_name(b"clCreateCommandQueueWithProperties"),
        // cl_khr_il_program and cl_khr_suggested_local_work_size: the same.
        b"clCreateProgramWithILKHR" => dispatch::by_name(b"clCreateProgramWithIL"),
        b"clGetKernelSuggestedLocalWorkSizeKHR" => dispatch::by_name(b"clGetKernelSuggestedLocalWorkSize"),
        _ => [
            dispatch::by_name,
            command_buffer::by_name,
            content_size::by_name,
            semaphore::by_name,
            servers::by_name,
            servers::wwu::by_name,
            collectives::by_name,
        ]
        .iter()
        .find_map(|by_name| by_name(name)),
    }
}

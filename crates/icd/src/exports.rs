//! Exports of the shared object: the functions that a loader looks for by name.
//!
//! They only pass on. The dispatch table must not name them: the program's own `clGetPlatformInfo`, from the loader,
//! would take their place, and call itself for ever.

use std::ffi::{c_char, c_void};

use ropeway_abi::{cl_int, cl_platform_id, cl_platform_info, cl_uint};

use crate::api::{loader, platform};

/// Lists the platforms (cl_khr_icd).
///
/// # Safety
/// As the specification says of its arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clIcdGetPlatformIDsKHR(
    num_entries: cl_uint,
    platforms: *mut cl_platform_id,
    num_platforms: *mut cl_uint,
) -> cl_int {
    // SAFETY: the caller's promise.
    unsafe { loader::clIcdGetPlatformIDsKHR(num_entries, platforms, num_platforms) }
}

/// Finds a function by name (OpenCL 1.1, 9.2).
///
/// # Safety
/// As the specification says of its arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clGetExtensionFunctionAddress(name: *const c_char) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { platform::clGetExtensionFunctionAddress(name) }
}

/// Answers the loader's questions about a platform (OpenCL 3.0, 4.1).
///
/// # Safety
/// As the specification says of its arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clGetPlatformInfo(
    platform: cl_platform_id,
    name: cl_platform_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    // SAFETY: the caller's promise.
    unsafe { platform::clGetPlatformInfo(platform, name, size, value, size_ret) }
}

/// Finds a function for the loader's table (cl_khr_icd 2.0).
///
/// # Safety
/// As the specification says of its arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clIcdGetFunctionAddressForPlatformKHR(
    platform: cl_platform_id,
    name: *const c_char,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { loader::clIcdGetFunctionAddressForPlatformKHR(platform, name) }
}

/// Takes the loader's word for all objects of a platform (cl_khr_icd 2.0).
///
/// # Safety
/// As the specification says of its arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clIcdSetPlatformDispatchDataKHR(platform: cl_platform_id, data: *mut c_void) -> cl_int {
    // SAFETY: the caller's promise.
    unsafe { loader::clIcdSetPlatformDispatchDataKHR(platform, data) }
}

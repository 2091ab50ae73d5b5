//! Platforms (OpenCL 3.0 API, section 4.1).

use std::ffi::{c_char, c_void};
use std::ptr;

use ropeway_abi::ropeway::CL_PLATFORM_SERVER_ADDRESS_ROPEWAY;
use ropeway_abi::{
    CL_FALSE, CL_INVALID_VALUE, CL_PLATFORM_EXTENSIONS, CL_PLATFORM_EXTENSIONS_WITH_VERSION,
    CL_PLATFORM_HOST_TIMER_RESOLUTION, CL_PLATFORM_ICD_SUFFIX_KHR, CL_PLATFORM_NAME, CL_PLATFORM_NUMERIC_VERSION,
    CL_PLATFORM_PROFILE, CL_PLATFORM_SEMAPHORE_TYPES_KHR, CL_PLATFORM_UNLOADABLE_KHR, CL_PLATFORM_VENDOR,
    CL_PLATFORM_VERSION, cl_int, cl_platform_id, cl_platform_info,
};

use super::loader::function;
use super::timer::platform_resolution;
use super::{collectives, content_size, semaphore, servers, text};
use crate::handle::Handle;
use crate::info::{Answered, Info};
use crate::objects::Platform;
use crate::{capabilities, guard};

/// clGetPlatformInfo.
pub unsafe extern "C" fn clGetPlatformInfo(
    platform: cl_platform_id,
    name: cl_platform_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    // SAFETY: the caller's promise.
    let info = unsafe { Info::new(size, value, size_ret) };
    guard::status("clGetPlatformInfo", || answer(&*Handle::<Platform>::find(platform)?, name, info))
}

fn answer(platform: &Platform, name: cl_platform_info, info: Info) -> Result<Answered, cl_int> {
    match name {
        CL_PLATFORM_NAME => info.string(&platform.name()),
        CL_PLATFORM_VENDOR => info.string(platform.native_text(name).unwrap_or("Ropeway")),
        CL_PLATFORM_PROFILE => info.string(platform.native_text(name).unwrap_or("FULL_PROFILE")),
        CL_PLATFORM_VERSION => match platform.native_text(name) {
            Some(native) => info.string(native),
            None => info.string(concat!("OpenCL 3.0 Ropeway ", env!("CARGO_PKG_VERSION"))),
        },
        CL_PLATFORM_NUMERIC_VERSION => match platform.native_bytes(name) {
            Some(native) => info.bytes(native),
            None => info.value(capabilities::version(3, 0, 0)),
        },
        CL_PLATFORM_EXTENSIONS => {
            let names = ["cl_khr_icd", semaphore::NAME, collectives::NAME, content_size::NAME, servers::NAME];
            info.string(&names.join(" "))
        }
        CL_PLATFORM_EXTENSIONS_WITH_VERSION => {
            let extensions = [
                ("cl_khr_icd", capabilities::version(2, 0, 0)),
                (semaphore::NAME, semaphore::VERSION),
                (collectives::NAME, collectives::VERSION),
                (content_size::NAME, content_size::VERSION),
                (servers::NAME, servers::VERSION),
            ];
            info.bytes(&extensions.map(|(name, version)| capabilities::name_version(name, version)).concat())
        }
        CL_PLATFORM_SEMAPHORE_TYPES_KHR => info.slice(&semaphore::TYPES),
        CL_PLATFORM_ICD_SUFFIX_KHR => info.string("ROPEWAY"),
        CL_PLATFORM_HOST_TIMER_RESOLUTION => info.value(platform_resolution(platform)),
        // Its threads run its code until the process ends.
        CL_PLATFORM_UNLOADABLE_KHR => info.value(CL_FALSE),
        CL_PLATFORM_SERVER_ADDRESS_ROPEWAY => info.string(&platform.client().server_address()),
        // CL_INVALID_VALUE if param_name is not one of the supported values.
        _ => Err(CL_INVALID_VALUE),
    }
}

/// clGetExtensionFunctionAddress.
pub unsafe extern "C" fn clGetExtensionFunctionAddress(name: *const c_char) -> *mut c_void {
    // Not inside the guard: a loader asks for the guard's own functions before anything else, also in a forked child.
    // SAFETY: the caller's promise.
    unsafe { text(name) }.and_then(function).unwrap_or(ptr::null_mut())
}

/// clGetExtensionFunctionAddressForPlatform.
pub unsafe extern "C" fn clGetExtensionFunctionAddressForPlatform(
    platform: cl_platform_id,
    name: *const c_char,
) -> *mut c_void {
    if Handle::<Platform>::find(platform).is_err() {
        return ptr::null_mut();
    }
    // SAFETY: the caller's promise.
    unsafe { clGetExtensionFunctionAddress(name) }
}

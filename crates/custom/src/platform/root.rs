//! The platform itself.

use std::ffi::{c_char, c_void};
use std::sync::{Arc, OnceLock};

use ropeway_abi as cl;

use super::device::Device;
use super::handle::{Object, get};
use super::info::{Into, write};
use crate::kind::Kind;

/// CL_PLATFORM_NAME.
pub(super) const NAME: &str = "Ropeway custom devices";

/// The extension that names the built-in kernels.
pub(super) const EXTENSION: &str = "cl_ropeway_custom_devices";

/// CL_PLATFORM_VERSION, and that of its devices.
pub(super) const VERSION: &str = "OpenCL 3.0 Ropeway";

/// The platform: one for each process, as a worker serves one client.
pub(super) struct Platform {
    pub(super) devices: Vec<Arc<Object<Device>>>,
}

static PLATFORM: OnceLock<Arc<Object<Platform>>> = OnceLock::new();

/// Makes the platform of these devices, once, and returns its handle: the same each time.
pub(super) fn make(kinds: Vec<Box<dyn Kind>>) -> cl::cl_platform_id {
    let new = || {
        let device = |kind| Object::new(Device::new(kind));
        Object::new(Platform { devices: kinds.into_iter().map(device).collect() })
    };
    PLATFORM.get_or_init(new).handle()
}

/// The platform's handle, for its objects' queries.
pub(super) fn handle() -> cl::cl_platform_id {
    PLATFORM.get().map_or(std::ptr::null_mut(), Object::handle)
}

/// clGetPlatformIDs.
pub(super) unsafe extern "C" fn clGetPlatformIDs(
    room: cl::cl_uint,
    platforms: *mut cl::cl_platform_id,
    count: *mut cl::cl_uint,
) -> cl::cl_int {
    let found = PLATFORM.get();
    if let Some(platform) = found.filter(|_| room > 0 && !platforms.is_null()) {
        // SAFETY: there is room for one.
        unsafe { platforms.write(platform.handle()) };
    }
    // SAFETY: null or valid for a write.
    unsafe { write(count, found.is_some().into()) };
    cl::CL_SUCCESS
}

/// clGetPlatformInfo.
pub(super) unsafe extern "C" fn clGetPlatformInfo(
    platform: cl::cl_platform_id,
    name: cl::cl_platform_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl::cl_int {
    let into = Into { size, value, size_ret };
    if platform.is_null() {
        return cl::CL_INVALID_PLATFORM;
    }
    match name {
        cl::CL_PLATFORM_PROFILE => into.text("FULL_PROFILE"),
        cl::CL_PLATFORM_VERSION => into.text(VERSION),
        cl::CL_PLATFORM_NAME => into.text(NAME),
        cl::CL_PLATFORM_VENDOR => into.text("Ropeway"),
        cl::CL_PLATFORM_EXTENSIONS => into.text(EXTENSION),
        cl::CL_PLATFORM_HOST_TIMER_RESOLUTION => into.ulong(1),
        cl::CL_PLATFORM_NUMERIC_VERSION => into.uint(super::device::NUMERIC_VERSION),
        cl::CL_PLATFORM_EXTENSIONS_WITH_VERSION => into.bytes(&super::device::name_version(EXTENSION)),
        _ => cl::CL_INVALID_VALUE,
    }
}

/// clGetDeviceIDs. CL_DEVICE_TYPE_ALL is all but custom devices (OpenCL 3.0 API, section 4.2), so that it finds none here.
pub(super) unsafe extern "C" fn clGetDeviceIDs(
    platform: cl::cl_platform_id,
    types: cl::cl_device_type,
    room: cl::cl_uint,
    devices: *mut cl::cl_device_id,
    count: *mut cl::cl_uint,
) -> cl::cl_int {
    // SAFETY: the worker's own handle.
    let Some(platform) = (unsafe { get::<Platform, _>(platform) }) else { return cl::CL_INVALID_PLATFORM };
    let wanted = types & cl::CL_DEVICE_TYPE_CUSTOM != 0 && types != cl::CL_DEVICE_TYPE_ALL;
    let found = if wanted { &platform.devices[..] } else { &[] };
    if found.is_empty() {
        // SAFETY: null or valid for a write.
        unsafe { write(count, 0) };
        return cl::CL_DEVICE_NOT_FOUND;
    }
    if !devices.is_null() {
        for (at, device) in found.iter().take(room as usize).enumerate() {
            // SAFETY: there is room for `room` handles.
            unsafe { devices.add(at).write(device.handle()) };
        }
    }
    // SAFETY: null or valid for a write.
    unsafe { write(count, found.len() as u32) };
    cl::CL_SUCCESS
}

/// clGetExtensionFunctionAddressForPlatform: there are none.
pub(super) unsafe extern "C" fn clGetExtensionFunctionAddressForPlatform(
    _: cl::cl_platform_id,
    _: *const c_char,
) -> *mut c_void {
    std::ptr::null_mut()
}

/// clGetDeviceAndHostTimer: both are the same clock.
pub(super) unsafe extern "C" fn clGetDeviceAndHostTimer(
    device: cl::cl_device_id,
    device_time: *mut cl::cl_ulong,
    host_time: *mut cl::cl_ulong,
) -> cl::cl_int {
    if device.is_null() {
        return cl::CL_INVALID_DEVICE;
    }
    let now = crate::engine::event::now();
    // SAFETY: null or valid for a write.
    unsafe {
        write(device_time, now);
        write(host_time, now);
    }
    cl::CL_SUCCESS
}

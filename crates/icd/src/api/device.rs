//! Devices (OpenCL 3.0 API, section 4.2).

use std::ffi::c_void;

use ropeway_abi::{
    CL_DEVICE_AVAILABLE, CL_DEVICE_PARENT_DEVICE, CL_DEVICE_PLATFORM, CL_DEVICE_REFERENCE_COUNT,
    CL_DEVICE_SEMAPHORE_TYPES_KHR, CL_INVALID_VALUE, cl_device_id, cl_device_info, cl_device_type, cl_int,
    cl_platform_id, cl_uint,
};

use super::{check_enumeration, command_buffer, content_size, device_types, enumerate, semaphore, servers};
use crate::capabilities::{self, Answer};
use crate::guard;
use crate::handle::Handle;
use crate::info::{Answered, Info};
use crate::objects::{Device, Platform};

/// The platform's devices of these types.
///
/// # Errors
/// CL_INVALID_DEVICE_TYPE if device_type is not a valid value; CL_DEVICE_NOT_FOUND if no devices match it.
pub fn of_type(platform: &Platform, device_type: cl_device_type) -> Result<Vec<Handle<Device>>, cl_int> {
    device_types::among(platform.devices(), device_type)
}

/// clGetDeviceIDs.
pub unsafe extern "C" fn clGetDeviceIDs(
    platform: cl_platform_id,
    device_type: cl_device_type,
    num_entries: cl_uint,
    devices: *mut cl_device_id,
    num_devices: *mut cl_uint,
) -> cl_int {
    guard::status("clGetDeviceIDs", || {
        let platform = Handle::<Platform>::find(platform)?;
        check_enumeration(num_entries, devices, num_devices)?;
        let found = of_type(&platform, device_type);
        let all: Vec<_> = found.iter().flatten().map(Handle::raw).collect();
        // SAFETY: the caller's promise.
        unsafe { enumerate(&all, num_entries, devices, num_devices) };
        found
    })
}

/// clGetDeviceInfo.
pub unsafe extern "C" fn clGetDeviceInfo(
    device: cl_device_id,
    name: cl_device_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    // SAFETY: the caller's promise.
    let info = unsafe { Info::new(size, value, size_ret) };
    guard::status("clGetDeviceInfo", || answer(&Handle::find(device)?, name, info))
}

fn answer(device: &Handle<Device>, name: cl_device_info, info: Info) -> Result<Answered, cl_int> {
    match name {
        CL_DEVICE_PARENT_DEVICE => {
            return info.value(device.parent.as_ref().map_or(std::ptr::null_mut(), Handle::raw));
        }
        // Root devices are not counted.
        CL_DEVICE_REFERENCE_COUNT => {
            return info.value(device.parent.as_ref().map_or(1, |_| device.reference_count()));
        }
        CL_DEVICE_PLATFORM => return info.value(device.platform.get()),
        CL_DEVICE_SEMAPHORE_TYPES_KHR => return info.slice(&semaphore::TYPES),
        CL_DEVICE_AVAILABLE if !device.client.is_available() => return info.value::<cl_uint>(0),
        _ => {}
    }
    if let Some(answer) = servers::Asked::of_device(name) {
        return servers::answer_of_device(device, answer, info);
    }
    if let Some(answer) = command_buffer::device_info(device, name) {
        return info.value(answer);
    }
    // CL_INVALID_VALUE if param_name is not one of the supported values: the native device says so.
    let native = device.client.property(name).unwrap_or(Err(CL_INVALID_VALUE));
    let Some(instead) = capabilities::device_info(name) else {
        return match device.client.property(name) {
            Some(native) => info.bytes(native?),
            None => info.bytes(&device.client.ask(name)?),
        };
    };
    // A query that the native device (of an older version) does not know stays unknown.
    let native = native?;
    match instead {
        Answer::Uint(value) => info.value(value),
        Answer::Masked(bits) => info.value(device.client.number(name) & bits),
        Answer::Extensions => {
            let mut names = capabilities::extensions(native);
            if command_buffer::supports(device) {
                names.extend([" ", command_buffer::NAME]);
            }
            names.extend([" ", semaphore::NAME, " ", content_size::NAME, " ", servers::NAME]);
            info.string(names.trim_start())
        }
        Answer::ExtensionsWithVersion => {
            let mut list = capabilities::extensions_with_version(native);
            if command_buffer::supports(device) {
                list.extend(capabilities::name_version(command_buffer::NAME, command_buffer::VERSION));
            }
            list.extend(capabilities::name_version(semaphore::NAME, semaphore::VERSION));
            list.extend(capabilities::name_version(content_size::NAME, content_size::VERSION));
            list.extend(capabilities::name_version(servers::NAME, servers::VERSION));
            info.bytes(&list)
        }
        Answer::Strings => {
            // The strings are part of what the device said, which stays for as long as the device.
            let strings = native.split_inclusive(|byte| *byte == 0).map(|string| match string.last() {
                Some(0) => Ok(string.as_ptr().cast::<c_void>().cast_mut()),
                _ => Err(CL_INVALID_VALUE),
            });
            info.slice(&strings.collect::<Result<Vec<_>, _>>()?)
        }
        Answer::Refused => Err(CL_INVALID_VALUE),
    }
}

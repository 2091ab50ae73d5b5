//! Parts of devices (OpenCL 3.0 API, section 4.3).

use std::sync::Arc;

use ropeway_abi::{
    CL_DEVICE_PARTITION_BY_AFFINITY_DOMAIN, CL_DEVICE_PARTITION_BY_AFFINITY_DOMAIN_EXT, CL_DEVICE_PARTITION_BY_COUNTS,
    CL_DEVICE_PARTITION_BY_COUNTS_EXT, CL_DEVICE_PARTITION_EQUALLY, CL_DEVICE_PARTITION_EQUALLY_EXT, CL_INVALID_VALUE,
    cl_device_id, cl_device_partition_property, cl_device_partition_property_ext, cl_int, cl_uint,
};

use super::enumerate;
use crate::guard;
use crate::handle::{self, Handle};
use crate::objects::Device;

/// Most values of one list of properties: no device has more parts.
const MAX_VALUES: usize = 1 << 16;

/// clCreateSubDevices.
pub unsafe extern "C" fn clCreateSubDevices(
    in_device: cl_device_id,
    properties: *const cl_device_partition_property,
    num_devices: cl_uint,
    out_devices: *mut cl_device_id,
    num_devices_ret: *mut cl_uint,
) -> cl_int {
    guard::status("clCreateSubDevices", || {
        let device = Handle::<Device>::find(in_device)?;
        // CL_INVALID_VALUE if values specified in properties are not valid.
        if properties.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        // SAFETY: the caller's promise: a list that ends with 0, or as its first value says.
        let list = read_list(|at| unsafe { properties.add(at).read() } as i64)?;
        // SAFETY: the caller's promise.
        unsafe { create(&device, &list, num_devices, out_devices, num_devices_ret) }
    })
}

/// clCreateSubDevicesEXT (cl_ext_device_fission): the same with other numbers.
pub unsafe extern "C" fn clCreateSubDevicesEXT(
    in_device: cl_device_id,
    properties: *const cl_device_partition_property_ext,
    num_entries: cl_uint,
    out_devices: *mut cl_device_id,
    num_devices: *mut cl_uint,
) -> cl_int {
    guard::status("clCreateSubDevicesEXT", || {
        let device = Handle::<Device>::find(in_device)?;
        if properties.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        // SAFETY: the caller's promise: the list has a first value at least.
        let kind = match unsafe { properties.read() } {
            CL_DEVICE_PARTITION_EQUALLY_EXT => CL_DEVICE_PARTITION_EQUALLY,
            CL_DEVICE_PARTITION_BY_COUNTS_EXT => CL_DEVICE_PARTITION_BY_COUNTS,
            CL_DEVICE_PARTITION_BY_AFFINITY_DOMAIN_EXT => CL_DEVICE_PARTITION_BY_AFFINITY_DOMAIN,
            _ => return Err(CL_INVALID_VALUE),
        };
        let list = read_list(|at| match at {
            0 => kind as i64,
            // SAFETY: as for clCreateSubDevices.
            _ => unsafe { properties.add(at).read() as i64 },
        })?;
        // SAFETY: the caller's promise.
        unsafe { create(&device, &list, num_entries, out_devices, num_devices) }
    })
}

/// A list of properties, up to and with the 0 that ends it.
///
/// # Errors
/// CL_INVALID_VALUE for what is no list of one kind of partition.
fn read_list(value: impl Fn(usize) -> i64) -> Result<Vec<i64>, cl_int> {
    let kind = value(0);
    let mut list = vec![kind];
    match kind as cl_device_partition_property {
        CL_DEVICE_PARTITION_EQUALLY | CL_DEVICE_PARTITION_BY_AFFINITY_DOMAIN => list.push(value(1)),
        CL_DEVICE_PARTITION_BY_COUNTS => loop {
            let count = value(list.len());
            list.push(count);
            // The list of counts has an end mark of its own.
            if count == 0 {
                break;
            }
            if list.len() > MAX_VALUES {
                return Err(CL_INVALID_VALUE);
            }
        },
        _ => return Err(CL_INVALID_VALUE),
    }
    // Some applications let the end mark of the counts serve as that of the list.
    if kind as cl_device_partition_property != CL_DEVICE_PARTITION_BY_COUNTS && value(list.len()) != 0 {
        return Err(CL_INVALID_VALUE);
    }
    list.push(0);
    Ok(list)
}

/// # Safety
/// `list` is null or has room for as many devices as it says, `count` is null or valid for a write.
unsafe fn create(
    device: &Handle<Device>,
    properties: &[i64],
    room: cl_uint,
    list: *mut cl_device_id,
    count: *mut cl_uint,
) -> Result<(), cl_int> {
    if list.is_null() {
        // Only the number is asked for. The native implementation checks the properties.
        let parts = device.client.count_parts(properties)?;
        // SAFETY: the caller's promise.
        unsafe { super::put(count, parts) };
        return Ok(());
    }
    let parts = device.client.divide(properties)?;
    // CL_INVALID_VALUE if out_devices is not NULL and num_devices is less than the number of sub-devices created.
    if (room as usize) < parts.len() {
        return Err(CL_INVALID_VALUE);
    }
    let made = parts
        .iter()
        .map(|part| Handle::new(device, Device::new(Arc::clone(part), device.platform, Some(device.clone()))));
    let made = made.collect::<Result<Vec<_>, _>>()?;
    let handles: Vec<_> = made.into_iter().map(Handle::give).collect();
    // SAFETY: the caller's promise.
    unsafe { enumerate(&handles, room, list, count) };
    Ok(())
}

/// clRetainDevice: without effect on root devices.
pub unsafe extern "C" fn clRetainDevice(device: cl_device_id) -> cl_int {
    guard::status("clRetainDevice", || count(device, handle::retain::<Device>))
}

/// clReleaseDevice: without effect on root devices.
pub unsafe extern "C" fn clReleaseDevice(device: cl_device_id) -> cl_int {
    guard::status("clReleaseDevice", || count(device, handle::release::<Device>))
}

/// clRetainDeviceEXT (cl_ext_device_fission): as [`clRetainDevice`].
pub unsafe extern "C" fn clRetainDeviceEXT(device: cl_device_id) -> cl_int {
    guard::status("clRetainDeviceEXT", || count(device, handle::retain::<Device>))
}

/// clReleaseDeviceEXT (cl_ext_device_fission): as [`clReleaseDevice`].
pub unsafe extern "C" fn clReleaseDeviceEXT(device: cl_device_id) -> cl_int {
    guard::status("clReleaseDeviceEXT", || count(device, handle::release::<Device>))
}

/// Changes the reference count of a device that has one.
///
/// # Errors
/// CL_INVALID_DEVICE if device is not a valid device.
fn count(device: cl_device_id, change: impl Fn(cl_device_id) -> Result<(), cl_int>) -> Result<(), cl_int> {
    if Handle::<Device>::find(device)?.parent.is_some() { change(device) } else { Ok(()) }
}

//! Clocks of devices and of this machine (OpenCL 3.0 API, section 4.3).

use ropeway_abi::{
    CL_INVALID_OPERATION, CL_INVALID_VALUE, CL_PLATFORM_HOST_TIMER_RESOLUTION, cl_device_id, cl_int, cl_ulong,
};
use ropeway_client::device;

use crate::guard;
use crate::handle::Handle;
use crate::objects::{Device, Platform};

/// Nanoseconds between ticks of the host's timer; 0 where the device's native implementation offers no timer
/// synchronized with it.
fn resolution(device: &device::Device) -> u64 {
    let native = device.native_platform().property(CL_PLATFORM_HOST_TIMER_RESOLUTION);
    native.and_then(Result::ok).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// CL_PLATFORM_HOST_TIMER_RESOLUTION: 0 as soon as one device of the platform lacks such a timer.
pub fn platform_resolution(platform: &Platform) -> u64 {
    let each: Vec<_> = platform.devices().iter().map(|device| resolution(&device.client)).collect();
    if each.contains(&0) { 0 } else { each.into_iter().max().unwrap_or(0) }
}

/// A device whose timer is synchronized with the host's.
///
/// # Errors
/// CL_INVALID_DEVICE if device is not a valid device; CL_INVALID_OPERATION if the platform associated with device does
/// not support device and host timer synchronization.
fn timed(device: cl_device_id) -> Result<Handle<Device>, cl_int> {
    let device = Handle::<Device>::find(device)?;
    if resolution(&device.client) == 0 { Err(CL_INVALID_OPERATION) } else { Ok(device) }
}

/// clGetDeviceAndHostTimer.
pub unsafe extern "C" fn clGetDeviceAndHostTimer(
    device: cl_device_id,
    device_timestamp: *mut cl_ulong,
    host_timestamp: *mut cl_ulong,
) -> cl_int {
    guard::status("clGetDeviceAndHostTimer", || {
        let device = timed(device)?;
        // CL_INVALID_VALUE if host_timestamp or device_timestamp is NULL.
        if device_timestamp.is_null() || host_timestamp.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        let (of_device, of_host) = device.client.timers()?;
        // SAFETY: not null, so valid for a write by the caller's promise; both are.
        unsafe {
            device_timestamp.write(of_device);
            host_timestamp.write(of_host);
        }
        Ok(())
    })
}

/// clGetHostTimer.
pub unsafe extern "C" fn clGetHostTimer(device: cl_device_id, host_timestamp: *mut cl_ulong) -> cl_int {
    guard::status("clGetHostTimer", || {
        timed(device)?;
        // CL_INVALID_VALUE if host_timestamp is NULL.
        if host_timestamp.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        // SAFETY: not null, so valid for a write by the caller's promise.
        unsafe { host_timestamp.write(device::host_timer()) };
        Ok(())
    })
}

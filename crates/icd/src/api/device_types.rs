//! Devices by their types (CL_DEVICE_TYPE).

use ropeway_abi::{
    CL_DEVICE_NOT_FOUND, CL_DEVICE_TYPE, CL_DEVICE_TYPE_ACCELERATOR, CL_DEVICE_TYPE_ALL, CL_DEVICE_TYPE_CPU,
    CL_DEVICE_TYPE_CUSTOM, CL_DEVICE_TYPE_DEFAULT, CL_DEVICE_TYPE_GPU, CL_INVALID_DEVICE_TYPE, cl_device_type, cl_int,
};

use crate::handle::Handle;
use crate::objects::Device;

/// Those of these types among `devices`.
///
/// # Errors
/// CL_INVALID_DEVICE_TYPE for what is no type of device; CL_DEVICE_NOT_FOUND where there is none of these types.
pub fn among(devices: Vec<Handle<Device>>, device_type: cl_device_type) -> Result<Vec<Handle<Device>>, cl_int> {
    const SINGLE: cl_device_type =
        CL_DEVICE_TYPE_CPU | CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_ACCELERATOR | CL_DEVICE_TYPE_CUSTOM;
    if device_type != CL_DEVICE_TYPE_ALL && (device_type == 0 || device_type & !(SINGLE | CL_DEVICE_TYPE_DEFAULT) != 0)
    {
        return Err(CL_INVALID_DEVICE_TYPE);
    }
    let types = |device: &Handle<Device>| device.client.number(CL_DEVICE_TYPE);
    // ALL is all but custom devices; they can be neither default.
    let ordinary = |device: &&Handle<Device>| types(device) & CL_DEVICE_TYPE_CUSTOM == 0;
    let mut found: Vec<_> = match device_type {
        CL_DEVICE_TYPE_ALL => devices.iter().filter(ordinary).cloned().collect(),
        _ => devices.iter().filter(|device| types(device) & device_type & SINGLE != 0).cloned().collect(),
    };
    if device_type != CL_DEVICE_TYPE_ALL
        && device_type & CL_DEVICE_TYPE_DEFAULT != 0
        && let Some(default) = devices.iter().find(ordinary)
        && !found.contains(default)
    {
        found.insert(0, default.clone());
    }
    if found.is_empty() { Err(CL_DEVICE_NOT_FOUND) } else { Ok(found) }
}

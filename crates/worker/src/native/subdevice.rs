//! Parts of devices.

use ropeway_abi as cl;
use ropeway_protocol::types::Status;

use super::api::api;
use super::{Device, check};

/// Most parts of one device: no machine has so many cores, and the properties of all have to fit into one answer.
const MAX_PARTS: u32 = 1 << 10;

/// A part of a device, which may be released while the process lives. Users of its [`Device`] keep it alive.
#[derive(Debug)]
pub struct SubDevice(Device);

impl SubDevice {
    /// Into how many parts clCreateSubDevices divides a device. `properties` ends with 0.
    ///
    /// # Errors
    /// The status of the native call.
    pub fn count(of: Device, properties: &[i64]) -> Result<u32, Status> {
        let properties = list(properties)?;
        let mut count = 0;
        // SAFETY: the properties end with 0, and no list of devices is wanted.
        check(unsafe {
            (api().clCreateSubDevices)(of.0, properties.as_ptr(), 0, std::ptr::null_mut(), &raw mut count)
        })?;
        Ok(count)
    }

    /// clCreateSubDevices. `properties` ends with 0.
    ///
    /// # Errors
    /// The status of the native call.
    pub fn create(of: Device, properties: &[i64]) -> Result<Vec<Self>, Status> {
        let count = Self::count(of, properties)?;
        if count > MAX_PARTS {
            return Err(cl::CL_OUT_OF_HOST_MEMORY);
        }
        let properties = list(properties)?;
        let mut parts = vec![std::ptr::null_mut(); count as usize];
        // SAFETY: the properties end with 0, and there is room for as many devices as announced.
        check(unsafe {
            (api().clCreateSubDevices)(of.0, properties.as_ptr(), count, parts.as_mut_ptr(), std::ptr::null_mut())
        })?;
        Ok(parts.into_iter().filter(|part| !part.is_null()).map(|part| Self(Device(part))).collect())
    }

    /// Returns the part as a device.
    pub fn device(&self) -> Device {
        self.0
    }
}

/// The list as this machine's OpenCL reads it.
///
/// # Errors
/// CL_INVALID_VALUE for one without end.
fn list(properties: &[i64]) -> Result<Vec<isize>, Status> {
    match properties.last() {
        Some(0) => Ok(properties.iter().map(|&value| value as isize).collect()),
        _ => Err(cl::CL_INVALID_VALUE),
    }
}

impl Drop for SubDevice {
    fn drop(&mut self) {
        // SAFETY: this is the one reference that the value owns.
        unsafe { (api().clReleaseDevice)(self.0.0) };
    }
}

//! Command queues on the device, to which kernels enqueue kernels.

use ropeway_abi as cl;
use ropeway_protocol::types::Status;

use super::api::api;
use super::{Context, Device, check, info};

/// A native command queue on the device. The host enqueues nothing to it.
#[derive(Debug)]
pub struct DeviceQueue(cl::cl_command_queue);

// SAFETY: OpenCL's handles may be used from any thread (OpenCL 3.0 API, appendix A.2).
unsafe impl Send for DeviceQueue {}
// SAFETY: as above.
unsafe impl Sync for DeviceQueue {}

impl DeviceQueue {
    /// clCreateCommandQueueWithProperties with `properties` and, if given, CL_QUEUE_SIZE. If the device already has a
    /// default queue, asking for a default queue returns that one.
    ///
    /// # Errors
    /// The status of the native call; CL_INVALID_QUEUE_PROPERTIES for a queue that would be the host's, and where there
    /// is no such function.
    pub fn new(context: &Context, device: Device, properties: u64, size: Option<u32>) -> Result<Self, Status> {
        let create = api().clCreateCommandQueueWithProperties.filter(|_| device.is_at_least(2, 0));
        let Some(create) = create.filter(|_| properties & cl::CL_QUEUE_ON_DEVICE != 0) else {
            return Err(cl::CL_INVALID_QUEUE_PROPERTIES);
        };
        let mut list = vec![u64::from(cl::CL_QUEUE_PROPERTIES), properties];
        if let Some(size) = size {
            list.extend([u64::from(cl::CL_QUEUE_SIZE), u64::from(size)]);
        }
        list.push(0);
        let mut status = 0;
        // SAFETY: context and device are alive, the list ends with 0.
        let queue = unsafe { create(context.0, device.0, list.as_ptr(), &raw mut status) };
        check(status)?;
        Ok(Self(queue))
    }

    /// CL_QUEUE_SIZE, in bytes.
    ///
    /// # Errors
    /// The status of the native call.
    pub fn size(&self) -> Result<u32, Status> {
        // SAFETY: `value` passes memory of the size it announces.
        info::value(|size, value, ret| unsafe {
            (api().clGetCommandQueueInfo)(self.0, cl::CL_QUEUE_SIZE, size, value, ret)
        })
    }

    /// Makes it the default queue of its device in its context.
    ///
    /// # Errors
    /// The status of the native call; CL_INVALID_OPERATION where there is no such function.
    pub fn make_default(&self, context: &Context, device: Device) -> Result<(), Status> {
        let set = api().clSetDefaultDeviceCommandQueue.filter(|_| device.is_at_least(2, 1));
        let set = set.ok_or(cl::CL_INVALID_OPERATION)?;
        // SAFETY: all three are alive.
        check(unsafe { set(context.0, device.0, self.0) })
    }

    /// The handle, for a kernel's argument; valid as long as `self`.
    pub(super) fn raw(&self) -> cl::cl_command_queue {
        self.0
    }
}

impl Drop for DeviceQueue {
    fn drop(&mut self) {
        // SAFETY: this is the one reference that the value owns.
        unsafe { (api().clReleaseCommandQueue)(self.0) };
    }
}

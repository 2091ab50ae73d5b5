//! Command queues on the device, to which kernels enqueue kernels (OpenCL 3.0 API, sections 5.1 and 5.9.2).

use std::ffi::c_void;
use std::ptr;
use std::sync::PoisonError;

use ropeway_abi::{
    CL_INVALID_COMMAND_QUEUE, CL_INVALID_OPERATION, CL_INVALID_QUEUE_PROPERTIES, CL_INVALID_VALUE, CL_QUEUE_CONTEXT,
    CL_QUEUE_DEVICE, CL_QUEUE_DEVICE_DEFAULT, CL_QUEUE_ON_DEVICE, CL_QUEUE_ON_DEVICE_DEFAULT, CL_QUEUE_PROPERTIES,
    CL_QUEUE_PROPERTIES_ARRAY, CL_QUEUE_REFERENCE_COUNT, CL_QUEUE_SIZE, cl_command_queue, cl_command_queue_info,
    cl_context, cl_device_id, cl_int,
};
use ropeway_client::device_queue;

use super::queue::context_and_device;
use crate::guard;
use crate::handle::Handle;
use crate::info::{Answered, Info};
use crate::objects::{Context, DefaultQueue, Device, DeviceQueue};

/// Makes a queue on the device; `bits` have been found to be those of one.
pub(super) fn create(
    context: &Handle<Context>,
    device: &Handle<Device>,
    bits: u64,
    size: Option<u64>,
    properties: Vec<u64>,
) -> Result<*mut c_void, cl_int> {
    const OWN: u64 = CL_QUEUE_ON_DEVICE | CL_QUEUE_ON_DEVICE_DEFAULT;
    // CL_INVALID_QUEUE_PROPERTIES if values are valid but not supported by the device: it has no queues, or none of
    // this kind or size.
    let limits = device.limits.device_queues.as_ref().ok_or(CL_INVALID_QUEUE_PROPERTIES)?;
    if bits & !(limits.properties | OWN) != 0 || size.is_some_and(|size| size > limits.max_size) {
        return Err(CL_INVALID_QUEUE_PROPERTIES);
    }
    // CL_INVALID_VALUE if values specified in properties are not valid: the size is a cl_uint.
    let size = size.map(u32::try_from).transpose().map_err(|_| CL_INVALID_VALUE)?;
    let make = || -> Result<Handle<DeviceQueue>, cl_int> {
        let client = device_queue::DeviceQueue::new(&context.client, &device.client, bits, size)?;
        let queue = DeviceQueue { client, context: context.clone(), device: device.clone(), properties };
        Handle::new(context, queue)
    };
    if bits & CL_QUEUE_ON_DEVICE_DEFAULT == 0 {
        return Ok(make()?.give());
    }
    // Under the lock, as two threads must get the same one.
    let mut defaults = context.default_queues.lock().unwrap_or_else(PoisonError::into_inner);
    // Where there is a default queue already, it is returned, with one reference more.
    if let Some(queue) = DefaultQueue::find(&defaults, device) {
        return Ok(queue.give());
    }
    let queue = make()?;
    DefaultQueue::set(&mut defaults, &queue);
    Ok(queue.give())
}

/// The default queue on a device of a context, or NULL.
pub(super) fn default_on(context: &Context, device: &Handle<Device>) -> *mut c_void {
    let defaults = context.default_queues.lock().unwrap_or_else(PoisonError::into_inner);
    DefaultQueue::find(&defaults, device).map_or(ptr::null_mut(), |queue| queue.raw())
}

/// clSetDefaultDeviceCommandQueue.
pub unsafe extern "C" fn clSetDefaultDeviceCommandQueue(
    context: cl_context,
    device: cl_device_id,
    queue: cl_command_queue,
) -> cl_int {
    guard::status("clSetDefaultDeviceCommandQueue", || {
        let (context, device) = context_and_device(context, device)?;
        // CL_INVALID_OPERATION if device does not support a replaceable default on-device queue.
        if device.limits.device_queues.as_ref().is_none_or(|limits| !limits.replaceable_default) {
            return Err(CL_INVALID_OPERATION);
        }
        // CL_INVALID_COMMAND_QUEUE if command_queue is not a valid command-queue for device.
        let queue = Handle::<DeviceQueue>::find(queue)?;
        if queue.context != context || queue.device != device {
            return Err(CL_INVALID_COMMAND_QUEUE);
        }
        let mut defaults = context.default_queues.lock().unwrap_or_else(PoisonError::into_inner);
        queue.client.make_default()?;
        DefaultQueue::set(&mut defaults, &queue);
        Ok(())
    })
}

/// clGetCommandQueueInfo of a queue on the device.
pub(super) fn answer(queue: &Handle<DeviceQueue>, name: cl_command_queue_info, info: Info) -> Result<Answered, cl_int> {
    match name {
        CL_QUEUE_CONTEXT => info.value(queue.context.raw()),
        CL_QUEUE_DEVICE => info.value(queue.device.raw()),
        CL_QUEUE_REFERENCE_COUNT => info.value(queue.reference_count()),
        CL_QUEUE_PROPERTIES => info.value(queue.client.properties()),
        CL_QUEUE_PROPERTIES_ARRAY => info.slice(&queue.properties),
        CL_QUEUE_SIZE => info.value(queue.client.size()),
        CL_QUEUE_DEVICE_DEFAULT => info.value(default_on(&queue.context, &queue.device)),
        // CL_INVALID_VALUE if param_name is not one of the supported values.
        _ => Err(CL_INVALID_VALUE),
    }
}

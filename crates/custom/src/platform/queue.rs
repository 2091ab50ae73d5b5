//! Command queues.

use std::ffi::c_void;
use std::sync::Arc;

use ropeway_abi as cl;

use super::context::Context;
use super::device::Device;
use super::handle::{Object, get, release, retain};
use super::info::{Into, give};
use crate::engine;

/// What a queue can be.
const PROPERTIES: u64 = cl::CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | cl::CL_QUEUE_PROFILING_ENABLE;

/// A command queue.
pub(super) struct Queue {
    pub(super) context: Arc<Object<Context>>,
    pub(super) device: Arc<Object<Device>>,
    pub(super) properties: u64,
    pub(super) commands: Arc<engine::queue::Queue>,
}

/// clCreateCommandQueue.
pub(super) unsafe extern "C" fn clCreateCommandQueue(
    context: cl::cl_context,
    device: cl::cl_device_id,
    properties: cl::cl_command_queue_properties,
    status: *mut cl::cl_int,
) -> cl::cl_command_queue {
    // SAFETY: the worker's own handles.
    let (context, device) = unsafe { (get::<Context, _>(context), get::<Device, _>(device)) };
    let made = match (context, device) {
        (None, _) => Err(cl::CL_INVALID_CONTEXT),
        (Some(context), Some(device)) if context.has(&device) => {
            if properties & !PROPERTIES == 0 {
                let commands = engine::queue::Queue::new(properties & cl::CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE == 0);
                Ok(Object::new(Queue { context, device, properties, commands }).into_handle())
            } else {
                Err(cl::CL_INVALID_QUEUE_PROPERTIES)
            }
        }
        _ => Err(cl::CL_INVALID_DEVICE),
    };
    // SAFETY: null or valid for a write.
    unsafe { give(status, made) }
}

/// clCreateCommandQueueWithProperties: CL_QUEUE_PROPERTIES alone.
pub(super) unsafe extern "C" fn clCreateCommandQueueWithProperties(
    context: cl::cl_context,
    device: cl::cl_device_id,
    list: *const cl::cl_queue_properties,
    status: *mut cl::cl_int,
) -> cl::cl_command_queue {
    let mut properties = 0;
    let mut at = list;
    // SAFETY: null or a list of pairs that ends with 0.
    while !at.is_null() && unsafe { *at } != 0 {
        // SAFETY: as above.
        let (name, value) = unsafe { (*at, *at.add(1)) };
        if name != u64::from(cl::CL_QUEUE_PROPERTIES) {
            // SAFETY: null or valid for a write.
            return unsafe { give(status, Err(cl::CL_INVALID_QUEUE_PROPERTIES)) };
        }
        properties = value;
        at = at.wrapping_add(2);
    }
    // SAFETY: as this function.
    unsafe { clCreateCommandQueue(context, device, properties, status) }
}

/// clRetainCommandQueue.
pub(super) unsafe extern "C" fn clRetainCommandQueue(queue: cl::cl_command_queue) -> cl::cl_int {
    // SAFETY: the worker's own handle.
    if unsafe { retain::<Queue, _>(queue) } { cl::CL_SUCCESS } else { cl::CL_INVALID_COMMAND_QUEUE }
}

/// clReleaseCommandQueue. Its commands go on.
pub(super) unsafe extern "C" fn clReleaseCommandQueue(queue: cl::cl_command_queue) -> cl::cl_int {
    // SAFETY: the worker's own handle, with a reference.
    if unsafe { release::<Queue, _>(queue) }.is_some() { cl::CL_SUCCESS } else { cl::CL_INVALID_COMMAND_QUEUE }
}

/// clGetCommandQueueInfo.
pub(super) unsafe extern "C" fn clGetCommandQueueInfo(
    queue: cl::cl_command_queue,
    name: cl::cl_command_queue_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl::cl_int {
    let into = Into { size, value, size_ret };
    // SAFETY: the worker's own handle.
    let Some(queue) = (unsafe { get::<Queue, _>(queue) }) else { return cl::CL_INVALID_COMMAND_QUEUE };
    match name {
        cl::CL_QUEUE_CONTEXT => into.word(queue.context.handle::<c_void>().addr()),
        cl::CL_QUEUE_DEVICE => into.word(queue.device.handle::<c_void>().addr()),
        cl::CL_QUEUE_REFERENCE_COUNT => into.uint(1),
        cl::CL_QUEUE_PROPERTIES => into.ulong(queue.properties),
        cl::CL_QUEUE_DEVICE_DEFAULT => into.word(0),
        cl::CL_QUEUE_SIZE => cl::CL_INVALID_COMMAND_QUEUE,
        _ => cl::CL_INVALID_VALUE,
    }
}

/// clFlush: commands run as soon as they can.
pub(super) unsafe extern "C" fn clFlush(queue: cl::cl_command_queue) -> cl::cl_int {
    if queue.is_null() { cl::CL_INVALID_COMMAND_QUEUE } else { cl::CL_SUCCESS }
}

/// clFinish.
pub(super) unsafe extern "C" fn clFinish(queue: cl::cl_command_queue) -> cl::cl_int {
    // SAFETY: the worker's own handle.
    let Some(queue) = (unsafe { get::<Queue, _>(queue) }) else { return cl::CL_INVALID_COMMAND_QUEUE };
    queue.commands.finish();
    cl::CL_SUCCESS
}

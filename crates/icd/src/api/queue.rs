//! Command queues (OpenCL 3.0 API, sections 5.1 and 5.15).

use std::ffi::c_void;

use ropeway_abi::{
    CL_INVALID_COMMAND_QUEUE, CL_INVALID_DEVICE, CL_INVALID_OPERATION, CL_INVALID_QUEUE_PROPERTIES, CL_INVALID_VALUE,
    CL_QUEUE_CONTEXT, CL_QUEUE_DEVICE, CL_QUEUE_DEVICE_DEFAULT, CL_QUEUE_ON_DEVICE, CL_QUEUE_ON_DEVICE_DEFAULT,
    CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, CL_QUEUE_PRIORITY_KHR, CL_QUEUE_PROFILING_ENABLE, CL_QUEUE_PROPERTIES,
    CL_QUEUE_PROPERTIES_ARRAY, CL_QUEUE_REFERENCE_COUNT, CL_QUEUE_SIZE, CL_QUEUE_THROTTLE_KHR, cl_bool,
    cl_command_queue, cl_command_queue_info, cl_command_queue_properties, cl_context, cl_device_id, cl_int,
    cl_queue_properties,
};
use ropeway_client::queue;

use super::device_queue;
use crate::guard;
use crate::handle::{self, Handle};
use crate::info::{Answered, Info};
use crate::objects::{Context, Device, DeviceQueue, Queue};

const PROPERTIES: u64 = CL_QUEUE_PROPERTIES as u64;
const SIZE: u64 = CL_QUEUE_SIZE as u64;

/// cl_khr_priority_hints and cl_khr_throttle_hints; 0 where none is given.
#[derive(Default, PartialEq, Eq)]
struct Hints {
    priority: u32,
    throttle: u32,
}

/// A hint's value: high, medium or low.
///
/// # Errors
/// CL_INVALID_VALUE if values specified in properties are not valid.
fn one_of_three(value: u64) -> Result<u32, cl_int> {
    match value {
        1 | 2 | 4 => Ok(value as u32),
        _ => Err(CL_INVALID_VALUE),
    }
}

/// clCreateCommandQueue.
pub unsafe extern "C" fn clCreateCommandQueue(
    context: cl_context,
    device: cl_device_id,
    properties: cl_command_queue_properties,
    errcode_ret: *mut cl_int,
) -> cl_command_queue {
    // SAFETY: the caller's promise.
    unsafe {
        guard::create("clCreateCommandQueue", errcode_ret, || {
            let (context, device) = context_and_device(context, device)?;
            create(&context, &device, properties, Hints::default(), Vec::new())
        })
    }
}

/// clCreateCommandQueueWithProperties.
pub unsafe extern "C" fn clCreateCommandQueueWithProperties(
    context: cl_context,
    device: cl_device_id,
    properties: *const cl_queue_properties,
    errcode_ret: *mut cl_int,
) -> cl_command_queue {
    // SAFETY: the caller's promise, here and below.
    unsafe {
        guard::create("clCreateCommandQueueWithProperties", errcode_ret, || {
            let (context, device) = context_and_device(context, device)?;
            let mut list = Vec::new();
            let mut bits = 0;
            let mut size: Option<u64> = None;
            let mut hints = Hints::default();
            let mut next = properties;
            while !next.is_null() && next.read() != 0 {
                let (name, value) = (next.read(), next.add(1).read());
                // CL_INVALID_VALUE if values specified in properties are not valid, a name given twice among them.
                if list.iter().step_by(2).any(|&earlier| earlier == name) {
                    return Err(CL_INVALID_VALUE);
                }
                match name {
                    PROPERTIES => bits = value,
                    SIZE => size = Some(value),
                    // One of the three values of the hint, where the device has the extension.
                    CL_QUEUE_PRIORITY_KHR if device.has_extension("cl_khr_priority_hints") => {
                        hints.priority = one_of_three(value)?;
                    }
                    CL_QUEUE_THROTTLE_KHR if device.has_extension("cl_khr_throttle_hints") => {
                        hints.throttle = one_of_three(value)?;
                    }
                    _ => return Err(CL_INVALID_VALUE),
                }
                list.extend([name, value]);
                next = next.add(2);
            }
            if !next.is_null() {
                list.push(0);
            }
            if bits & CL_QUEUE_ON_DEVICE != 0 {
                check_bits(bits)?;
                // CL_INVALID_QUEUE_PROPERTIES if the property is one of the hints and the queue is on the device.
                if hints != Hints::default() {
                    return Err(CL_INVALID_QUEUE_PROPERTIES);
                }
                return device_queue::create(&context, &device, bits, size, list);
            }
            // CL_QUEUE_SIZE is for queues on the device only.
            if size.is_some() {
                return Err(CL_INVALID_VALUE);
            }
            create(&context, &device, bits, hints, list)
        })
    }
}

pub(super) fn context_and_device(
    context: cl_context,
    device: cl_device_id,
) -> Result<(Handle<Context>, Handle<Device>), cl_int> {
    let context = Handle::<Context>::find(context)?;
    let device = Handle::<Device>::find(device)?;
    // CL_INVALID_DEVICE if device is not associated with context.
    if context.devices.contains(&device) { Ok((context, device)) } else { Err(CL_INVALID_DEVICE) }
}

/// # Errors
/// CL_INVALID_VALUE if values specified in properties are not valid: unknown ones, a queue on the device that is not
/// out of order, the default of such queues that is none itself.
fn check_bits(bits: cl_command_queue_properties) -> Result<(), cl_int> {
    const HOST: u64 = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_PROFILING_ENABLE;
    const DEVICE: u64 = CL_QUEUE_ON_DEVICE | CL_QUEUE_ON_DEVICE_DEFAULT;
    let on_device = bits & CL_QUEUE_ON_DEVICE != 0;
    if bits & !(HOST | DEVICE) != 0
        || on_device && bits & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE == 0
        || !on_device && bits & CL_QUEUE_ON_DEVICE_DEFAULT != 0
    {
        return Err(CL_INVALID_VALUE);
    }
    Ok(())
}

fn create(
    context: &Handle<Context>,
    device: &Handle<Device>,
    bits: cl_command_queue_properties,
    hints: Hints,
    properties: Vec<u64>,
) -> Result<*mut c_void, cl_int> {
    check_bits(bits)?;
    // CL_INVALID_QUEUE_PROPERTIES if values are valid but not supported by the device. Queues on it have properties
    // that name them.
    if bits & CL_QUEUE_ON_DEVICE != 0 || bits & !device.limits.queue_properties != 0 {
        return Err(CL_INVALID_QUEUE_PROPERTIES);
    }
    let client = queue::Queue::with_hints(&context.client, &device.client, bits, hints.priority, hints.throttle)?;
    let queue = Queue { client, context: context.clone(), device: device.clone(), properties };
    let queue = Handle::new(context, queue)?;
    context.client.hold();
    Ok(queue.give())
}

/// clSetCommandQueueProperty: deprecated since OpenCL 1.1, and an error for devices of later versions.
pub unsafe extern "C" fn clSetCommandQueueProperty(
    queue: cl_command_queue,
    _properties: cl_command_queue_properties,
    _enable: cl_bool,
    _old_properties: *mut cl_command_queue_properties,
) -> cl_int {
    guard::status("clSetCommandQueueProperty", || {
        Handle::<Queue>::find(queue)?;
        Err::<(), _>(CL_INVALID_OPERATION)
    })
}

/// clRetainCommandQueue.
pub unsafe extern "C" fn clRetainCommandQueue(queue: cl_command_queue) -> cl_int {
    guard::status("clRetainCommandQueue", || match handle::retain::<Queue>(queue) {
        Err(CL_INVALID_COMMAND_QUEUE) => handle::retain::<DeviceQueue>(queue),
        outcome => outcome,
    })
}

/// clReleaseCommandQueue, which also flushes it.
pub unsafe extern "C" fn clReleaseCommandQueue(queue: cl_command_queue) -> cl_int {
    guard::status("clReleaseCommandQueue", || {
        match Handle::<Queue>::find(queue) {
            // A flush that fails because the server is lost does not keep the queue alive.
            Ok(found) => drop(found.client.flush()),
            // There is nothing to flush in one on the device.
            Err(_) => return handle::release::<DeviceQueue>(queue),
        }
        if let Some(last) = handle::release_last::<Queue>(queue)? {
            last.client.context().let_go();
        }
        Ok(())
    })
}

/// clGetCommandQueueInfo.
pub unsafe extern "C" fn clGetCommandQueueInfo(
    queue: cl_command_queue,
    name: cl_command_queue_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    // SAFETY: the caller's promise.
    let info = unsafe { Info::new(size, value, size_ret) };
    guard::status("clGetCommandQueueInfo", || match Handle::<Queue>::find(queue) {
        Ok(queue) => answer(&queue, name, info),
        Err(_) => device_queue::answer(&Handle::find(queue)?, name, info),
    })
}

fn answer(queue: &Handle<Queue>, name: cl_command_queue_info, info: Info) -> Result<Answered, cl_int> {
    match name {
        CL_QUEUE_CONTEXT => info.value(queue.context.raw()),
        CL_QUEUE_DEVICE => info.value(queue.device.raw()),
        CL_QUEUE_REFERENCE_COUNT => info.value(queue.reference_count()),
        CL_QUEUE_PROPERTIES => info.value(queue.client.properties()),
        CL_QUEUE_PROPERTIES_ARRAY => info.slice(&queue.properties),
        CL_QUEUE_DEVICE_DEFAULT => info.value(device_queue::default_on(&queue.context, &queue.device)),
        // CL_INVALID_COMMAND_QUEUE if it is not a queue that the query is about: one on a device.
        CL_QUEUE_SIZE => Err(CL_INVALID_COMMAND_QUEUE),
        // CL_INVALID_VALUE if param_name is not one of the supported values.
        _ => Err(CL_INVALID_VALUE),
    }
}

/// clFlush.
pub unsafe extern "C" fn clFlush(queue: cl_command_queue) -> cl_int {
    guard::status("clFlush", || Handle::<Queue>::find(queue)?.client.flush())
}

/// clFinish.
pub unsafe extern "C" fn clFinish(queue: cl_command_queue) -> cl_int {
    guard::status("clFinish", || Handle::<Queue>::find(queue)?.client.finish())
}

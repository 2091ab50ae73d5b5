//! Command buffers as objects: made, finalized, asked about, enqueued.

use std::ffi::c_void;

use ropeway_abi::{
    CL_COMMAND_BUFFER_CONTEXT_KHR, CL_COMMAND_BUFFER_DEVICE_SIDE_SYNC_KHR, CL_COMMAND_BUFFER_FLAGS_KHR,
    CL_COMMAND_BUFFER_MUTABLE_KHR, CL_COMMAND_BUFFER_NUM_QUEUES_KHR, CL_COMMAND_BUFFER_PROPERTIES_ARRAY_KHR,
    CL_COMMAND_BUFFER_QUEUES_KHR, CL_COMMAND_BUFFER_REFERENCE_COUNT_KHR, CL_COMMAND_BUFFER_SIMULTANEOUS_USE_KHR,
    CL_COMMAND_BUFFER_STATE_EXECUTABLE_KHR, CL_COMMAND_BUFFER_STATE_KHR, CL_COMMAND_BUFFER_STATE_RECORDING_KHR,
    CL_INCOMPATIBLE_COMMAND_QUEUE_KHR, CL_INVALID_CONTEXT, CL_INVALID_OPERATION, CL_INVALID_PROPERTY, CL_INVALID_VALUE,
    cl_command_buffer_info_khr, cl_command_buffer_khr, cl_command_buffer_properties_khr, cl_command_queue, cl_event,
    cl_int, cl_uint,
};
use ropeway_client::command_buffer;

use super::supports;
use crate::api::order::Request;
use crate::guard;
use crate::handle::{self, Handle};
use crate::info::{Answered, Info};
use crate::objects::{CommandBuffer, Queue};

/// clCreateCommandBufferKHR.
pub unsafe extern "C" fn clCreateCommandBufferKHR(
    num_queues: cl_uint,
    queues: *const cl_command_queue,
    properties: *const cl_command_buffer_properties_khr,
    errcode_ret: *mut cl_int,
) -> cl_command_buffer_khr {
    // SAFETY: the caller's promise, here and below.
    unsafe {
        guard::create("clCreateCommandBufferKHR", errcode_ret, || {
            // CL_INVALID_VALUE if num_queues is not one (without cl_khr_command_buffer_multi_device), or if queues is
            // NULL.
            if num_queues != 1 || queues.is_null() {
                return Err(CL_INVALID_VALUE);
            }
            // CL_INVALID_COMMAND_QUEUE if any command-queue in queues is not a valid command-queue.
            let queue = Handle::<Queue>::find(queues.read())?;
            // CL_INCOMPATIBLE_COMMAND_QUEUE_KHR if the properties of the queue are not those that the device supports
            // here.
            if !supports(&queue.device) {
                return Err(CL_INCOMPATIBLE_COMMAND_QUEUE_KHR);
            }
            let properties = read_properties(properties)?;
            let client = command_buffer::CommandBuffer::new(&queue.client)?;
            Ok(Handle::new(&queue, CommandBuffer { client, queue: queue.clone(), properties })?.give())
        })
    }
}

/// The list as it was given, with the final 0; empty if there was none.
///
/// # Safety
/// `properties` is null or a list that ends with 0.
unsafe fn read_properties(properties: *const cl_command_buffer_properties_khr) -> Result<Vec<u64>, cl_int> {
    /// Those of extensions that are not offered.
    const OTHERS: u64 =
        CL_COMMAND_BUFFER_SIMULTANEOUS_USE_KHR | CL_COMMAND_BUFFER_MUTABLE_KHR | CL_COMMAND_BUFFER_DEVICE_SIDE_SYNC_KHR;
    let mut list: Vec<u64> = Vec::new();
    let mut next = properties;
    // SAFETY: the caller's promise.
    while !next.is_null() && unsafe { next.read() } != 0 {
        // SAFETY: as above: a value follows each name.
        let (name, value) = unsafe { (next.read(), next.add(1).read()) };
        // CL_INVALID_VALUE if values specified in properties are not valid, or if the same property name is specified
        // more than once.
        if name != CL_COMMAND_BUFFER_FLAGS_KHR || !list.is_empty() || value & !OTHERS != 0 {
            return Err(CL_INVALID_VALUE);
        }
        // CL_INVALID_PROPERTY if values specified in properties are valid but are not supported by all the devices.
        if value != 0 {
            return Err(CL_INVALID_PROPERTY);
        }
        list.extend([name, value]);
        // SAFETY: as above: another name follows, or 0.
        next = unsafe { next.add(2) };
    }
    if !properties.is_null() {
        list.push(0);
    }
    Ok(list)
}

/// clFinalizeCommandBufferKHR.
pub unsafe extern "C" fn clFinalizeCommandBufferKHR(command_buffer: cl_command_buffer_khr) -> cl_int {
    guard::status("clFinalizeCommandBufferKHR", || {
        // CL_INVALID_OPERATION if command_buffer is not in the Recording state: the client knows.
        Handle::<CommandBuffer>::find(command_buffer)?.client.finalize()
    })
}

/// clRetainCommandBufferKHR.
pub unsafe extern "C" fn clRetainCommandBufferKHR(command_buffer: cl_command_buffer_khr) -> cl_int {
    guard::status("clRetainCommandBufferKHR", || handle::retain::<CommandBuffer>(command_buffer))
}

/// clReleaseCommandBufferKHR.
pub unsafe extern "C" fn clReleaseCommandBufferKHR(command_buffer: cl_command_buffer_khr) -> cl_int {
    guard::status("clReleaseCommandBufferKHR", || handle::release::<CommandBuffer>(command_buffer))
}

/// clEnqueueCommandBufferKHR.
pub unsafe extern "C" fn clEnqueueCommandBufferKHR(
    num_queues: cl_uint,
    queues: *mut cl_command_queue,
    command_buffer: cl_command_buffer_khr,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueCommandBufferKHR", || {
        let commands = Handle::<CommandBuffer>::find(command_buffer)?;
        // CL_INVALID_OPERATION if command_buffer has not been finalized.
        if !commands.client.is_finalized() {
            return Err(CL_INVALID_OPERATION);
        }
        // CL_INVALID_VALUE if queues is NULL and num_queues is > 0, or queues is not NULL and num_queues is 0, or if
        // num_queues is > 0 and not the same value as num_queues set on command_buffer creation.
        if (num_queues == 0) != queues.is_null() || num_queues > 1 {
            return Err(CL_INVALID_VALUE);
        }
        let queue = match num_queues {
            0 => commands.queue.clone(),
            // CL_INVALID_COMMAND_QUEUE if any element of queues is not a valid command-queue.
            // SAFETY: the caller's promise; not null.
            _ => Handle::<Queue>::find(unsafe { queues.read() })?,
        };
        // CL_INCOMPATIBLE_COMMAND_QUEUE_KHR if the queue has another device than the one set on creation.
        if queue.context == commands.queue.context && queue.device != commands.queue.device {
            return Err(CL_INCOMPATIBLE_COMMAND_QUEUE_KHR);
        }
        // CL_INVALID_CONTEXT if the queue has another context than the one set on creation.
        if queue.context != commands.queue.context {
            return Err(CL_INVALID_CONTEXT);
        }
        // SAFETY: the caller's promise.
        let request = unsafe { Request::read(&queue, num_events, wait_list, event)? };
        request.run(&queue, |order| queue.client.enqueue_commands(&commands.client, order))
    })
}

/// clGetCommandBufferInfoKHR.
pub unsafe extern "C" fn clGetCommandBufferInfoKHR(
    command_buffer: cl_command_buffer_khr,
    name: cl_command_buffer_info_khr,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    // SAFETY: the caller's promise.
    let info = unsafe { Info::new(size, value, size_ret) };
    guard::status("clGetCommandBufferInfoKHR", || answer(&Handle::find(command_buffer)?, name, info))
}

fn answer(commands: &Handle<CommandBuffer>, name: cl_command_buffer_info_khr, info: Info) -> Result<Answered, cl_int> {
    match name {
        CL_COMMAND_BUFFER_NUM_QUEUES_KHR => info.value::<cl_uint>(1),
        CL_COMMAND_BUFFER_QUEUES_KHR => info.value(commands.queue.raw()),
        CL_COMMAND_BUFFER_REFERENCE_COUNT_KHR => info.value(commands.reference_count()),
        CL_COMMAND_BUFFER_STATE_KHR => info.value(match commands.client.is_finalized() {
            true => CL_COMMAND_BUFFER_STATE_EXECUTABLE_KHR,
            false => CL_COMMAND_BUFFER_STATE_RECORDING_KHR,
        }),
        CL_COMMAND_BUFFER_PROPERTIES_ARRAY_KHR => info.slice(&commands.properties),
        CL_COMMAND_BUFFER_CONTEXT_KHR => info.value(commands.queue.context.raw()),
        // CL_INVALID_VALUE if param_name is not one of the supported values.
        _ => Err(CL_INVALID_VALUE),
    }
}

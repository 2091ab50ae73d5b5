//! Pipes (OpenCL 3.0 API, section 5.4).

use std::ffi::c_void;

use ropeway_abi::{
    CL_DEVICE_PIPE_MAX_PACKET_SIZE, CL_DEVICE_PIPE_SUPPORT, CL_INVALID_MEM_OBJECT, CL_INVALID_OPERATION,
    CL_INVALID_PIPE_SIZE, CL_INVALID_VALUE, CL_MEM_HOST_NO_ACCESS, CL_MEM_READ_WRITE, CL_PIPE_MAX_PACKETS,
    CL_PIPE_PACKET_SIZE, CL_PIPE_PROPERTIES, cl_context, cl_int, cl_mem, cl_mem_flags, cl_pipe_info,
    cl_pipe_properties, cl_uint,
};
use ropeway_client::memory;
use ropeway_client::pipe::Pipe;

use crate::guard;
use crate::handle::Handle;
use crate::info::{Answered, Info};
use crate::objects::{Context, Device, Memory};

/// Whether a device has pipes. Those of OpenCL 2.x all have, and need not know the query.
fn supports(device: &Device) -> bool {
    match device.client.property(CL_DEVICE_PIPE_SUPPORT) {
        Some(Ok(_)) => device.client.number(CL_DEVICE_PIPE_SUPPORT) != 0,
        _ => device.client.number(CL_DEVICE_PIPE_MAX_PACKET_SIZE) != 0,
    }
}

/// clCreatePipe.
pub unsafe extern "C" fn clCreatePipe(
    context: cl_context,
    flags: cl_mem_flags,
    pipe_packet_size: cl_uint,
    pipe_max_packets: cl_uint,
    properties: *const cl_pipe_properties,
    errcode_ret: *mut cl_int,
) -> cl_mem {
    // SAFETY: the caller's promise.
    unsafe {
        guard::create("clCreatePipe", errcode_ret, || {
            let context = Handle::<Context>::find(context)?;
            // CL_INVALID_OPERATION if no devices in context support pipes.
            if !context.devices.iter().any(|device| supports(device)) {
                return Err(CL_INVALID_OPERATION);
            }
            // CL_INVALID_VALUE if values specified in flags are not as defined: only these two can be specified.
            if flags & !(CL_MEM_READ_WRITE | CL_MEM_HOST_NO_ACCESS) != 0 {
                return Err(CL_INVALID_VALUE);
            }
            // CL_INVALID_VALUE if properties is not NULL.
            if !properties.is_null() {
                return Err(CL_INVALID_VALUE);
            }
            // CL_INVALID_PIPE_SIZE if pipe_packet_size is 0 or the value of pipe_packet_size exceeds
            // CL_DEVICE_PIPE_MAX_PACKET_SIZE for all devices in context or if pipe_max_packets is 0.
            let most = |device: &Handle<Device>| device.client.number(CL_DEVICE_PIPE_MAX_PACKET_SIZE);
            let fits = context.devices.iter().any(|device| u64::from(pipe_packet_size) <= most(device));
            if pipe_packet_size == 0 || pipe_max_packets == 0 || !fits {
                return Err(CL_INVALID_PIPE_SIZE);
            }
            let flags = if flags == 0 { CL_MEM_READ_WRITE | CL_MEM_HOST_NO_ACCESS } else { flags };
            let pipe = Pipe { packet_size: pipe_packet_size, max_packets: pipe_max_packets };
            let client = memory::Memory::pipe(&context.client, flags, pipe)?;
            let memory = Memory { client, context: context.clone(), parent: None, properties: Vec::new() };
            Ok(Handle::new(&context, memory)?.give())
        })
    }
}

/// clGetPipeInfo.
pub unsafe extern "C" fn clGetPipeInfo(
    pipe: cl_mem,
    name: cl_pipe_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    // SAFETY: the caller's promise.
    let info = unsafe { Info::new(size, value, size_ret) };
    guard::status("clGetPipeInfo", || answer(&*Handle::<Memory>::find(pipe)?, name, info))
}

fn answer(memory: &Memory, name: cl_pipe_info, info: Info) -> Result<Answered, cl_int> {
    // CL_INVALID_MEM_OBJECT if pipe is not a valid pipe object.
    let pipe = memory.client.as_pipe().ok_or(CL_INVALID_MEM_OBJECT)?;
    match name {
        CL_PIPE_PACKET_SIZE => info.value(pipe.packet_size),
        CL_PIPE_MAX_PACKETS => info.value(pipe.max_packets),
        // It was made with none.
        CL_PIPE_PROPERTIES => info.bytes(&[]),
        // CL_INVALID_VALUE if param_name is not one of the supported values.
        _ => Err(CL_INVALID_VALUE),
    }
}

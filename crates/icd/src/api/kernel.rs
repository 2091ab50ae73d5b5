//! Kernels (OpenCL 3.0 API, sections 5.9 and 5.10).

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use ropeway_abi::{
    CL_INVALID_ARG_INDEX, CL_INVALID_ARG_SIZE, CL_INVALID_ARG_VALUE, CL_INVALID_DEVICE, CL_INVALID_DEVICE_QUEUE,
    CL_INVALID_MEM_OBJECT, CL_INVALID_PROGRAM_EXECUTABLE, CL_INVALID_SAMPLER, CL_INVALID_VALUE,
    CL_KERNEL_ARG_ACCESS_QUALIFIER, CL_KERNEL_ARG_ACCESS_READ_ONLY, CL_KERNEL_ARG_ACCESS_WRITE_ONLY,
    CL_KERNEL_ARG_ADDRESS_QUALIFIER, CL_KERNEL_ARG_INFO_NOT_AVAILABLE, CL_KERNEL_ARG_NAME, CL_KERNEL_ARG_TYPE_NAME,
    CL_KERNEL_ARG_TYPE_QUALIFIER, CL_KERNEL_ATTRIBUTES, CL_KERNEL_COMPILE_WORK_GROUP_SIZE, CL_KERNEL_CONTEXT,
    CL_KERNEL_FUNCTION_NAME, CL_KERNEL_GLOBAL_WORK_SIZE, CL_KERNEL_LOCAL_MEM_SIZE, CL_KERNEL_NUM_ARGS,
    CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, CL_KERNEL_PRIVATE_MEM_SIZE, CL_KERNEL_PROGRAM,
    CL_KERNEL_REFERENCE_COUNT, CL_KERNEL_WORK_GROUP_SIZE, CL_MEM_READ_ONLY, CL_MEM_WRITE_ONLY, cl_device_id, cl_int,
    cl_kernel, cl_kernel_arg_info, cl_kernel_info, cl_kernel_work_group_info, cl_program, cl_uint,
};
use ropeway_client::device;
use ropeway_client::kernel::{self, Arg};
use ropeway_protocol::types::{ArgKind, WorkGroupInfo};

use super::enumerate;
use super::text;
use crate::guard;
use crate::handle::{self, Handle};
use crate::info::{Answered, Info};
use crate::objects::{Device, DeviceQueue, Kernel, Memory, Program, Sampler};

/// clCreateKernel.
pub unsafe extern "C" fn clCreateKernel(
    program: cl_program,
    kernel_name: *const c_char,
    errcode_ret: *mut cl_int,
) -> cl_kernel {
    // SAFETY: the caller's promise, here and below.
    unsafe {
        guard::create("clCreateKernel", errcode_ret, || {
            let program = Handle::<Program>::find(program)?;
            // CL_INVALID_VALUE if kernel_name is NULL.
            let name = text(kernel_name).ok_or(CL_INVALID_VALUE)?;
            // CL_INVALID_PROGRAM_EXECUTABLE, then CL_INVALID_KERNEL_NAME: the client knows what was built.
            let client = kernel::Kernel::new(&program.client, std::str::from_utf8(name).unwrap_or_default())?;
            Ok(Handle::new(&program, Kernel { client, program: program.clone() })?.give())
        })
    }
}

/// clCreateKernelsInProgram.
pub unsafe extern "C" fn clCreateKernelsInProgram(
    program: cl_program,
    num_kernels: cl_uint,
    kernels: *mut cl_kernel,
    num_kernels_ret: *mut cl_uint,
) -> cl_int {
    guard::status("clCreateKernelsInProgram", || {
        let program = Handle::<Program>::find(program)?;
        // CL_INVALID_PROGRAM_EXECUTABLE if there is no successfully built executable for any device in program.
        let build =
            program.client.finished_build().filter(|b| b.is_executable()).ok_or(CL_INVALID_PROGRAM_EXECUTABLE)?;
        let count = build.kernels().len();
        // CL_INVALID_VALUE if kernels is not NULL and num_kernels is less than the number of kernels in program.
        if !kernels.is_null() && (num_kernels as usize) < count {
            return Err(CL_INVALID_VALUE);
        }
        let mut made = Vec::with_capacity(count);
        if !kernels.is_null() {
            for info in build.kernels() {
                let client = kernel::Kernel::new(&program.client, &info.name)?;
                made.push(Handle::new(&program, Kernel { client, program: program.clone() })?);
            }
        }
        let handles: Vec<_> = made.into_iter().map(Handle::give).collect();
        // SAFETY: the caller's promise.
        unsafe { enumerate(&handles, num_kernels, kernels, std::ptr::null_mut()) };
        // SAFETY: the caller's promise.
        unsafe { super::put(num_kernels_ret, count as cl_uint) };
        Ok(())
    })
}

/// clRetainKernel.
pub unsafe extern "C" fn clRetainKernel(kernel: cl_kernel) -> cl_int {
    guard::status("clRetainKernel", || handle::retain::<Kernel>(kernel))
}

/// clReleaseKernel.
pub unsafe extern "C" fn clReleaseKernel(kernel: cl_kernel) -> cl_int {
    guard::status("clReleaseKernel", || handle::release::<Kernel>(kernel))
}

/// clSetKernelArg.
pub unsafe extern "C" fn clSetKernelArg(
    kernel: cl_kernel,
    arg_index: cl_uint,
    arg_size: usize,
    arg_value: *const c_void,
) -> cl_int {
    guard::status("clSetKernelArg", || {
        let kernel = Handle::<Kernel>::find(kernel)?;
        // CL_INVALID_ARG_INDEX if arg_index is not a valid argument index.
        let kind = kernel.client.arg_kind(arg_index).ok_or(CL_INVALID_ARG_INDEX)?;
        // SAFETY: the caller's promise.
        unsafe { set_arg(&kernel, arg_index, kind, arg_size, arg_value) }
    })
}

/// # Safety
/// `value` is null or valid for reads of as many bytes as the argument has, and of `size` bytes where that is not
/// known.
unsafe fn set_arg(
    kernel: &Kernel,
    index: cl_uint,
    kind: ArgKind,
    size: usize,
    value: *const c_void,
) -> Result<(), cl_int> {
    const HANDLE: usize = size_of::<*mut c_void>();
    // SAFETY: read only where the argument has a handle's size.
    let handle = || unsafe { value.cast::<*mut c_void>().read_unaligned() };
    let bytes = |len| {
        // SAFETY: the caller's promise; not null.
        unsafe { std::slice::from_raw_parts(value.cast::<u8>(), len) }
    };
    // Without declarations, an argument that takes a handle can look like another kind. PoCL takes any eight bytes for
    // an image or a sampler; numbers are no handles. An argument that looks like an image or a sampler is one: the
    // device itself said so.
    let declared = kernel.client.info().args.get(index as usize).and_then(|arg| arg.declared.as_ref());
    let undeclared = declared.is_none() && size == HANDLE && !value.is_null();
    match kind {
        ArgKind::Buffer | ArgKind::Value(_) | ArgKind::Unknown
            if undeclared && set_object(kernel, index, handle())? =>
        {
            Ok(())
        }
        ArgKind::Buffer => {
            // CL_INVALID_ARG_SIZE if the argument is a memory object and arg_size is not sizeof(cl_mem).
            if size != HANDLE {
                return Err(CL_INVALID_ARG_SIZE);
            }
            // A NULL value and a pointer to a NULL value both mean the null memory object.
            if value.is_null() || handle().is_null() {
                return kernel.client.set_arg(index, Arg::Memory(None));
            }
            let buffer = memory_of(kernel, handle())?;
            // CL_INVALID_MEM_OBJECT if the argument is a memory object and the value is not a valid one.
            if !buffer.client.is_buffer() {
                return Err(CL_INVALID_MEM_OBJECT);
            }
            kernel.client.set_arg(index, Arg::Memory(Some(&buffer.client)))
        }
        ArgKind::Image => {
            // CL_INVALID_ARG_SIZE if the argument is a memory object and arg_size is not sizeof(cl_mem).
            if size != HANDLE {
                return Err(CL_INVALID_ARG_SIZE);
            }
            // CL_INVALID_MEM_OBJECT if the argument is a memory object and the value is not a valid one.
            let image = memory_of(kernel, if value.is_null() { std::ptr::null_mut() } else { handle() })?;
            if image.client.as_image().is_none() {
                return Err(CL_INVALID_MEM_OBJECT);
            }
            // CL_INVALID_ARG_VALUE if the argument is an image declared with the read_only qualifier and the image was
            // created with CL_MEM_WRITE_ONLY, or if it is declared with write_only and the image was created with
            // CL_MEM_READ_ONLY.
            let forbidden = match declared.map(|declared| declared.access) {
                Some(CL_KERNEL_ARG_ACCESS_READ_ONLY) => CL_MEM_WRITE_ONLY,
                Some(CL_KERNEL_ARG_ACCESS_WRITE_ONLY) => CL_MEM_READ_ONLY,
                _ => 0,
            };
            if image.client.flags() & forbidden != 0 {
                return Err(CL_INVALID_ARG_VALUE);
            }
            kernel.client.set_arg(index, Arg::Memory(Some(&image.client)))
        }
        ArgKind::Sampler => {
            // CL_INVALID_ARG_SIZE if arg_size is not sizeof(cl_sampler).
            if size != HANDLE {
                return Err(CL_INVALID_ARG_SIZE);
            }
            // CL_INVALID_SAMPLER if the argument is of type sampler_t and the value is not a valid sampler object.
            let sampler = Handle::<Sampler>::find(if value.is_null() { std::ptr::null_mut() } else { handle() })?;
            if sampler.context != kernel.program.context {
                return Err(CL_INVALID_SAMPLER);
            }
            kernel.client.set_arg(index, Arg::Sampler(&sampler.client))
        }
        ArgKind::Local => {
            // CL_INVALID_ARG_VALUE if the argument is in local memory and arg_value is not NULL; CL_INVALID_ARG_SIZE if
            // arg_size is 0.
            if !value.is_null() {
                return Err(CL_INVALID_ARG_VALUE);
            }
            if size == 0 {
                return Err(CL_INVALID_ARG_SIZE);
            }
            kernel.client.set_arg(index, Arg::Local(size))
        }
        ArgKind::Value(wanted) => {
            // CL_INVALID_ARG_VALUE if the argument is a value and arg_value is NULL; CL_INVALID_ARG_SIZE if arg_size is
            // not the size of its type.
            if value.is_null() {
                return Err(CL_INVALID_ARG_VALUE);
            }
            if size != wanted as usize {
                return Err(CL_INVALID_ARG_SIZE);
            }
            kernel.client.set_arg(index, Arg::Bytes(bytes(size)))
        }
        ArgKind::Pipe => {
            // CL_INVALID_ARG_SIZE if the argument is a memory object and arg_size is not sizeof(cl_mem).
            if size != HANDLE {
                return Err(CL_INVALID_ARG_SIZE);
            }
            // CL_INVALID_MEM_OBJECT if the argument is a memory object and the value is not a valid one.
            let pipe = memory_of(kernel, if value.is_null() { std::ptr::null_mut() } else { handle() })?;
            if pipe.client.as_pipe().is_none() {
                return Err(CL_INVALID_MEM_OBJECT);
            }
            kernel.client.set_arg(index, Arg::Memory(Some(&pipe.client)))
        }
        ArgKind::Queue => {
            // CL_INVALID_ARG_SIZE if arg_size does not match the size of the data type for the argument.
            if size != HANDLE {
                return Err(CL_INVALID_ARG_SIZE);
            }
            // CL_INVALID_DEVICE_QUEUE if the argument is of type queue_t and the value is not a valid device queue
            // object.
            let queue = Handle::<DeviceQueue>::find(if value.is_null() { std::ptr::null_mut() } else { handle() });
            match queue {
                Ok(queue) if queue.context == kernel.program.context => {
                    kernel.client.set_arg(index, Arg::Queue(&queue.client))
                }
                _ => Err(CL_INVALID_DEVICE_QUEUE),
            }
        }
        ArgKind::Other => Err(CL_INVALID_ARG_VALUE),
        // The native implementation does not check the size of this argument.
        ArgKind::Unknown => {
            if value.is_null() {
                return Err(CL_INVALID_ARG_VALUE);
            }
            kernel.client.set_arg(index, Arg::Bytes(bytes(size)))
        }
    }
}

/// # Errors
/// CL_INVALID_MEM_OBJECT if it is not a valid memory object: also when it is another context's, which cannot mean
/// anything to this kernel.
fn memory_of(kernel: &Kernel, handle: *mut c_void) -> Result<Handle<Memory>, cl_int> {
    let memory = Handle::<Memory>::find(handle)?;
    if memory.context == kernel.program.context { Ok(memory) } else { Err(CL_INVALID_MEM_OBJECT) }
}

/// Sets an argument to the object that `handle` is; false where it is none that the kernel could have.
fn set_object(kernel: &Kernel, index: cl_uint, handle: *mut c_void) -> Result<bool, cl_int> {
    if let Ok(memory) = memory_of(kernel, handle) {
        return kernel.client.set_arg(index, Arg::Memory(Some(&memory.client))).map(|()| true);
    }
    match Handle::<Sampler>::find(handle) {
        Ok(sampler) if sampler.context == kernel.program.context => {
            kernel.client.set_arg(index, Arg::Sampler(&sampler.client)).map(|()| true)
        }
        _ => Ok(false),
    }
}

/// clGetKernelInfo.
pub unsafe extern "C" fn clGetKernelInfo(
    kernel: cl_kernel,
    name: cl_kernel_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    // SAFETY: the caller's promise.
    let info = unsafe { Info::new(size, value, size_ret) };
    guard::status("clGetKernelInfo", || answer(&Handle::find(kernel)?, name, info))
}

fn answer(kernel: &Handle<Kernel>, name: cl_kernel_info, info: Info) -> Result<Answered, cl_int> {
    let known = kernel.client.info();
    match name {
        CL_KERNEL_FUNCTION_NAME => info.string(&known.name),
        CL_KERNEL_NUM_ARGS => info.value(known.args.len() as cl_uint),
        CL_KERNEL_REFERENCE_COUNT => info.value(kernel.reference_count()),
        CL_KERNEL_CONTEXT => info.value(kernel.program.context.raw()),
        CL_KERNEL_PROGRAM => info.value(kernel.program.raw()),
        CL_KERNEL_ATTRIBUTES => info.string(&known.attributes),
        // CL_INVALID_VALUE if param_name is not one of the supported values.
        _ => Err(CL_INVALID_VALUE),
    }
}

/// clGetKernelArgInfo.
pub unsafe extern "C" fn clGetKernelArgInfo(
    kernel: cl_kernel,
    arg_index: cl_uint,
    name: cl_kernel_arg_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    // SAFETY: the caller's promise.
    let info = unsafe { Info::new(size, value, size_ret) };
    guard::status("clGetKernelArgInfo", || {
        let kernel = Handle::<Kernel>::find(kernel)?;
        // CL_INVALID_ARG_INDEX if arg_index is not a valid argument index.
        let arg = kernel.client.info().args.get(arg_index as usize).ok_or(CL_INVALID_ARG_INDEX)?;
        // CL_KERNEL_ARG_INFO_NOT_AVAILABLE if the argument information is not available for kernel.
        let declared = arg.declared.as_ref().ok_or(CL_KERNEL_ARG_INFO_NOT_AVAILABLE);
        match name {
            CL_KERNEL_ARG_ADDRESS_QUALIFIER => info.value(declared?.address),
            CL_KERNEL_ARG_ACCESS_QUALIFIER => info.value(declared?.access),
            CL_KERNEL_ARG_TYPE_QUALIFIER => info.value(declared?.type_qualifier),
            CL_KERNEL_ARG_TYPE_NAME => info.string(&declared?.type_name),
            CL_KERNEL_ARG_NAME => info.string(&declared?.name),
            // CL_INVALID_VALUE if param_name is not one of the supported values.
            _ => Err(CL_INVALID_VALUE),
        }
    })
}

/// clGetKernelWorkGroupInfo.
pub unsafe extern "C" fn clGetKernelWorkGroupInfo(
    kernel: cl_kernel,
    device: cl_device_id,
    name: cl_kernel_work_group_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    // SAFETY: the caller's promise.
    let info = unsafe { Info::new(size, value, size_ret) };
    guard::status("clGetKernelWorkGroupInfo", || {
        let kernel = Handle::<Kernel>::find(kernel)?;
        let known = work_group_info(&kernel, device)?;
        match name {
            CL_KERNEL_WORK_GROUP_SIZE => info.value(known.work_group_size as usize),
            CL_KERNEL_COMPILE_WORK_GROUP_SIZE => info.slice(&known.compile_work_group_size.map(|size| size as usize)),
            // The kernel's own variables, and its arguments in local memory.
            CL_KERNEL_LOCAL_MEM_SIZE => info.value(known.local_mem_size + kernel.client.local_arg_bytes()),
            CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE => info.value(known.preferred_multiple as usize),
            CL_KERNEL_PRIVATE_MEM_SIZE => info.value(known.private_mem_size),
            // CL_INVALID_VALUE if param_name is CL_KERNEL_GLOBAL_WORK_SIZE and kernel is neither built in nor on a
            // custom device.
            CL_KERNEL_GLOBAL_WORK_SIZE => {
                info.slice(&known.global_work_size.ok_or(CL_INVALID_VALUE)?.map(|size| size as usize))
            }
            // CL_INVALID_VALUE if param_name is not one of the supported values.
            _ => Err(CL_INVALID_VALUE),
        }
    })
}

/// The properties of a kernel on a device.
///
/// # Errors
/// As [`device_of`].
fn work_group_info(kernel: &Kernel, device: cl_device_id) -> Result<WorkGroupInfo, cl_int> {
    kernel.client.work_group(&device_of(kernel, device)?).ok_or(CL_INVALID_DEVICE)
}

/// The device that a query about a kernel means.
///
/// # Errors
/// CL_INVALID_DEVICE if device is not in the list of devices associated with kernel, or if device is NULL but there is
/// more than one.
pub(super) fn device_of(kernel: &Kernel, device: cl_device_id) -> Result<Arc<device::Device>, cl_int> {
    let devices = kernel.client.build().devices();
    let found = match (device.is_null(), devices) {
        (true, [only]) => Some(only),
        (true, _) => None,
        (false, _) => {
            let device = Handle::<Device>::find(device)?;
            devices.iter().find(|one| Arc::ptr_eq(one, &device.client))
        }
    };
    found.cloned().ok_or(CL_INVALID_DEVICE)
}

//! Programs: built-in kernels. Others can be made, as a context may have devices of other kinds beside, but not built.

use std::ffi::{CStr, c_char, c_uchar, c_void};
use std::sync::Arc;

use ropeway_abi as cl;

use super::context::Context;
use super::device::{self, Device};
use super::handle::{Object, get, release, retain};
use super::info::{Into, give};

/// A program.
pub(super) struct Program {
    pub(super) context: Arc<Object<Context>>,
    pub(super) devices: Vec<Arc<Object<Device>>>,
    /// The names of its kernels; `None` for a program of source code.
    pub(super) kernels: Option<Vec<String>>,
}

/// clCreateProgramWithBuiltInKernels: names that all devices have.
pub(super) unsafe extern "C" fn clCreateProgramWithBuiltInKernels(
    context: cl::cl_context,
    count: cl::cl_uint,
    devices: *const cl::cl_device_id,
    names: *const c_char,
    status: *mut cl::cl_int,
) -> cl::cl_program {
    let make = || {
        // SAFETY: the worker's own handle.
        let context = unsafe { get::<Context, _>(context) }.ok_or(cl::CL_INVALID_CONTEXT)?;
        // SAFETY: `count` handles.
        let devices = unsafe { device::list(count, devices) }.filter(|devices| !devices.is_empty());
        let devices = devices.ok_or(cl::CL_INVALID_VALUE)?;
        if !devices.iter().all(|device| context.has(device)) {
            return Err(cl::CL_INVALID_DEVICE);
        }
        if names.is_null() {
            return Err(cl::CL_INVALID_VALUE);
        }
        // SAFETY: a string that ends with NUL.
        let names = unsafe { CStr::from_ptr(names) }.to_str().map_err(|_| cl::CL_INVALID_VALUE)?;
        let names: Vec<_> = names.split(';').map(str::to_owned).collect();
        let has =
            |device: &Arc<Object<Device>>, name: &String| device.kernels.iter().any(|kernel| kernel.name == *name);
        if !names.iter().all(|name| devices.iter().all(|device| has(device, name))) {
            return Err(cl::CL_INVALID_VALUE);
        }
        Ok(Object::new(Program { context, devices, kernels: Some(names) }).into_handle())
    };
    // SAFETY: null or valid for a write.
    unsafe { give(status, make()) }
}

/// clCreateProgramWithSource: nothing here can build it.
pub(super) unsafe extern "C" fn clCreateProgramWithSource(
    context: cl::cl_context,
    _: cl::cl_uint,
    _: *mut *const c_char,
    _: *const usize,
    status: *mut cl::cl_int,
) -> cl::cl_program {
    // SAFETY: the worker's own handle.
    let made = unsafe { get::<Context, _>(context) }.ok_or(cl::CL_INVALID_CONTEXT).map(|context| {
        let devices = context.devices.clone();
        Object::new(Program { context, devices, kernels: None }).into_handle()
    });
    // SAFETY: null or valid for a write.
    unsafe { give(status, made) }
}

/// clCreateProgramWithBinary: there are no binaries.
pub(super) unsafe extern "C" fn clCreateProgramWithBinary(
    _: cl::cl_context,
    count: cl::cl_uint,
    _: *const cl::cl_device_id,
    _: *const usize,
    _: *mut *const c_uchar,
    each: *mut cl::cl_int,
    status: *mut cl::cl_int,
) -> cl::cl_program {
    if !each.is_null() {
        for at in 0..count as usize {
            // SAFETY: one for each device.
            unsafe { each.add(at).write(cl::CL_INVALID_BINARY) };
        }
    }
    // SAFETY: null or valid for a write.
    unsafe { give(status, Err(cl::CL_INVALID_BINARY)) }
}

/// clRetainProgram.
pub(super) unsafe extern "C" fn clRetainProgram(program: cl::cl_program) -> cl::cl_int {
    // SAFETY: the worker's own handle.
    if unsafe { retain::<Program, _>(program) } { cl::CL_SUCCESS } else { cl::CL_INVALID_PROGRAM }
}

/// clReleaseProgram.
pub(super) unsafe extern "C" fn clReleaseProgram(program: cl::cl_program) -> cl::cl_int {
    // SAFETY: the worker's own handle, with a reference.
    if unsafe { release::<Program, _>(program) }.is_some() { cl::CL_SUCCESS } else { cl::CL_INVALID_PROGRAM }
}

/// clBuildProgram: built-in kernels are not built (OpenCL 3.0 API, section 5.8.2), and there is no compiler for others.
pub(super) unsafe extern "C" fn clBuildProgram(
    program: cl::cl_program,
    _: cl::cl_uint,
    _: *const cl::cl_device_id,
    _: *const c_char,
    _: Option<unsafe extern "C" fn(cl::cl_program, *mut c_void)>,
    _: *mut c_void,
) -> cl::cl_int {
    // SAFETY: the worker's own handle.
    let Some(program) = (unsafe { get::<Program, _>(program) }) else { return cl::CL_INVALID_PROGRAM };
    if program.kernels.is_some() { cl::CL_INVALID_OPERATION } else { cl::CL_COMPILER_NOT_AVAILABLE }
}

/// clCompileProgram: as clBuildProgram.
pub(super) unsafe extern "C" fn clCompileProgram(
    program: cl::cl_program,
    count: cl::cl_uint,
    devices: *const cl::cl_device_id,
    options: *const c_char,
    _: cl::cl_uint,
    _: *const cl::cl_program,
    _: *mut *const c_char,
    _: Option<unsafe extern "C" fn(cl::cl_program, *mut c_void)>,
    _: *mut c_void,
) -> cl::cl_int {
    // SAFETY: as the caller of this has it.
    unsafe { clBuildProgram(program, count, devices, options, None, std::ptr::null_mut()) }
}

/// clLinkProgram: there is no linker.
pub(super) unsafe extern "C" fn clLinkProgram(
    _: cl::cl_context,
    _: cl::cl_uint,
    _: *const cl::cl_device_id,
    _: *const c_char,
    _: cl::cl_uint,
    _: *const cl::cl_program,
    _: Option<unsafe extern "C" fn(cl::cl_program, *mut c_void)>,
    _: *mut c_void,
    status: *mut cl::cl_int,
) -> cl::cl_program {
    // SAFETY: null or valid for a write.
    unsafe { give(status, Err(cl::CL_LINKER_NOT_AVAILABLE)) }
}

/// clGetProgramInfo.
pub(super) unsafe extern "C" fn clGetProgramInfo(
    program: cl::cl_program,
    name: cl::cl_program_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl::cl_int {
    let into = Into { size, value, size_ret };
    // SAFETY: the worker's own handle.
    let Some(program) = (unsafe { get::<Program, _>(program) }) else { return cl::CL_INVALID_PROGRAM };
    match name {
        cl::CL_PROGRAM_REFERENCE_COUNT => into.uint(1),
        cl::CL_PROGRAM_CONTEXT => into.word(program.context.handle::<c_void>().addr()),
        cl::CL_PROGRAM_NUM_DEVICES => into.uint(program.devices.len() as u32),
        cl::CL_PROGRAM_DEVICES => {
            let handles: Vec<_> = program.devices.iter().map(|device| device.handle::<c_void>().addr()).collect();
            into.words(&handles)
        }
        cl::CL_PROGRAM_SOURCE | cl::CL_PROGRAM_IL => into.bytes(&[]),
        cl::CL_PROGRAM_BINARY_SIZES => into.words(&vec![0; program.devices.len()]),
        cl::CL_PROGRAM_BINARIES => into.bytes(&[]),
        cl::CL_PROGRAM_NUM_KERNELS | cl::CL_PROGRAM_KERNEL_NAMES => match &program.kernels {
            None => cl::CL_INVALID_PROGRAM_EXECUTABLE,
            Some(kernels) if name == cl::CL_PROGRAM_NUM_KERNELS => into.word(kernels.len()),
            Some(kernels) => into.text(&kernels.join(";")),
        },
        cl::CL_PROGRAM_SCOPE_GLOBAL_CTORS_PRESENT | cl::CL_PROGRAM_SCOPE_GLOBAL_DTORS_PRESENT => into.truth(false),
        _ => cl::CL_INVALID_VALUE,
    }
}

/// clGetProgramBuildInfo.
pub(super) unsafe extern "C" fn clGetProgramBuildInfo(
    program: cl::cl_program,
    _: cl::cl_device_id,
    name: cl::cl_program_build_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl::cl_int {
    let into = Into { size, value, size_ret };
    // SAFETY: the worker's own handle.
    let Some(program) = (unsafe { get::<Program, _>(program) }) else { return cl::CL_INVALID_PROGRAM };
    let is_built = program.kernels.is_some();
    match name {
        cl::CL_PROGRAM_BUILD_STATUS => {
            into.uint(if is_built { cl::CL_BUILD_SUCCESS } else { cl::CL_BUILD_NONE } as u32)
        }
        cl::CL_PROGRAM_BUILD_OPTIONS | cl::CL_PROGRAM_BUILD_LOG => into.text(""),
        cl::CL_PROGRAM_BINARY_TYPE => {
            into.uint(if is_built { cl::CL_PROGRAM_BINARY_TYPE_EXECUTABLE } else { cl::CL_PROGRAM_BINARY_TYPE_NONE })
        }
        cl::CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE => into.word(0),
        _ => cl::CL_INVALID_VALUE,
    }
}

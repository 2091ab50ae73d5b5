//! Kernels and their arguments.

use std::ffi::{CStr, c_char, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use ropeway_abi as cl;

use super::handle::{Object, get, release, retain};
use super::info::{Into, give};
use super::memory::Memory;
use super::program::Program;
use crate::kind::{Argument, Parameter, Passed, Signature};

/// A kernel.
pub(super) struct Kernel {
    pub(super) program: Arc<Object<Program>>,
    /// The same on all devices of the program.
    pub(super) signature: Signature,
    arguments: Mutex<Vec<Option<Argument>>>,
}

impl Kernel {
    /// The arguments as they are now; `None` if one is not set.
    pub(super) fn arguments(&self) -> Option<Vec<Argument>> {
        self.arguments.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// clCreateKernel.
pub(super) unsafe extern "C" fn clCreateKernel(
    program: cl::cl_program,
    name: *const c_char,
    status: *mut cl::cl_int,
) -> cl::cl_kernel {
    let make = || {
        // SAFETY: the worker's own handle.
        let program = unsafe { get::<Program, _>(program) }.ok_or(cl::CL_INVALID_PROGRAM)?;
        let known = program.kernels.as_ref().ok_or(cl::CL_INVALID_PROGRAM_EXECUTABLE)?;
        if name.is_null() {
            return Err(cl::CL_INVALID_VALUE);
        }
        // SAFETY: a string that ends with NUL.
        let name = unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| cl::CL_INVALID_KERNEL_NAME)?;
        if !known.iter().any(|known| known == name) {
            return Err(cl::CL_INVALID_KERNEL_NAME);
        }
        let found = |device: &Arc<Object<_>>| signature(device, name);
        let signature = program.devices.first().and_then(found).ok_or(cl::CL_INVALID_KERNEL_NAME)?;
        let arguments = Mutex::new(vec![None; signature.parameters.len()]);
        Ok(Object::new(Kernel { program, signature, arguments }).into_handle())
    };
    // SAFETY: null or valid for a write.
    unsafe { give(status, make()) }
}

fn signature(device: &Arc<Object<super::device::Device>>, name: &str) -> Option<Signature> {
    device.kernels.iter().find(|kernel| kernel.name == name).cloned()
}

/// clCloneKernel.
pub(super) unsafe extern "C" fn clCloneKernel(kernel: cl::cl_kernel, status: *mut cl::cl_int) -> cl::cl_kernel {
    // SAFETY: the worker's own handle.
    let made = unsafe { get::<Kernel, _>(kernel) }.ok_or(cl::CL_INVALID_KERNEL).map(|kernel| {
        let arguments = kernel.arguments.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (program, signature) = (kernel.program.clone(), kernel.signature.clone());
        Object::new(Kernel { program, signature, arguments: Mutex::new(arguments) }).into_handle()
    });
    // SAFETY: null or valid for a write.
    unsafe { give(status, made) }
}

/// clRetainKernel.
pub(super) unsafe extern "C" fn clRetainKernel(kernel: cl::cl_kernel) -> cl::cl_int {
    // SAFETY: the worker's own handle.
    if unsafe { retain::<Kernel, _>(kernel) } { cl::CL_SUCCESS } else { cl::CL_INVALID_KERNEL }
}

/// clReleaseKernel.
pub(super) unsafe extern "C" fn clReleaseKernel(kernel: cl::cl_kernel) -> cl::cl_int {
    // SAFETY: the worker's own handle, with a reference.
    if unsafe { release::<Kernel, _>(kernel) }.is_some() { cl::CL_SUCCESS } else { cl::CL_INVALID_KERNEL }
}

/// clSetKernelArg.
pub(super) unsafe extern "C" fn clSetKernelArg(
    kernel: cl::cl_kernel,
    index: cl::cl_uint,
    size: usize,
    value: *const c_void,
) -> cl::cl_int {
    // SAFETY: the worker's own handle.
    let Some(kernel) = (unsafe { get::<Kernel, _>(kernel) }) else { return cl::CL_INVALID_KERNEL };
    let Some(parameter) = kernel.signature.parameters.get(index as usize) else { return cl::CL_INVALID_ARG_INDEX };
    // SAFETY: null or `size` bytes; for a buffer, a handle of the worker's.
    match unsafe { argument(parameter, size, value) } {
        Ok(argument) => {
            let mut arguments = kernel.arguments.lock().unwrap_or_else(PoisonError::into_inner);
            arguments[index as usize] = Some(argument);
            cl::CL_SUCCESS
        }
        Err(code) => code,
    }
}

/// What `value` gives a parameter.
///
/// # Safety
/// `value` is null or has `size` bytes, which are a handle for a buffer.
unsafe fn argument(parameter: &Parameter, size: usize, value: *const c_void) -> Result<Argument, cl::cl_int> {
    if let Passed::Value(bytes) = parameter.passed {
        return match (size == bytes, value.is_null()) {
            (false, _) => Err(cl::CL_INVALID_ARG_SIZE),
            (true, true) => Err(cl::CL_INVALID_ARG_VALUE),
            // SAFETY: by the promise of the caller.
            (true, false) => Ok(Argument::Value(unsafe { std::slice::from_raw_parts(value.cast(), size) }.to_vec())),
        };
    }
    if size != size_of::<cl::cl_mem>() {
        return Err(cl::CL_INVALID_ARG_SIZE);
    }
    if value.is_null() {
        return Ok(Argument::Buffer(None));
    }
    // SAFETY: by the promise of the caller; such bytes need not be aligned.
    let memory = unsafe { get::<Memory, _>(value.cast::<cl::cl_mem>().read_unaligned()) };
    Ok(Argument::Buffer(memory.map(|memory| memory.range.clone())))
}

/// clGetKernelInfo.
pub(super) unsafe extern "C" fn clGetKernelInfo(
    kernel: cl::cl_kernel,
    name: cl::cl_kernel_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl::cl_int {
    let into = Into { size, value, size_ret };
    // SAFETY: the worker's own handle.
    let Some(kernel) = (unsafe { get::<Kernel, _>(kernel) }) else { return cl::CL_INVALID_KERNEL };
    match name {
        cl::CL_KERNEL_FUNCTION_NAME => into.text(&kernel.signature.name),
        cl::CL_KERNEL_NUM_ARGS => into.uint(kernel.signature.parameters.len() as u32),
        cl::CL_KERNEL_REFERENCE_COUNT => into.uint(1),
        cl::CL_KERNEL_CONTEXT => into.word(kernel.program.context.handle::<c_void>().addr()),
        cl::CL_KERNEL_PROGRAM => into.word(kernel.program.handle::<c_void>().addr()),
        cl::CL_KERNEL_ATTRIBUTES => into.text(""),
        _ => cl::CL_INVALID_VALUE,
    }
}

/// clGetKernelArgInfo: built-in kernels have it.
pub(super) unsafe extern "C" fn clGetKernelArgInfo(
    kernel: cl::cl_kernel,
    index: cl::cl_uint,
    name: cl::cl_kernel_arg_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl::cl_int {
    let into = Into { size, value, size_ret };
    // SAFETY: the worker's own handle.
    let Some(kernel) = (unsafe { get::<Kernel, _>(kernel) }) else { return cl::CL_INVALID_KERNEL };
    let Some(parameter) = kernel.signature.parameters.get(index as usize) else { return cl::CL_INVALID_ARG_INDEX };
    let is_value = matches!(parameter.passed, Passed::Value(_));
    match name {
        cl::CL_KERNEL_ARG_ADDRESS_QUALIFIER => {
            into.uint(if is_value { cl::CL_KERNEL_ARG_ADDRESS_PRIVATE } else { cl::CL_KERNEL_ARG_ADDRESS_GLOBAL })
        }
        cl::CL_KERNEL_ARG_ACCESS_QUALIFIER => into.uint(cl::CL_KERNEL_ARG_ACCESS_NONE),
        cl::CL_KERNEL_ARG_TYPE_NAME => into.text(&parameter.type_name),
        cl::CL_KERNEL_ARG_TYPE_QUALIFIER => into.ulong(match parameter.passed {
            Passed::In => u64::from(cl::CL_KERNEL_ARG_TYPE_CONST),
            Passed::Out | Passed::InOut | Passed::Value(_) => u64::from(cl::CL_KERNEL_ARG_TYPE_NONE),
        }),
        cl::CL_KERNEL_ARG_NAME => into.text(&parameter.name),
        _ => cl::CL_INVALID_VALUE,
    }
}

/// clGetKernelWorkGroupInfo.
pub(super) unsafe extern "C" fn clGetKernelWorkGroupInfo(
    kernel: cl::cl_kernel,
    _: cl::cl_device_id,
    name: cl::cl_kernel_work_group_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl::cl_int {
    let into = Into { size, value, size_ret };
    // SAFETY: the worker's own handle.
    let Some(kernel) = (unsafe { get::<Kernel, _>(kernel) }) else { return cl::CL_INVALID_KERNEL };
    match name {
        cl::CL_KERNEL_WORK_GROUP_SIZE | cl::CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE => into.word(1),
        cl::CL_KERNEL_COMPILE_WORK_GROUP_SIZE => into.words(&[0, 0, 0]),
        cl::CL_KERNEL_LOCAL_MEM_SIZE | cl::CL_KERNEL_PRIVATE_MEM_SIZE => into.ulong(0),
        cl::CL_KERNEL_GLOBAL_WORK_SIZE => into.words(&[largest(&kernel.signature); 3]),
        _ => cl::CL_INVALID_VALUE,
    }
}

/// The largest global size in each dimension (CL_KERNEL_GLOBAL_WORK_SIZE).
pub(super) fn largest(signature: &Signature) -> usize {
    if signature.is_ranged { usize::MAX } else { 1 }
}

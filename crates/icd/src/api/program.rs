//! Programs (OpenCL 3.0 API, section 5.8).

use std::ffi::{CStr, c_char, c_uchar, c_void};
use std::sync::Arc;

use ropeway_abi::{
    CL_BUILD_IN_PROGRESS, CL_BUILD_NONE, CL_DEVICE_IL_VERSION, CL_FALSE, CL_INVALID_BINARY, CL_INVALID_DEVICE,
    CL_INVALID_OPERATION, CL_INVALID_PROGRAM, CL_INVALID_PROGRAM_EXECUTABLE, CL_INVALID_VALUE, CL_PROGRAM_BINARIES,
    CL_PROGRAM_BINARY_SIZES, CL_PROGRAM_BINARY_TYPE, CL_PROGRAM_BINARY_TYPE_NONE,
    CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE, CL_PROGRAM_BUILD_LOG, CL_PROGRAM_BUILD_OPTIONS,
    CL_PROGRAM_BUILD_STATUS, CL_PROGRAM_CONTEXT, CL_PROGRAM_DEVICES, CL_PROGRAM_IL, CL_PROGRAM_KERNEL_NAMES,
    CL_PROGRAM_NUM_DEVICES, CL_PROGRAM_NUM_KERNELS, CL_PROGRAM_REFERENCE_COUNT, CL_PROGRAM_SCOPE_GLOBAL_CTORS_PRESENT,
    CL_PROGRAM_SCOPE_GLOBAL_DTORS_PRESENT, CL_PROGRAM_SOURCE, cl_context, cl_device_id, cl_int, cl_program,
    cl_program_build_info, cl_program_info, cl_uint,
};
use ropeway_client::program::{self, Origin};

use super::text;
use super::{Callback, Raw};
use crate::guard;
use crate::handle::{self, Handle};
use crate::info::{Answered, Info};
use crate::objects::{Context, Device, Program, text_of};

/// clCreateProgramWithSource.
pub unsafe extern "C" fn clCreateProgramWithSource(
    context: cl_context,
    count: cl_uint,
    strings: *mut *const c_char,
    lengths: *const usize,
    errcode_ret: *mut cl_int,
) -> cl_program {
    // SAFETY: the caller's promise, here and below.
    unsafe {
        guard::create("clCreateProgramWithSource", errcode_ret, || {
            let context = Handle::<Context>::find(context)?;
            // CL_INVALID_VALUE if count is 0, or if strings or any entry in strings is NULL.
            if count == 0 || strings.is_null() {
                return Err(CL_INVALID_VALUE);
            }
            let mut source = Vec::new();
            for index in 0..count as usize {
                let string = strings.add(index).read();
                if string.is_null() {
                    return Err(CL_INVALID_VALUE);
                }
                // A length of 0, or no lengths: up to the NUL.
                let length = if lengths.is_null() { 0 } else { lengths.add(index).read() };
                source.extend_from_slice(match length {
                    0 => CStr::from_ptr(string).to_bytes(),
                    length => std::slice::from_raw_parts(string.cast(), length),
                });
            }
            // A length may take in the final NUL, which is no part of the source.
            while source.last() == Some(&0) {
                source.pop();
            }
            let client = program::Program::with_source(&context.client, source)?;
            let devices = context.devices.clone();
            Ok(Handle::new(&context, Program { client, context: context.clone(), devices })?.give())
        })
    }
}

/// clCreateProgramWithBinary.
pub unsafe extern "C" fn clCreateProgramWithBinary(
    context: cl_context,
    num_devices: cl_uint,
    device_list: *const cl_device_id,
    lengths: *const usize,
    binaries: *mut *const c_uchar,
    binary_status: *mut cl_int,
    errcode_ret: *mut cl_int,
) -> cl_program {
    // SAFETY: the caller's promise, here and below.
    unsafe {
        guard::create("clCreateProgramWithBinary", errcode_ret, || {
            let context = Handle::<Context>::find(context)?;
            // CL_INVALID_VALUE if device_list is NULL or num_devices is 0, or if lengths or binaries is NULL.
            if device_list.is_null() || num_devices == 0 || lengths.is_null() || binaries.is_null() {
                return Err(CL_INVALID_VALUE);
            }
            let count = num_devices as usize;
            let devices = devices_of(&context.devices, std::slice::from_raw_parts(device_list, count))?;
            let each_status = |index: usize, status: cl_int| {
                if !binary_status.is_null() {
                    binary_status.add(index).write(status);
                }
            };
            let mut contents = Vec::with_capacity(count);
            for index in 0..count {
                let (length, binary) = (lengths.add(index).read(), binaries.add(index).read());
                // CL_INVALID_VALUE if any entry in lengths or binaries is 0 or NULL.
                if length == 0 || binary.is_null() {
                    each_status(index, CL_INVALID_VALUE);
                    return Err(CL_INVALID_VALUE);
                }
                contents.push(std::slice::from_raw_parts(binary, length));
            }
            let given: Vec<_> = devices.iter().map(|d| Arc::clone(&d.client)).zip(contents.iter().copied()).collect();
            let (client, each) = program::Program::with_binaries(&context.client, &given);
            for (index, &status) in each.iter().enumerate().take(count) {
                // CL_INVALID_BINARY if an invalid program binary was encountered for any device.
                each_status(index, if status == 0 { 0 } else { CL_INVALID_BINARY });
            }
            Ok(Handle::new(&context, Program { client: client?, context: context.clone(), devices })?.give())
        })
    }
}

/// Whether a device supports intermediate language programs.
fn takes_il(device: &Handle<Device>) -> bool {
    let version = device.client.property(CL_DEVICE_IL_VERSION).and_then(Result::ok).and_then(text_of);
    version.is_some_and(|version| !version.is_empty())
}

/// clCreateProgramWithIL.
pub unsafe extern "C" fn clCreateProgramWithIL(
    context: cl_context,
    il: *const c_void,
    length: usize,
    errcode_ret: *mut cl_int,
) -> cl_program {
    // SAFETY: the caller's promise, here and below.
    unsafe {
        guard::create("clCreateProgramWithIL", errcode_ret, || {
            let context = Handle::<Context>::find(context)?;
            // CL_INVALID_OPERATION if no devices in context support intermediate language programs.
            if !context.devices.iter().any(takes_il) {
                return Err(CL_INVALID_OPERATION);
            }
            // CL_INVALID_VALUE if il is NULL or if length is zero.
            if il.is_null() || length == 0 {
                return Err(CL_INVALID_VALUE);
            }
            let il = std::slice::from_raw_parts(il.cast::<u8>(), length).to_vec();
            let client = program::Program::with_il(&context.client, il)?;
            let devices = context.devices.clone();
            Ok(Handle::new(&context, Program { client, context: context.clone(), devices })?.give())
        })
    }
}

/// clCreateProgramWithBuiltInKernels.
pub unsafe extern "C" fn clCreateProgramWithBuiltInKernels(
    context: cl_context,
    num_devices: cl_uint,
    device_list: *const cl_device_id,
    kernel_names: *const c_char,
    errcode_ret: *mut cl_int,
) -> cl_program {
    // SAFETY: the caller's promise, here and below.
    unsafe {
        guard::create("clCreateProgramWithBuiltInKernels", errcode_ret, || {
            let context = Handle::<Context>::find(context)?;
            // CL_INVALID_VALUE if device_list is NULL or num_devices is zero.
            if device_list.is_null() || num_devices == 0 {
                return Err(CL_INVALID_VALUE);
            }
            let devices = devices_of(&context.devices, std::slice::from_raw_parts(device_list, num_devices as usize))?;
            // CL_INVALID_VALUE if kernel_names is NULL, or contains a kernel name that is not supported by any of the
            // devices.
            let names = text(kernel_names).ok_or(CL_INVALID_VALUE)?;
            let names = std::str::from_utf8(names).map_err(|_| CL_INVALID_VALUE)?;
            let client = program::Program::with_built_in_kernels(&context.client, &clients_of(&devices), names)?;
            Ok(Handle::new(&context, Program { client, context: context.clone(), devices })?.give())
        })
    }
}

/// clSetProgramSpecializationConstant.
pub unsafe extern "C" fn clSetProgramSpecializationConstant(
    program: cl_program,
    spec_id: cl_uint,
    spec_size: usize,
    spec_value: *const c_void,
) -> cl_int {
    guard::status("clSetProgramSpecializationConstant", || {
        let program = Handle::<Program>::find(program)?;
        // CL_INVALID_OPERATION if no devices associated with program support intermediate language programs.
        if !program.devices.iter().any(takes_il) {
            return Err(CL_INVALID_OPERATION);
        }
        // CL_INVALID_PROGRAM if program is not a valid program object created from an intermediate language.
        if !matches!(program.client.origin(), Origin::Il(_)) {
            return Err(CL_INVALID_PROGRAM);
        }
        // CL_INVALID_VALUE if spec_value is NULL, or if spec_size does not match the size of the constant: none is
        // larger than a long vector.
        if spec_value.is_null() || spec_size == 0 || spec_size > size_of::<[u64; 16]>() {
            return Err(CL_INVALID_VALUE);
        }
        // SAFETY: the caller's promise.
        let value = unsafe { std::slice::from_raw_parts(spec_value.cast::<u8>(), spec_size) };
        program.client.set_specialization_constant(spec_id, value)
    })
}

/// clSetProgramReleaseCallback: deprecated since OpenCL 3.0.
pub unsafe extern "C" fn clSetProgramReleaseCallback(
    program: cl_program,
    pfn_notify: Option<unsafe extern "C" fn(cl_program, *mut c_void)>,
    user_data: *mut c_void,
) -> cl_int {
    guard::status("clSetProgramReleaseCallback", || {
        let found = Handle::<Program>::find(program)?;
        // CL_INVALID_VALUE if pfn_notify is NULL.
        let callback = Callback::new(pfn_notify.ok_or(CL_INVALID_VALUE)?, user_data);
        // CL_INVALID_OPERATION if no devices associated with program support destructors for program scope global
        // variables: OpenCL 2.2 alone has them.
        if !found.devices.iter().any(|device| device.limits.version == (2, 2)) {
            return Err(CL_INVALID_OPERATION);
        }
        let program = Raw::new(program);
        found.client.on_release(Box::new(move || {
            let (notify, user_data) = callback.parts();
            // SAFETY: the application gave this function and argument for this.
            unsafe { notify(program.get(), user_data) };
        }));
        Ok(())
    })
}

pub(super) fn clients_of(devices: &[Handle<Device>]) -> Vec<Arc<ropeway_client::device::Device>> {
    devices.iter().map(|device| Arc::clone(&device.client)).collect()
}

/// # Errors
/// CL_INVALID_DEVICE if a device is not in the list of devices associated with the object.
pub(super) fn devices_of(of: &[Handle<Device>], handles: &[cl_device_id]) -> Result<Vec<Handle<Device>>, cl_int> {
    let find = |&handle: &cl_device_id| {
        let device = Handle::<Device>::find(handle)?;
        if of.contains(&device) { Ok(device) } else { Err(CL_INVALID_DEVICE) }
    };
    handles.iter().map(find).collect()
}

/// clRetainProgram.
pub unsafe extern "C" fn clRetainProgram(program: cl_program) -> cl_int {
    guard::status("clRetainProgram", || handle::retain::<Program>(program))
}

/// clReleaseProgram.
pub unsafe extern "C" fn clReleaseProgram(program: cl_program) -> cl_int {
    guard::status("clReleaseProgram", || handle::release::<Program>(program))
}

/// clGetProgramInfo.
pub unsafe extern "C" fn clGetProgramInfo(
    program: cl_program,
    name: cl_program_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    // SAFETY: the caller's promise.
    let info = unsafe { Info::new(size, value, size_ret) };
    guard::status("clGetProgramInfo", || answer(&Handle::find(program)?, name, info))
}

fn answer(program: &Handle<Program>, name: cl_program_info, info: Info) -> Result<Answered, cl_int> {
    // CL_INVALID_PROGRAM_EXECUTABLE if the query needs a program that was built for at least one device.
    let built = || program.client.finished_build();
    let executable = || built().filter(|b| b.is_executable()).ok_or(CL_INVALID_PROGRAM_EXECUTABLE);
    match name {
        CL_PROGRAM_REFERENCE_COUNT => info.value(program.reference_count()),
        CL_PROGRAM_CONTEXT => info.value(program.context.raw()),
        CL_PROGRAM_NUM_DEVICES => info.value(program.devices.len() as cl_uint),
        CL_PROGRAM_DEVICES => info.slice(&program.devices.iter().map(Handle::raw).collect::<Vec<_>>()),
        CL_PROGRAM_SOURCE => info.bytes(&[program.client.source(), b"\0"].concat()),
        CL_PROGRAM_BINARY_SIZES => {
            let size = |device: &Handle<Device>| program.client.binary_size(&device.client);
            info.slice(&program.devices.iter().map(size).collect::<Result<Vec<_>, _>>()?)
        }
        CL_PROGRAM_BINARIES => write_binaries(program, info),
        CL_PROGRAM_NUM_KERNELS => info.value(executable()?.kernels().len()),
        CL_PROGRAM_KERNEL_NAMES => {
            let build = executable()?;
            let names: Vec<_> = build.kernels().iter().map(|kernel| kernel.name.as_str()).collect();
            info.string(&names.join(";"))
        }
        CL_PROGRAM_IL => match program.client.origin() {
            Origin::Il(il) => info.bytes(il),
            // Nothing for a program that was made of something else.
            _ => info.bytes(&[]),
        },
        CL_PROGRAM_SCOPE_GLOBAL_CTORS_PRESENT => {
            info.value(built().map_or(CL_FALSE, |build| build.has_constructors().into()))
        }
        CL_PROGRAM_SCOPE_GLOBAL_DTORS_PRESENT => {
            info.value(built().map_or(CL_FALSE, |build| build.has_destructors().into()))
        }
        // CL_INVALID_VALUE if param_name is not one of the supported values.
        _ => Err(CL_INVALID_VALUE),
    }
}

/// CL_PROGRAM_BINARIES: into the application's memory, wherever it wants that device's.
fn write_binaries(program: &Program, info: Info) -> Result<Answered, cl_int> {
    let (pointers, answered) = info.pointers(program.devices.len())?;
    for (device, pointer) in program.devices.iter().zip(pointers.into_iter().flatten()) {
        let size = program.client.binary_size(&device.client)?;
        if pointer.is_null() || size == 0 {
            continue;
        }
        let binary = program.client.binary(&device.client)?;
        // SAFETY: the application has laid out as many bytes as CL_PROGRAM_BINARY_SIZES told it, so no more are
        // written.
        unsafe { pointer.copy_from_nonoverlapping(binary.as_ptr(), binary.len().min(size)) };
    }
    Ok(answered)
}

/// clGetProgramBuildInfo.
pub unsafe extern "C" fn clGetProgramBuildInfo(
    program: cl_program,
    device: cl_device_id,
    name: cl_program_build_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    // SAFETY: the caller's promise.
    let info = unsafe { Info::new(size, value, size_ret) };
    guard::status("clGetProgramBuildInfo", || {
        let program = Handle::<Program>::find(program)?;
        // CL_INVALID_DEVICE if device is not in the list of devices associated with program.
        let device = devices_of(&program.devices, &[device])?.remove(0);
        build_answer(&program, &device, name, info)
    })
}

fn build_answer(
    program: &Program,
    device: &Device,
    name: cl_program_build_info,
    info: Info,
) -> Result<Answered, cl_int> {
    let build = program.client.build_info(&device.client);
    match name {
        CL_PROGRAM_BUILD_STATUS if program.client.is_building_for(&device.client) => info.value(CL_BUILD_IN_PROGRESS),
        CL_PROGRAM_BUILD_STATUS => info.value(build.map_or(CL_BUILD_NONE, |build| build.status)),
        CL_PROGRAM_BUILD_OPTIONS => info.string(&program.client.options()),
        CL_PROGRAM_BUILD_LOG => info.string(build.as_ref().map_or("", |build| &build.log)),
        CL_PROGRAM_BINARY_TYPE => info.value(build.map_or(CL_PROGRAM_BINARY_TYPE_NONE, |build| build.binary_type)),
        CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE => {
            info.value(build.map_or(0, |build| build.global_variables as usize))
        }
        // CL_INVALID_VALUE if param_name is not one of the supported values.
        _ => Err(CL_INVALID_VALUE),
    }
}

//! Programs (OpenCL 3.0 API, section 5.8).

use std::ffi::{CStr, c_char, c_uchar, c_void};
use std::sync::Arc;

use ropeway_abi::{
    CL_BUILD_NONE, CL_FALSE, CL_INVALID_BINARY, CL_INVALID_CONTEXT, CL_INVALID_DEVICE, CL_INVALID_OPERATION,
    CL_INVALID_PROGRAM_EXECUTABLE, CL_INVALID_VALUE, CL_PROGRAM_BINARIES, CL_PROGRAM_BINARY_SIZES,
    CL_PROGRAM_BINARY_TYPE, CL_PROGRAM_BINARY_TYPE_NONE, CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE,
    CL_PROGRAM_BUILD_LOG, CL_PROGRAM_BUILD_OPTIONS, CL_PROGRAM_BUILD_STATUS, CL_PROGRAM_CONTEXT, CL_PROGRAM_DEVICES,
    CL_PROGRAM_IL, CL_PROGRAM_KERNEL_NAMES, CL_PROGRAM_NUM_DEVICES, CL_PROGRAM_NUM_KERNELS, CL_PROGRAM_REFERENCE_COUNT,
    CL_PROGRAM_SCOPE_GLOBAL_CTORS_PRESENT, CL_PROGRAM_SCOPE_GLOBAL_DTORS_PRESENT, CL_PROGRAM_SOURCE, CL_SUCCESS,
    cl_context, cl_device_id, cl_int, cl_program, cl_program_build_info, cl_program_info, cl_uint,
};
use ropeway_client::program::{self, Build};

use super::{both_or_neither, put};
use crate::guard;
use crate::handle::{self, Handle};
use crate::info::{Answered, Info};
use crate::objects::{Context, Device, Program};

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
            let program = Program { client, context: context.clone(), devices, binaries: Vec::new() };
            Ok(Handle::new(&context, program)?.give())
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
            let binaries = contents.into_iter().map(<[u8]>::to_vec).collect();
            let program = Program { client: client?, context: context.clone(), devices, binaries };
            Ok(Handle::new(&context, program)?.give())
        })
    }
}

/// # Errors
/// CL_INVALID_DEVICE if a device is not in the list of devices associated with the object.
fn devices_of(of: &[Handle<Device>], handles: &[cl_device_id]) -> Result<Vec<Handle<Device>>, cl_int> {
    let find = |&handle: &cl_device_id| {
        let device = Handle::<Device>::find(handle)?;
        if of.contains(&device) { Ok(device) } else { Err(CL_INVALID_DEVICE) }
    };
    handles.iter().map(find).collect()
}

/// clBuildProgram.
pub unsafe extern "C" fn clBuildProgram(
    program: cl_program,
    num_devices: cl_uint,
    device_list: *const cl_device_id,
    options: *const c_char,
    pfn_notify: Option<unsafe extern "C" fn(cl_program, *mut c_void)>,
    user_data: *mut c_void,
) -> cl_int {
    guard::status("clBuildProgram", || {
        let found = Handle::<Program>::find(program)?;
        // CL_INVALID_VALUE if device_list is NULL and num_devices is not 0, or the other way round.
        // SAFETY: the caller's promise.
        let list = unsafe { both_or_neither(num_devices, device_list)? };
        // CL_INVALID_VALUE if pfn_notify is NULL but user_data is not NULL.
        if pfn_notify.is_none() && !user_data.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        let devices = if list.is_empty() { found.devices.clone() } else { devices_of(&found.devices, list)? };
        // CL_INVALID_OPERATION if there are kernel objects attached to program.
        if found.client.attached_kernels() > 0 {
            return Err(CL_INVALID_OPERATION);
        }
        // SAFETY: the caller's promise.
        let options = unsafe { text_of(options) };
        let outcome = found.client.build(&clients_of(&devices), &options);
        // With pfn_notify the call need not wait for the build, but may; a program waits for the callback either way.
        if let Some(notify) = pfn_notify {
            // SAFETY: the application gave this function and argument for this.
            unsafe { notify(program, user_data) };
        }
        outcome
    })
}

/// The text behind a pointer that may be null.
///
/// # Safety
/// `text` is null or a NUL-terminated string.
unsafe fn text_of(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise; not null.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

fn clients_of(devices: &[Handle<Device>]) -> Vec<Arc<ropeway_client::system::Device>> {
    devices.iter().map(|device| Arc::clone(&device.client)).collect()
}

/// clCompileProgram.
pub unsafe extern "C" fn clCompileProgram(
    program: cl_program,
    num_devices: cl_uint,
    device_list: *const cl_device_id,
    options: *const c_char,
    num_input_headers: cl_uint,
    input_headers: *const cl_program,
    header_include_names: *mut *const c_char,
    pfn_notify: Option<unsafe extern "C" fn(cl_program, *mut c_void)>,
    user_data: *mut c_void,
) -> cl_int {
    guard::status("clCompileProgram", || {
        let found = Handle::<Program>::find(program)?;
        // CL_INVALID_VALUE if device_list is NULL and num_devices is not 0, or the other way round; and if input_headers or
        // header_include_names is NULL and num_input_headers is not 0, or the other way round.
        // SAFETY: the caller's promise, here and below.
        let (list, programs, names) = unsafe {
            (
                both_or_neither(num_devices, device_list)?,
                both_or_neither(num_input_headers, input_headers)?,
                both_or_neither(num_input_headers, header_include_names.cast_const())?,
            )
        };
        // CL_INVALID_VALUE if pfn_notify is NULL but user_data is not NULL.
        if pfn_notify.is_none() && !user_data.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        let devices = if list.is_empty() { found.devices.clone() } else { devices_of(&found.devices, list)? };
        // CL_INVALID_OPERATION if program has no source, or if there are kernel objects attached to program.
        if !found.client.has_source() || found.client.attached_kernels() > 0 {
            return Err(CL_INVALID_OPERATION);
        }
        let mut headers = Vec::with_capacity(programs.len());
        for (&program, &name) in programs.iter().zip(names) {
            let header = Handle::<Program>::find(program)?;
            // SAFETY: the caller's promise.
            headers.push((unsafe { text_of(name) }, Arc::clone(&header.client)));
        }
        // SAFETY: the caller's promise.
        let options = unsafe { text_of(options) };
        let outcome = found.client.compile(&clients_of(&devices), &options, &headers);
        if let Some(notify) = pfn_notify {
            // SAFETY: the application gave this function and argument for this.
            unsafe { notify(program, user_data) };
        }
        outcome
    })
}

/// clLinkProgram.
pub unsafe extern "C" fn clLinkProgram(
    context: cl_context,
    num_devices: cl_uint,
    device_list: *const cl_device_id,
    options: *const c_char,
    num_input_programs: cl_uint,
    input_programs: *const cl_program,
    pfn_notify: Option<unsafe extern "C" fn(cl_program, *mut c_void)>,
    user_data: *mut c_void,
    errcode_ret: *mut cl_int,
) -> cl_program {
    let mut linked = CL_SUCCESS;
    // SAFETY: the caller's promise, here and below.
    let made = unsafe {
        guard::create("clLinkProgram", errcode_ret, || {
            let context = Handle::<Context>::find(context)?;
            // CL_INVALID_VALUE if device_list is NULL and num_devices is not 0, or the other way round.
            let list = both_or_neither(num_devices, device_list)?;
            // CL_INVALID_VALUE if num_input_programs is 0 or input_programs is NULL.
            let programs = both_or_neither(num_input_programs, input_programs)?;
            // CL_INVALID_VALUE if pfn_notify is NULL but user_data is not NULL.
            if programs.is_empty() || (pfn_notify.is_none() && !user_data.is_null()) {
                return Err(CL_INVALID_VALUE);
            }
            let devices = if list.is_empty() { context.devices.clone() } else { devices_of(&context.devices, list)? };
            let mut inputs = Vec::with_capacity(programs.len());
            for &program in programs {
                // CL_INVALID_PROGRAM if a program in input_programs is not a valid program object.
                let input = Handle::<Program>::find(program)?;
                // They have to be of this context; the specification names no other error for one that is not.
                if input.context != context {
                    return Err(CL_INVALID_CONTEXT);
                }
                inputs.push(Arc::clone(&input.client));
            }
            let options = text_of(options);
            let (client, status) = program::Program::link(&context.client, &clients_of(&devices), &inputs, &options)?;
            linked = status;
            let program = Program { client, context: context.clone(), devices, binaries: Vec::new() };
            Ok(Handle::new(&context, program)?.give())
        })
    };
    if made.is_null() {
        return made;
    }
    // CL_LINK_PROGRAM_FAILURE comes with a program, whose log says why.
    // SAFETY: the caller's promise.
    unsafe { put(errcode_ret, linked) };
    if let Some(notify) = pfn_notify {
        // SAFETY: the application gave this function and argument for this.
        unsafe { notify(made, user_data) };
    }
    made
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
    let executable = || program.client.build_state().filter(|b| b.is_executable()).ok_or(CL_INVALID_PROGRAM_EXECUTABLE);
    match name {
        CL_PROGRAM_REFERENCE_COUNT => info.value(program.reference_count()),
        CL_PROGRAM_CONTEXT => info.value(program.context.raw()),
        CL_PROGRAM_NUM_DEVICES => info.value(program.devices.len() as cl_uint),
        CL_PROGRAM_DEVICES => info.slice(&program.devices.iter().map(Handle::raw).collect::<Vec<_>>()),
        CL_PROGRAM_SOURCE => info.bytes(&[program.client.source(), b"\0"].concat()),
        CL_PROGRAM_BINARY_SIZES => {
            info.slice(&(0..program.devices.len()).map(|index| binary_size(program, index)).collect::<Vec<_>>())
        }
        CL_PROGRAM_BINARIES => write_binaries(program, info),
        CL_PROGRAM_NUM_KERNELS => info.value(executable()?.kernels().len()),
        CL_PROGRAM_KERNEL_NAMES => {
            let build = executable()?;
            let names: Vec<_> = build.kernels().iter().map(|kernel| kernel.name.as_str()).collect();
            info.string(&names.join(";"))
        }
        // Made of source or binaries, so there is none.
        CL_PROGRAM_IL => info.bytes(&[]),
        CL_PROGRAM_SCOPE_GLOBAL_CTORS_PRESENT | CL_PROGRAM_SCOPE_GLOBAL_DTORS_PRESENT => info.value(CL_FALSE),
        // CL_INVALID_VALUE if param_name is not one of the supported values.
        _ => Err(CL_INVALID_VALUE),
    }
}

/// Bytes of the binary for one of the program's devices: what was built, else what was given, else 0.
fn binary_size(program: &Program, index: usize) -> usize {
    match program.client.build_state() {
        Some(build) => build.for_device(&program.devices[index].client).map_or(0, |one| one.binary_size as usize),
        None => program.binaries.get(index).map_or(0, Vec::len),
    }
}

/// CL_PROGRAM_BINARIES: into the application's memory, wherever it wants that device's.
fn write_binaries(program: &Program, info: Info) -> Result<Answered, cl_int> {
    let (pointers, answered) = info.pointers(program.devices.len())?;
    for (index, pointer) in pointers.into_iter().flatten().enumerate() {
        let size = binary_size(program, index);
        if pointer.is_null() || size == 0 {
            continue;
        }
        let built;
        let binary = match program.client.build_state() {
            Some(_) => {
                built = program.client.binary(&program.devices[index].client)?;
                &built
            }
            None => &program.binaries[index],
        };
        // SAFETY: the application has laid out as many bytes as CL_PROGRAM_BINARY_SIZES told it, so no more are written.
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
    let state = program.client.build_state();
    let build = state.as_deref().and_then(|state: &Build| state.for_device(&device.client));
    match name {
        CL_PROGRAM_BUILD_STATUS => info.value(build.map_or(CL_BUILD_NONE, |build| build.status)),
        CL_PROGRAM_BUILD_OPTIONS => info.string(&program.client.options()),
        CL_PROGRAM_BUILD_LOG => info.string(build.map_or("", |build| &build.log)),
        CL_PROGRAM_BINARY_TYPE => info.value(build.map_or(CL_PROGRAM_BINARY_TYPE_NONE, |build| build.binary_type)),
        CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE => {
            info.value(build.map_or(0, |build| build.global_variables as usize))
        }
        // CL_INVALID_VALUE if param_name is not one of the supported values.
        _ => Err(CL_INVALID_VALUE),
    }
}

//! Building, compiling and linking programs (OpenCL 3.0 API, sections 5.8.4 to 5.8.6).

use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;

use ropeway_abi::{
    CL_INVALID_CONTEXT, CL_INVALID_OPERATION, CL_INVALID_VALUE, CL_SUCCESS, cl_context, cl_device_id, cl_int,
    cl_platform_id, cl_program, cl_uint,
};
use ropeway_client::program::{self, Origin, Pending, Step};

use super::program::{clients_of, devices_of};
use super::{Callback, both_or_neither, put};
use crate::guard;
use crate::handle::{self, Handle};
use crate::objects::{Context, Device, Platform, Program};

type Notify = unsafe extern "C" fn(cl_program, *mut c_void);

/// The application's callback for the end of a build.
type Listener = Option<Callback<Notify>>;

/// # Errors
/// CL_INVALID_VALUE if pfn_notify is NULL but user_data is not NULL.
fn listener(pfn_notify: Option<Notify>, user_data: *mut c_void) -> Result<Listener, cl_int> {
    match pfn_notify {
        None if !user_data.is_null() => Err(CL_INVALID_VALUE),
        notify => Ok(notify.map(|notify| Callback::new(notify, user_data))),
    }
}

/// The text behind a pointer that may be null.
///
/// # Safety
/// `text` is null or a NUL-terminated string.
unsafe fn text_or_empty(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise; not null.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The devices that the application named, if it named any.
fn named(devices: &[Handle<Device>]) -> Option<Vec<Arc<ropeway_client::device::Device>>> {
    (!devices.is_empty()).then(|| clients_of(devices))
}

/// Carries out a build: at once, or on a thread of its own where the application gave a callback. Returns the outcome
/// where it is known at once.
fn carry_out(program: &Handle<Program>, pending: Pending, listener: Listener) -> Result<cl_int, cl_int> {
    let Some(callback) = listener else { return pending.run() };
    let kept = program.clone();
    let build = move || {
        // The program's build status and log tell the outcome.
        let _ = pending.run();
        ropeway_client::program::notify(move || {
            let (notify, user_data) = callback.parts();
            // SAFETY: the application gave this function and argument for this; the handle is kept until here.
            unsafe { notify(kept.raw(), user_data) };
        });
    };
    let thread = std::thread::Builder::new().name("ropeway-build".into());
    match ropeway_client::threads::start(|| thread.spawn(build)) {
        Ok(_) => Ok(CL_SUCCESS),
        // The build was dropped with its thread, and so has failed.
        Err(_) => Err(ropeway_abi::CL_OUT_OF_HOST_MEMORY),
    }
}

/// The result of the call for a build that ended with `status`.
fn outcome(status: cl_int) -> Result<(), cl_int> {
    if status == CL_SUCCESS { Ok(()) } else { Err(status) }
}

/// clBuildProgram.
pub unsafe extern "C" fn clBuildProgram(
    program: cl_program,
    num_devices: cl_uint,
    device_list: *const cl_device_id,
    options: *const c_char,
    pfn_notify: Option<Notify>,
    user_data: *mut c_void,
) -> cl_int {
    guard::status("clBuildProgram", || {
        let program = Handle::<Program>::find(program)?;
        // CL_INVALID_VALUE if device_list is NULL and num_devices is not 0, or the other way round.
        // SAFETY: the caller's promise.
        let list = unsafe { both_or_neither(num_devices, device_list)? };
        let listener = listener(pfn_notify, user_data)?;
        let devices = devices_of(&program.devices, list)?;
        // CL_INVALID_OPERATION if there are kernel objects attached to program, or if a build by a previous call has
        // not completed.
        if program.client.attached_kernels() > 0 {
            return Err(CL_INVALID_OPERATION);
        }
        // SAFETY: the caller's promise.
        let options = unsafe { text_or_empty(options) };
        let pending = program.client.begin(named(&devices), options, Step::Build)?;
        carry_out(&program, pending, listener).and_then(outcome)
    })
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
    pfn_notify: Option<Notify>,
    user_data: *mut c_void,
) -> cl_int {
    guard::status("clCompileProgram", || {
        let program = Handle::<Program>::find(program)?;
        // CL_INVALID_VALUE if device_list is NULL and num_devices is not 0, or the other way round; and if
        // input_headers or header_include_names is NULL and num_input_headers is not 0, or the other way round. SAFETY:
        // the caller's promise, here and below.
        let (list, programs, names) = unsafe {
            (
                both_or_neither(num_devices, device_list)?,
                both_or_neither(num_input_headers, input_headers)?,
                both_or_neither(num_input_headers, header_include_names.cast_const())?,
            )
        };
        let listener = listener(pfn_notify, user_data)?;
        let devices = devices_of(&program.devices, list)?;
        // CL_INVALID_OPERATION if program has no source or intermediate language, if there are kernel objects attached
        // to program, or if a build by a previous call has not completed.
        let compiles = matches!(program.client.origin(), Origin::Source(_) | Origin::Il(_));
        if !compiles || program.client.attached_kernels() > 0 {
            return Err(CL_INVALID_OPERATION);
        }
        let mut headers = Vec::with_capacity(programs.len());
        for (&header, &name) in programs.iter().zip(names) {
            let header = Handle::<Program>::find(header)?;
            // SAFETY: the caller's promise.
            headers.push((unsafe { text_or_empty(name) }, Arc::clone(&header.client)));
        }
        // SAFETY: the caller's promise.
        let options = unsafe { text_or_empty(options) };
        let pending = program.client.begin(named(&devices), options, Step::Compile(headers))?;
        carry_out(&program, pending, listener).and_then(outcome)
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
    pfn_notify: Option<Notify>,
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
            if programs.is_empty() {
                return Err(CL_INVALID_VALUE);
            }
            let listener = listener(pfn_notify, user_data)?;
            let wanted = devices_of(&context.devices, list)?;
            let mut inputs = Vec::with_capacity(programs.len());
            for &program in programs {
                // CL_INVALID_PROGRAM if a program in input_programs is not a valid program object.
                let input = Handle::<Program>::find(program)?;
                // They have to be of this context; the specification names no other error for one that is not.
                if input.context != context {
                    return Err(CL_INVALID_CONTEXT);
                }
                // CL_INVALID_OPERATION if the compilation of a program for any of the devices has not completed.
                if input.client.is_building() {
                    return Err(CL_INVALID_OPERATION);
                }
                inputs.push(Arc::clone(&input.client));
            }
            let devices = if wanted.is_empty() { context.devices.clone() } else { wanted.clone() };
            let client = program::Program::to_link(&context.client, &clients_of(&devices));
            let pending = client.begin(named(&wanted), text_or_empty(options), Step::Link(inputs))?;
            let program = Handle::new(&context, Program { client, context: context.clone(), devices })?;
            // The application's before its callback may run.
            let made = program.clone().give();
            match carry_out(&program, pending, listener) {
                Ok(status) => {
                    linked = status;
                    Ok(made)
                }
                Err(status) => handle::release::<Program>(made).and(Err(status)),
            }
        })
    };
    if !made.is_null() {
        // CL_LINK_PROGRAM_FAILURE comes with a program, whose log says why.
        // SAFETY: the caller's promise.
        unsafe { put(errcode_ret, linked) };
    }
    made
}

/// clUnloadPlatformCompiler: a hint. The compiler is at the server, which serves others too.
pub unsafe extern "C" fn clUnloadPlatformCompiler(platform: cl_platform_id) -> cl_int {
    guard::status("clUnloadPlatformCompiler", || Handle::<Platform>::find(platform))
}

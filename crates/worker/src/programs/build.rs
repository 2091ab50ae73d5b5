//! Programs: from their contents to kernels that can be described.

use std::sync::Arc;

use ropeway_abi as cl;
use ropeway_protocol::ids::TransferId;
use ropeway_protocol::limits::CHUNK;
use ropeway_protocol::messages::ReadData;
use ropeway_protocol::types::{BinaryFor, BinaryReply, BuildReply, Built, DeviceBuild, KernelInfo, Status};
use ropeway_protocol::{CallId, content::ContentHash};

use super::cache::Cache;
use super::names::{all, candidates};
use crate::base::error::End;
use crate::base::lock::lock;
use crate::link::client::Client;
use crate::native::{self, Device};
use crate::objects::{Program, ProgramState};

/// How often a build or link that fails without a reason is tried. PoCL keeps the outcome in a folder shared by all its
/// processes, and fails now and then if two of them build or link the same at the same time, natively too: workers do
/// this for one context of several servers on a machine, and for clients that run the same program.
const ATTEMPTS: usize = 4;

/// A source that prints contains this, be it in a macro or a string.
const PRINTF: &[u8] = b"printf";

/// How far a program's source is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Into an executable (clBuildProgram).
    Build,
    /// To something that can be linked (clCompileProgram).
    Compile,
}

/// Builds a program for the first `named` of these devices, or for all of its own if that is 0, and describes the
/// outcome on all of these devices; or names the contents that are missing.
///
/// # Errors
/// The status of creating the native program. A build that fails is no error; the reply describes it.
pub fn build(
    (client, cache): (&Client, &Cache),
    program: &Program,
    (devices, named): (&[(u32, Device)], usize),
    step: Step,
    options: &str,
) -> Result<BuildReply, Status> {
    let mut state = lock(&program.state);
    if state.native.is_none()
        && let Some(source) = state.source
    {
        let Some(source_text) = cache.get(&source) else {
            return Ok(BuildReply::NeedContent(vec![source]));
        };
        if [&source_text, options.as_bytes()].iter().any(|text| text.windows(PRINTF.len()).any(|word| word == PRINTF)) {
            client.expect_prints();
        }
        let context = program.context.native.as_ref().map_err(|status| *status)?;
        state.texts = vec![source];
        state.names = candidates([source_text.as_slice()]).map(Arc::from);
        state.native = Some(native::Program::from_source(context, &source_text));
    }
    let native = state.native.as_ref().ok_or(cl::CL_INVALID_PROGRAM)?.as_ref().map_err(|status| *status)?;
    let native_devices: Vec<_> = devices.iter().take(named).map(|(_, device)| *device).collect();
    let attempt = || match step {
        Step::Build => native.build(&native_devices, options),
        Step::Compile => native.compile(&native_devices, options),
    };
    let built = retried(attempt, |built| {
        let failed = matches!(built, Err(cl::CL_BUILD_PROGRAM_FAILURE | cl::CL_COMPILE_PROGRAM_FAILURE));
        failed && !blames_the_source(native, devices)
    });
    describe(&mut state, devices, built.err().unwrap_or(cl::CL_SUCCESS))
}

/// Makes `program` of kernels that `devices` have built in.
///
/// # Errors
/// There is no native program to describe.
pub fn built_in(program: &Program, devices: &[(u32, Device)], names: &str) -> Result<BuildReply, Status> {
    let context = program.context.native.as_ref().map_err(|status| *status)?;
    let native_devices: Vec<_> = devices.iter().map(|(_, device)| *device).collect();
    let mut state = lock(&program.state);
    state.native = Some(native::Program::from_built_in_kernels(context, &native_devices, names));
    describe(&mut state, devices, cl::CL_SUCCESS)
}

/// Makes a program of intermediate language, or says that it is missing.
///
/// # Errors
/// There is no native context to make it in.
pub fn load_il((client, cache): (&Client, &Cache), program: &Program, il: ContentHash) -> Result<BinaryReply, Status> {
    let Some(content) = cache.get(&il) else {
        return Ok(BinaryReply::NeedContent(vec![il]));
    };
    // Whether its kernels print is unknown.
    client.expect_prints();
    let context = program.context.native.as_ref().map_err(|status| *status)?;
    let (_, device) = *program.context.devices.first().ok_or(cl::CL_INVALID_CONTEXT)?;
    let native = native::Program::from_il(context, device, &content);
    let status = native.as_ref().err().copied().unwrap_or(cl::CL_SUCCESS);
    lock(&program.state).native = Some(native);
    Ok(BinaryReply::Loaded { status, each: Vec::new(), devices: Vec::new() })
}

/// The outcome of `attempt`, tried again as often as [`ATTEMPTS`] allows while it fails without a reason.
fn retried<T>(attempt: impl Fn() -> T, fails_without_reason: impl Fn(&T) -> bool) -> T {
    let mut outcome = attempt();
    for _ in 1..ATTEMPTS {
        if !fails_without_reason(&outcome) {
            break;
        }
        outcome = attempt();
    }
    outcome
}

/// Whether a failed build's log names an error in the source. A compiler that refuses a source says why.
fn blames_the_source(native: &native::Program, devices: &[(u32, Device)]) -> bool {
    devices.iter().any(|(_, device)| native.build_info(*device, cl::CL_BUILD_NONE).log.to_lowercase().contains("error"))
}

/// Links compiled programs into `program`.
///
/// # Errors
/// There is no native program to describe.
pub fn link(
    cache: &Cache,
    program: &Program,
    (devices, named): (&[(u32, Device)], usize),
    inputs: &[Arc<Program>],
    options: &str,
) -> Result<BuildReply, Status> {
    let context = program.context.native.as_ref().map_err(|status| *status)?;
    let native_devices: Vec<_> = devices.iter().take(named).map(|(_, device)| *device).collect();
    // A program may be given twice, and two links may share inputs, so each is locked once, all in the same order.
    let mut distinct: Vec<_> = inputs.iter().collect();
    distinct.sort_by_key(|input| Arc::as_ptr(input));
    distinct.dedup_by_key(|input| Arc::as_ptr(input));
    let states: Vec<_> = distinct.iter().map(|input| lock(&input.state)).collect();
    let mut natives = Vec::with_capacity(inputs.len());
    for input in inputs {
        let at = distinct.iter().position(|one| Arc::ptr_eq(one, input)).ok_or(cl::CL_INVALID_PROGRAM)?;
        let native = states[at].native.as_ref().ok_or(cl::CL_INVALID_OPERATION)?;
        natives.push(native.as_ref().map_err(|status| *status)?);
    }
    let attempt = || native::Program::link(context, &native_devices, &natives, options);
    let linked = retried(attempt, |linked| matches!(linked, Err(cl::CL_LINK_PROGRAM_FAILURE)));
    let (native, status) = linked?;
    drop(natives);
    let texts: Vec<_> = states.iter().flat_map(|state| state.texts.iter().copied()).collect();
    let mut names: Vec<_> = states.iter().filter_map(|state| state.names.as_deref()).flatten().cloned().collect();
    drop(states);
    if !names.is_empty() {
        // If one input has a name that is too long, the driver cannot be asked for the names of the others, either.
        let contents: Vec<_> = texts.iter().filter_map(|text| cache.get(text)).collect();
        names = all(names, contents.iter().map(Vec::as_slice));
    }
    let mut state = lock(&program.state);
    state.names = (!names.is_empty()).then(|| names.into());
    state.texts = texts;
    state.native = Some(Ok(native));
    describe(&mut state, devices, status)
}

/// The outcome of a build, compilation or link that ended with `status`.
fn describe(state: &mut ProgramState, devices: &[(u32, Device)], status: Status) -> Result<BuildReply, Status> {
    let ProgramState { native, names, kernels, .. } = state;
    let native = native.as_ref().ok_or(cl::CL_INVALID_PROGRAM)?.as_ref().map_err(|status| *status)?;
    let otherwise = if status == cl::CL_SUCCESS { cl::CL_BUILD_SUCCESS } else { cl::CL_BUILD_NONE };
    let infos = devices.iter().map(|(_, device)| native.build_info(*device, otherwise));
    let mut built = Built { status, devices: infos.collect(), ..Built::default() };
    if status == cl::CL_SUCCESS {
        built.has_constructors = native.flag(cl::CL_PROGRAM_SCOPE_GLOBAL_CTORS_PRESENT);
        built.has_destructors = native.flag(cl::CL_PROGRAM_SCOPE_GLOBAL_DTORS_PRESENT);
        if built.devices.iter().any(is_executable) {
            built.kernels = describe_kernels(native, names.as_deref(), devices);
        }
        // Those that were built before for other devices stay.
        let described = built.kernels.iter();
        kernels.extend(described.map(|kernel| (kernel.name.clone(), kernel.args.iter().map(|arg| arg.kind).collect())));
    }
    Ok(BuildReply::Built(built))
}

/// Whether there are kernels to ask for. A program without a type may be built in, or come from an implementation that
/// is too old to report one.
fn is_executable(built: &DeviceBuild) -> bool {
    !matches!(built.binary_type, cl::CL_PROGRAM_BINARY_TYPE_COMPILED_OBJECT | cl::CL_PROGRAM_BINARY_TYPE_LIBRARY)
}

/// Returns the properties of each kernel of a program; `candidates` are possible names, for programs whose names the
/// driver must not be asked for.
///
/// Makes each kernel by its name, as clCreateKernelsInProgram fails on some drivers for programs built for only some of
/// their devices. The kernels made here are gone when this returns, so that the program may be built again.
fn describe_kernels(
    program: &native::Program,
    candidates: Option<&[String]>,
    devices: &[(u32, Device)],
) -> Vec<KernelInfo> {
    let names = candidates.map_or_else(|| program.kernel_names().unwrap_or_default(), <[String]>::to_vec);
    names.iter().filter_map(|name| program.kernel(name).ok()).map(|kernel| kernel.describe(devices)).collect()
}

/// Makes a program of binaries, or says what contents are missing.
///
/// # Errors
/// There is no native context to make it in.
pub fn load(
    (client, cache): (&Client, &Cache),
    program: &Program,
    binaries: &[(BinaryFor, Device)],
) -> Result<BinaryReply, Status> {
    let mut state = lock(&program.state);
    let contents: Vec<_> = binaries.iter().map(|(binary, _)| cache.get(&binary.hash)).collect();
    let missing: Vec<ContentHash> =
        binaries.iter().zip(&contents).filter(|(_, content)| content.is_none()).map(|((b, _), _)| b.hash).collect();
    if !missing.is_empty() {
        return Ok(BinaryReply::NeedContent(missing));
    }
    // Whether its kernels print is unknown.
    client.expect_prints();
    let context = program.context.native.as_ref().map_err(|status| *status)?;
    let pairs: Vec<_> =
        binaries.iter().zip(&contents).filter_map(|((_, d), c)| c.as_ref().map(|c| (*d, c.as_slice()))).collect();
    state.texts = binaries.iter().map(|(binary, _)| binary.hash).collect();
    state.names = candidates(pairs.iter().map(|(_, content)| *content)).map(Arc::from);
    let (status, each) = match native::Program::from_binaries(context, &pairs) {
        Ok((native, each)) => {
            state.native = Some(Ok(native));
            (cl::CL_SUCCESS, each)
        }
        Err((status, each)) => {
            state.native = Some(Err(status));
            (status, each)
        }
    };
    let devices = match &state.native {
        Some(Ok(native)) => binaries.iter().map(|(_, device)| native.build_info(*device, cl::CL_BUILD_NONE)).collect(),
        _ => Vec::new(),
    };
    Ok(BinaryReply::Loaded { status, each, devices })
}

/// Answers a build. What compilers print comes before the answer.
///
/// # Errors
/// The session is over.
pub fn answer(client: &Client, reply: &Result<BuildReply, Status>, call: &CallId<BuildReply>) -> Result<(), End> {
    let mut sending = client.outgoing.lock();
    client.printed.forward(&mut sending)?;
    sending.reply(call, reply);
    Ok(sending.send()?)
}

/// Answers with the length of the binary for `device`, then sends it.
///
/// # Errors
/// The session is over.
pub fn send_binary(
    client: &Client,
    program: &Program,
    device: Device,
    transfer: TransferId,
    call: &CallId<u64>,
) -> Result<(), End> {
    let binary = match &lock(&program.state).native {
        Some(Ok(native)) => native.binary(device),
        Some(Err(status)) => Err(*status),
        None => Err(cl::CL_INVALID_PROGRAM_EXECUTABLE),
    };
    let mut sending = client.outgoing.lock();
    sending.reply(call, &binary.as_ref().map(|b| b.len() as u64).map_err(|status| *status));
    sending.send()?;
    drop(sending);
    let mut offset = 0;
    for piece in binary.unwrap_or_default().chunks(CHUNK) {
        let mut sending = client.outgoing.lock();
        sending.note_with_tail(&ReadData { transfer, offset }, piece)?;
        sending.send()?;
        offset += piece.len() as u64;
    }
    Ok(())
}

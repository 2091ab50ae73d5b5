//! Devices and their queries.

use std::ffi::c_void;

use ropeway_abi as cl;

use super::handle::{Object, get};
use super::info::Into;
use super::root::{self, EXTENSION, VERSION};
use crate::kind::{Kind, Signature};

/// OpenCL 3.0.0 as CL_DEVICE_NUMERIC_VERSION.
pub(super) const NUMERIC_VERSION: u32 = 3 << 22;

/// Version 1.0.0 of whatever is ours.
const FIRST_VERSION: u32 = 1 << 22;

/// Alignment of buffers, in bytes: a page.
const ALIGNMENT: u32 = 4096;

/// Most bytes of all arguments of one kernel.
const MAX_PARAMETER_SIZE: usize = 1024;

/// A custom device.
pub(super) struct Device {
    /// What it is.
    pub(super) kind: Box<dyn Kind>,
    /// Its built-in kernels.
    pub(super) kernels: Vec<Signature>,
    memory: u64,
}

impl Device {
    pub(super) fn new(kind: Box<dyn Kind>) -> Self {
        let pages = rustix::system::sysinfo();
        let memory = u64::from(pages.mem_unit).saturating_mul(pages.totalram);
        Self { kernels: kind.kernels(), kind, memory }
    }
}

/// A `cl_name_version` of version 1.0.0.
pub(super) fn name_version(name: &str) -> Vec<u8> {
    let mut out = FIRST_VERSION.to_ne_bytes().to_vec();
    // One byte less than there is room for: a NUL stays.
    out.extend(name.bytes().take(cl::CL_NAME_VERSION_MAX_NAME_SIZE - 1));
    out.resize(size_of::<u32>() + cl::CL_NAME_VERSION_MAX_NAME_SIZE, 0);
    out
}

/// clGetDeviceInfo: every query of OpenCL 3.0, table 5.
pub(super) unsafe extern "C" fn clGetDeviceInfo(
    device: cl::cl_device_id,
    name: cl::cl_device_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl::cl_int {
    let into = Into { size, value, size_ret };
    // SAFETY: the worker's own handle.
    let Some(device) = (unsafe { get::<Device, _>(device) }) else { return cl::CL_INVALID_DEVICE };
    match name {
        cl::CL_DEVICE_TYPE => into.ulong(cl::CL_DEVICE_TYPE_CUSTOM),
        cl::CL_DEVICE_NAME => into.text(&device.kind.name()),
        cl::CL_DEVICE_VENDOR => into.text("Ropeway"),
        cl::CL_DRIVER_VERSION => into.text(env!("CARGO_PKG_VERSION")),
        cl::CL_DEVICE_PROFILE => into.text("FULL_PROFILE"),
        cl::CL_DEVICE_VERSION => into.text(VERSION),
        cl::CL_DEVICE_NUMERIC_VERSION => into.uint(NUMERIC_VERSION),
        cl::CL_DEVICE_EXTENSIONS => into.text(EXTENSION),
        cl::CL_DEVICE_EXTENSIONS_WITH_VERSION => into.bytes(&name_version(EXTENSION)),
        cl::CL_DEVICE_BUILT_IN_KERNELS => {
            let names: Vec<_> = device.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
            into.text(&names.join(";"))
        }
        cl::CL_DEVICE_BUILT_IN_KERNELS_WITH_VERSION => {
            let names: Vec<_> = device.kernels.iter().flat_map(|kernel| name_version(&kernel.name)).collect();
            into.bytes(&names)
        }
        // There is no OpenCL C; 1.0 is what a device without it may say (OpenCL 3.0 API, footnote to CL_DEVICE_OPENCL_C_VERSION).
        cl::CL_DEVICE_OPENCL_C_VERSION => into.text("OpenCL C 1.0 "),
        cl::CL_DEVICE_OPENCL_C_ALL_VERSIONS
        | cl::CL_DEVICE_OPENCL_C_FEATURES
        | cl::CL_DEVICE_ILS_WITH_VERSION
        | cl::CL_DEVICE_PARTITION_TYPE => into.bytes(&[]),
        cl::CL_DEVICE_IL_VERSION | cl::CL_DEVICE_LATEST_CONFORMANCE_VERSION_PASSED => into.text(""),
        cl::CL_DEVICE_PARTITION_PROPERTIES => into.word(0),
        cl::CL_DEVICE_PLATFORM => into.word(root::handle().addr()),
        cl::CL_DEVICE_PARENT_DEVICE => into.word(0),
        cl::CL_DEVICE_MAX_WORK_ITEM_SIZES => into.words(&[1, 1, 1]),
        cl::CL_DEVICE_MAX_WORK_GROUP_SIZE | cl::CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE => into.word(1),
        cl::CL_DEVICE_MAX_PARAMETER_SIZE => into.word(MAX_PARAMETER_SIZE),
        cl::CL_DEVICE_PROFILING_TIMER_RESOLUTION => into.word(1),
        cl::CL_DEVICE_IMAGE2D_MAX_WIDTH
        | cl::CL_DEVICE_IMAGE2D_MAX_HEIGHT
        | cl::CL_DEVICE_IMAGE3D_MAX_WIDTH
        | cl::CL_DEVICE_IMAGE3D_MAX_HEIGHT
        | cl::CL_DEVICE_IMAGE3D_MAX_DEPTH
        | cl::CL_DEVICE_IMAGE_MAX_BUFFER_SIZE
        | cl::CL_DEVICE_IMAGE_MAX_ARRAY_SIZE
        | cl::CL_DEVICE_MAX_GLOBAL_VARIABLE_SIZE
        | cl::CL_DEVICE_GLOBAL_VARIABLE_PREFERRED_TOTAL_SIZE
        | cl::CL_DEVICE_PRINTF_BUFFER_SIZE => into.word(0),
        // Memory is the machine's; a buffer may have all of it.
        cl::CL_DEVICE_GLOBAL_MEM_SIZE | cl::CL_DEVICE_MAX_MEM_ALLOC_SIZE => into.ulong(device.memory),
        cl::CL_DEVICE_QUEUE_ON_HOST_PROPERTIES => {
            into.ulong(cl::CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | cl::CL_QUEUE_PROFILING_ENABLE)
        }
        cl::CL_DEVICE_EXECUTION_CAPABILITIES
        | cl::CL_DEVICE_SINGLE_FP_CONFIG
        | cl::CL_DEVICE_DOUBLE_FP_CONFIG
        | cl::CL_DEVICE_GLOBAL_MEM_CACHE_SIZE
        | cl::CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE
        | cl::CL_DEVICE_LOCAL_MEM_SIZE
        | cl::CL_DEVICE_PARTITION_AFFINITY_DOMAIN
        | cl::CL_DEVICE_QUEUE_ON_DEVICE_PROPERTIES
        | cl::CL_DEVICE_SVM_CAPABILITIES
        | cl::CL_DEVICE_ATOMIC_MEMORY_CAPABILITIES
        | cl::CL_DEVICE_ATOMIC_FENCE_CAPABILITIES
        | cl::CL_DEVICE_DEVICE_ENQUEUE_CAPABILITIES => into.ulong(0),
        cl::CL_DEVICE_ENDIAN_LITTLE => into.truth(cfg!(target_endian = "little")),
        cl::CL_DEVICE_AVAILABLE | cl::CL_DEVICE_HOST_UNIFIED_MEMORY | cl::CL_DEVICE_PREFERRED_INTEROP_USER_SYNC => {
            into.truth(true)
        }
        cl::CL_DEVICE_MAX_COMPUTE_UNITS | cl::CL_DEVICE_REFERENCE_COUNT => into.uint(1),
        cl::CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS => into.uint(3),
        cl::CL_DEVICE_ADDRESS_BITS => into.uint(usize::BITS),
        cl::CL_DEVICE_MEM_BASE_ADDR_ALIGN => into.uint(ALIGNMENT * 8),
        cl::CL_DEVICE_MIN_DATA_TYPE_ALIGN_SIZE => into.uint(128),
        cl::CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE => into.uint(64),
        // Of all else there is none: images, samplers, pipes, a compiler, sub-devices, sub-groups, queues on the device, vectors.
        cl::CL_DEVICE_VENDOR_ID
        | cl::CL_DEVICE_PREFERRED_VECTOR_WIDTH_CHAR..=cl::CL_DEVICE_MAX_CLOCK_FREQUENCY
        | cl::CL_DEVICE_MAX_READ_IMAGE_ARGS
        | cl::CL_DEVICE_MAX_WRITE_IMAGE_ARGS
        | cl::CL_DEVICE_IMAGE_SUPPORT
        | cl::CL_DEVICE_MAX_SAMPLERS
        | cl::CL_DEVICE_GLOBAL_MEM_CACHE_TYPE
        | cl::CL_DEVICE_MAX_CONSTANT_ARGS
        | cl::CL_DEVICE_LOCAL_MEM_TYPE
        | cl::CL_DEVICE_ERROR_CORRECTION_SUPPORT
        | cl::CL_DEVICE_COMPILER_AVAILABLE
        | cl::CL_DEVICE_PREFERRED_VECTOR_WIDTH_HALF
        | cl::CL_DEVICE_NATIVE_VECTOR_WIDTH_CHAR..=cl::CL_DEVICE_NATIVE_VECTOR_WIDTH_HALF
        | cl::CL_DEVICE_LINKER_AVAILABLE
        | cl::CL_DEVICE_PARTITION_MAX_SUB_DEVICES
        | cl::CL_DEVICE_IMAGE_PITCH_ALIGNMENT..=cl::CL_DEVICE_MAX_READ_WRITE_IMAGE_ARGS
        | cl::CL_DEVICE_QUEUE_ON_DEVICE_PREFERRED_SIZE..=cl::CL_DEVICE_MAX_ON_DEVICE_EVENTS
        | cl::CL_DEVICE_MAX_PIPE_ARGS..=cl::CL_DEVICE_PREFERRED_LOCAL_ATOMIC_ALIGNMENT
        | cl::CL_DEVICE_MAX_NUM_SUB_GROUPS
        | cl::CL_DEVICE_SUB_GROUP_INDEPENDENT_FORWARD_PROGRESS
        | cl::CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT
        | cl::CL_DEVICE_WORK_GROUP_COLLECTIVE_FUNCTIONS_SUPPORT
        | cl::CL_DEVICE_GENERIC_ADDRESS_SPACE_SUPPORT
        | cl::CL_DEVICE_PIPE_SUPPORT => into.uint(0),
        _ => cl::CL_INVALID_VALUE,
    }
}

/// clCreateSubDevices: there are no parts.
pub(super) unsafe extern "C" fn clCreateSubDevices(
    device: cl::cl_device_id,
    _: *const cl::cl_device_partition_property,
    _: cl::cl_uint,
    _: *mut cl::cl_device_id,
    _: *mut cl::cl_uint,
) -> cl::cl_int {
    if device.is_null() { cl::CL_INVALID_DEVICE } else { cl::CL_INVALID_VALUE }
}

/// clRetainDevice and clReleaseDevice: a root device is not counted.
pub(super) unsafe extern "C" fn clReleaseDevice(device: cl::cl_device_id) -> cl::cl_int {
    if device.is_null() { cl::CL_INVALID_DEVICE } else { cl::CL_SUCCESS }
}

/// The devices of a list of handles; `None` if one is null.
///
/// # Safety
/// `list` has `count` handles of this platform's devices.
pub(super) unsafe fn list(
    count: cl::cl_uint,
    list: *const cl::cl_device_id,
) -> Option<Vec<std::sync::Arc<Object<Device>>>> {
    if list.is_null() {
        return None;
    }
    // SAFETY: by the promise of the caller.
    (0..count as usize).map(|at| unsafe { get::<Device, _>(*list.add(at)) }).collect()
}

//! The dispatch table, and functions by name.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use ropeway_abi as cl;
use ropeway_abi::icd::DispatchTable;

use super::handle::dispatch_through;
use super::{commands, context, device, event, kernel, memory, program, queue, root, transfers, unsupported};
use crate::kind::Kind;

// SAFETY: a table consists of optional function pointers and of words, all of which may be zero: `None` and 0.
const EMPTY: DispatchTable = unsafe { MaybeUninit::zeroed().assume_init() };

macro_rules! functions {
    ($($module:ident::$name:ident,)*) => {
        static TABLE: DispatchTable = DispatchTable { $($name: Some($module::$name),)* ..EMPTY };

        /// The function of this name, for who has no ICD loader; `None` for one that is not here.
        pub fn by_name(name: &str) -> Option<*mut c_void> {
            match name {
                // Its slot is the loader's.
                "clGetPlatformIDs" => Some(root::clGetPlatformIDs as *mut c_void),
                $(stringify!($name) => TABLE.$name.map(|function| function as *mut c_void),)*
                _ => None,
            }
        }
    };
}

/// Makes the platform of these devices, once, and returns its handle: the same each time.
pub fn offer(kinds: Vec<Box<dyn Kind>>) -> cl::cl_platform_id {
    dispatch_through(&TABLE);
    root::make(kinds)
}

/// What every object begins with the address of.
pub fn table() -> &'static DispatchTable {
    &TABLE
}

functions! {
    root::clGetPlatformInfo,
    root::clGetDeviceIDs,
    root::clGetExtensionFunctionAddressForPlatform,
    root::clGetDeviceAndHostTimer,
    device::clGetDeviceInfo,
    device::clCreateSubDevices,
    device::clReleaseDevice,
    context::clCreateContext,
    context::clRetainContext,
    context::clReleaseContext,
    queue::clCreateCommandQueue,
    queue::clCreateCommandQueueWithProperties,
    queue::clRetainCommandQueue,
    queue::clReleaseCommandQueue,
    queue::clGetCommandQueueInfo,
    queue::clFlush,
    queue::clFinish,
    memory::clCreateBuffer,
    memory::clCreateSubBuffer,
    memory::clRetainMemObject,
    memory::clReleaseMemObject,
    unsupported::clSetMemObjectDestructorCallback,
    program::clCreateProgramWithBuiltInKernels,
    program::clCreateProgramWithSource,
    program::clCreateProgramWithBinary,
    program::clRetainProgram,
    program::clReleaseProgram,
    program::clBuildProgram,
    program::clCompileProgram,
    program::clLinkProgram,
    program::clGetProgramInfo,
    program::clGetProgramBuildInfo,
    kernel::clCreateKernel,
    kernel::clCloneKernel,
    kernel::clRetainKernel,
    kernel::clReleaseKernel,
    kernel::clSetKernelArg,
    kernel::clGetKernelInfo,
    kernel::clGetKernelArgInfo,
    kernel::clGetKernelWorkGroupInfo,
    event::clCreateUserEvent,
    event::clSetUserEventStatus,
    event::clRetainEvent,
    event::clReleaseEvent,
    event::clWaitForEvents,
    event::clGetEventInfo,
    event::clSetEventCallback,
    event::clGetEventProfilingInfo,
    commands::clEnqueueNDRangeKernel,
    commands::clEnqueueMarkerWithWaitList,
    commands::clEnqueueBarrierWithWaitList,
    commands::clEnqueueMigrateMemObjects,
    transfers::clEnqueueReadBuffer,
    transfers::clEnqueueWriteBuffer,
    transfers::clEnqueueCopyBuffer,
    transfers::clEnqueueFillBuffer,
    transfers::clEnqueueReadBufferRect,
    transfers::clEnqueueWriteBufferRect,
    transfers::clEnqueueCopyBufferRect,
    transfers::clEnqueueMapBuffer,
    transfers::clEnqueueUnmapMemObject,
    unsupported::clGetSupportedImageFormats,
    unsupported::clCreateImage,
    unsupported::clCreateSampler,
    unsupported::clReleaseSampler,
    unsupported::clEnqueueReadImage,
    unsupported::clEnqueueWriteImage,
    unsupported::clEnqueueFillImage,
    unsupported::clEnqueueCopyImage,
    unsupported::clEnqueueCopyImageToBuffer,
    unsupported::clEnqueueCopyBufferToImage,
}

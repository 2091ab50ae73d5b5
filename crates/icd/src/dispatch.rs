//! The dispatch table, and functions by name.

use std::ffi::c_void;

use ropeway_abi::icd::{DispatchTable, ICD2_TAG};

use crate::api::*;

/// Declares the table and the search by name from one list: where each function is, and its name. A slot that is
/// missing from the list does not compile.
macro_rules! functions {
    ($($module:ident::$name:ident,)*) => {
        static TABLE: DispatchTable = DispatchTable {
            clGetPlatformIDs_icd2_tag: ICD2_TAG,
            clUnloadCompiler_icd2_tag: ICD2_TAG,
            $($name: Some($module::$name),)*
        };

        /// The module and the name of each function of the table.
        #[cfg(test)]
        pub const FUNCTIONS: &[(&str, &str)] = &[$((stringify!($module), stringify!($name)),)*];

        /// The function of the table with this name.
        pub fn by_name(name: &[u8]) -> Option<*mut c_void> {
            $(
                if name == stringify!($name).as_bytes() {
                    return TABLE.$name.map(|function| function as *mut c_void);
                }
            )*
            None
        }
    };
}

/// The dispatch table, which the first word of every handle points to.
pub fn table() -> *const DispatchTable {
    &raw const TABLE
}

functions! {
    platform::clGetPlatformInfo,
    device::clGetDeviceIDs,
    device::clGetDeviceInfo,
    context::clCreateContext,
    context::clCreateContextFromType,
    context::clRetainContext,
    context::clReleaseContext,
    context::clGetContextInfo,
    queue::clCreateCommandQueue,
    queue::clRetainCommandQueue,
    queue::clReleaseCommandQueue,
    queue::clGetCommandQueueInfo,
    queue::clSetCommandQueueProperty,
    memory::clCreateBuffer,
    image::clCreateImage2D,
    image::clCreateImage3D,
    memory::clRetainMemObject,
    memory::clReleaseMemObject,
    image::clGetSupportedImageFormats,
    memory::clGetMemObjectInfo,
    image::clGetImageInfo,
    sampler::clCreateSampler,
    sampler::clRetainSampler,
    sampler::clReleaseSampler,
    sampler::clGetSamplerInfo,
    program::clCreateProgramWithSource,
    program::clCreateProgramWithBinary,
    program::clRetainProgram,
    program::clReleaseProgram,
    build::clBuildProgram,
    program::clGetProgramInfo,
    program::clGetProgramBuildInfo,
    kernel::clCreateKernel,
    kernel::clCreateKernelsInProgram,
    kernel::clRetainKernel,
    kernel::clReleaseKernel,
    kernel::clSetKernelArg,
    kernel::clGetKernelInfo,
    kernel::clGetKernelWorkGroupInfo,
    event::clWaitForEvents,
    event::clGetEventInfo,
    event::clRetainEvent,
    event::clReleaseEvent,
    event::clGetEventProfilingInfo,
    queue::clFlush,
    queue::clFinish,
    transfer::clEnqueueReadBuffer,
    transfer::clEnqueueWriteBuffer,
    transfer::clEnqueueCopyBuffer,
    image_transfer::clEnqueueReadImage,
    image_transfer::clEnqueueWriteImage,
    image_transfer::clEnqueueCopyImage,
    image_transfer::clEnqueueCopyImageToBuffer,
    image_transfer::clEnqueueCopyBufferToImage,
    mapping::clEnqueueMapBuffer,
    image_transfer::clEnqueueMapImage,
    mapping::clEnqueueUnmapMemObject,
    command::clEnqueueNDRangeKernel,
    command::clEnqueueTask,
    native_kernel::clEnqueueNativeKernel,
    command::clEnqueueMarker,
    command::clEnqueueWaitForEvents,
    command::clEnqueueBarrier,
    platform::clGetExtensionFunctionAddress,
    unsupported::clCreateFromGLBuffer,
    unsupported::clCreateFromGLTexture2D,
    unsupported::clCreateFromGLTexture3D,
    unsupported::clCreateFromGLRenderbuffer,
    unsupported::clGetGLObjectInfo,
    unsupported::clGetGLTextureInfo,
    unsupported::clEnqueueAcquireGLObjects,
    unsupported::clEnqueueReleaseGLObjects,
    unsupported::clGetGLContextInfoKHR,
    unsupported::clGetDeviceIDsFromD3D10KHR,
    unsupported::clCreateFromD3D10BufferKHR,
    unsupported::clCreateFromD3D10Texture2DKHR,
    unsupported::clCreateFromD3D10Texture3DKHR,
    unsupported::clEnqueueAcquireD3D10ObjectsKHR,
    unsupported::clEnqueueReleaseD3D10ObjectsKHR,
    event::clSetEventCallback,
    sub_buffer::clCreateSubBuffer,
    memory::clSetMemObjectDestructorCallback,
    event::clCreateUserEvent,
    event::clSetUserEventStatus,
    rect::clEnqueueReadBufferRect,
    rect::clEnqueueWriteBufferRect,
    rect::clEnqueueCopyBufferRect,
    subdevice::clCreateSubDevicesEXT,
    subdevice::clRetainDeviceEXT,
    subdevice::clReleaseDeviceEXT,
    unsupported::clCreateEventFromGLsyncKHR,
    subdevice::clCreateSubDevices,
    subdevice::clRetainDevice,
    subdevice::clReleaseDevice,
    image::clCreateImage,
    program::clCreateProgramWithBuiltInKernels,
    build::clCompileProgram,
    build::clLinkProgram,
    build::clUnloadPlatformCompiler,
    kernel::clGetKernelArgInfo,
    transfer::clEnqueueFillBuffer,
    image_transfer::clEnqueueFillImage,
    command::clEnqueueMigrateMemObjects,
    command::clEnqueueMarkerWithWaitList,
    command::clEnqueueBarrierWithWaitList,
    platform::clGetExtensionFunctionAddressForPlatform,
    unsupported::clCreateFromGLTexture,
    unsupported::clGetDeviceIDsFromD3D11KHR,
    unsupported::clCreateFromD3D11BufferKHR,
    unsupported::clCreateFromD3D11Texture2DKHR,
    unsupported::clCreateFromD3D11Texture3DKHR,
    unsupported::clCreateFromDX9MediaSurfaceKHR,
    unsupported::clEnqueueAcquireD3D11ObjectsKHR,
    unsupported::clEnqueueReleaseD3D11ObjectsKHR,
    unsupported::clGetDeviceIDsFromDX9MediaAdapterKHR,
    unsupported::clEnqueueAcquireDX9MediaSurfacesKHR,
    unsupported::clEnqueueReleaseDX9MediaSurfacesKHR,
    unsupported::clCreateFromEGLImageKHR,
    unsupported::clEnqueueAcquireEGLObjectsKHR,
    unsupported::clEnqueueReleaseEGLObjectsKHR,
    unsupported::clCreateEventFromEGLSyncKHR,
    queue::clCreateCommandQueueWithProperties,
    pipe::clCreatePipe,
    pipe::clGetPipeInfo,
    svm::clSVMAlloc,
    svm::clSVMFree,
    svm::clEnqueueSVMFree,
    svm::clEnqueueSVMMemcpy,
    svm::clEnqueueSVMMemFill,
    svm::clEnqueueSVMMap,
    svm::clEnqueueSVMUnmap,
    sampler::clCreateSamplerWithProperties,
    svm::clSetKernelArgSVMPointer,
    svm::clSetKernelExecInfo,
    kernel_extra::clGetKernelSubGroupInfoKHR,
    kernel_extra::clCloneKernel,
    program::clCreateProgramWithIL,
    svm::clEnqueueSVMMigrateMem,
    timer::clGetDeviceAndHostTimer,
    timer::clGetHostTimer,
    kernel_extra::clGetKernelSubGroupInfo,
    device_queue::clSetDefaultDeviceCommandQueue,
    program::clSetProgramReleaseCallback,
    program::clSetProgramSpecializationConstant,
    memory::clCreateBufferWithProperties,
    image::clCreateImageWithProperties,
    context::clSetContextDestructorCallback,
    kernel_extra::clGetKernelSuggestedLocalWorkSize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_is_filled() {
        let slots = size_of::<DispatchTable>() / size_of::<usize>();
        // SAFETY: the table is nothing but pointer-sized slots.
        let slots = unsafe { std::slice::from_raw_parts(table().cast::<usize>(), slots) };
        assert!(slots.iter().all(|&slot| slot != 0));
        assert_eq!((slots[0], slots[31]), (ICD2_TAG as usize, ICD2_TAG as usize));
    }

    #[test]
    fn functions_are_found_by_name() {
        assert_eq!(by_name(b"clFinish"), Some(queue::clFinish as *mut c_void));
        assert!(by_name(b"clCreateImage2D").is_some());
        assert_eq!(by_name(b"clNoSuchThing"), None);
    }
}

//! The machine's OpenCL, loaded through its ICD loader when the worker starts. On a machine without one, the custom devices'
//! functions are all that there is.

use std::ffi::c_void;
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use ropeway_abi::functions as f;

/// File names of the ICD loader.
const LOADERS: [&str; 2] = ["libOpenCL.so.1", "libOpenCL.so"];

/// The plain function pointer within `opencl-sys`'s optional ones.
pub(super) trait Present {
    type Fn: Copy;
}

impl<F: Copy> Present for Option<F> {
    type Fn = F;
}

macro_rules! api {
    ($($name:ident: $ty:ident;)* @later $($later:ident: $later_ty:ident;)*) => {
        /// The functions that the worker calls: those of OpenCL 1.2, and later ones where the loader has them. A loader
        /// passes a later one on through a table that an older driver does not fill: look at the device's version
        /// first.
        #[allow(non_snake_case)]
        pub(super) struct Api {
            $(pub(super) $name: <f::$ty as Present>::Fn,)*
            $(pub(super) $later: f::$later_ty,)*
        }

        impl Api {
            fn load() -> Result<Self, String> {
                let mut last = String::new();
                for name in LOADERS {
                    // SAFETY: loading the ICD loader runs its and the drivers' initialisers, as in any OpenCL program.
                    match unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL) } {
                        Ok(library) => {
                            let api = Self {
                                // SAFETY: the symbols have the types that the OpenCL headers declare.
                                $($name: *unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) }
                                    .map_err(|error| format!("{name} lacks {}: {error}", stringify!($name)))?,)*
                                // SAFETY: as above.
                                $($later: unsafe { library.get(concat!(stringify!($later), "\0").as_bytes()) }
                                    .map_or(None, |function| *function),)*
                            };
                            // It stays loaded as long as the process lives: drivers keep threads of their own.
                            std::mem::forget(library);
                            return Ok(api);
                        }
                        Err(error) => last = error.to_string(),
                    }
                }
                Err(format!("no OpenCL loader on this machine ({last}); install ocl-icd-libopencl1 or the Khronos loader"))
            }

            /// The functions of the custom devices' platform, for a machine that has no other.
            fn custom() -> Self {
                Self {
                    $($name: {
                        let function = ropeway_custom::platform::by_name(stringify!($name));
                        let function = function.expect("the custom platform has all functions of OpenCL 1.2 that are called");
                        // SAFETY: the platform's function has the type that the OpenCL headers declare for its name.
                        unsafe { std::mem::transmute::<*mut c_void, <f::$ty as Present>::Fn>(function) }
                    },)*
                    $($later: ropeway_custom::platform::by_name(stringify!($later)).and_then(|function| {
                        // SAFETY: as above; an optional function pointer is as large, and null where there is none.
                        unsafe { std::mem::transmute::<*mut c_void, f::$later_ty>(function) }
                    }),)*
                }
            }
        }
    };
}

api! {
    clGetPlatformIDs: clGetPlatformIDs_t;
    clGetPlatformInfo: clGetPlatformInfo_t;
    clGetDeviceIDs: clGetDeviceIDs_t;
    clGetDeviceInfo: clGetDeviceInfo_t;
    clCreateContext: clCreateContext_t;
    clRetainContext: clRetainContext_t;
    clReleaseContext: clReleaseContext_t;
    clCreateCommandQueue: clCreateCommandQueue_t;
    clReleaseCommandQueue: clReleaseCommandQueue_t;
    clGetCommandQueueInfo: clGetCommandQueueInfo_t;
    clCreateBuffer: clCreateBuffer_t;
    clCreateSubBuffer: clCreateSubBuffer_t;
    clReleaseMemObject: clReleaseMemObject_t;
    clSetMemObjectDestructorCallback: clSetMemObjectDestructorCallback_t;
    clCreateImage: clCreateImage_t;
    clGetSupportedImageFormats: clGetSupportedImageFormats_t;
    clCreateSampler: clCreateSampler_t;
    clReleaseSampler: clReleaseSampler_t;
    clCreateProgramWithSource: clCreateProgramWithSource_t;
    clCreateProgramWithBinary: clCreateProgramWithBinary_t;
    clReleaseProgram: clReleaseProgram_t;
    clBuildProgram: clBuildProgram_t;
    clCompileProgram: clCompileProgram_t;
    clLinkProgram: clLinkProgram_t;
    clGetProgramInfo: clGetProgramInfo_t;
    clGetProgramBuildInfo: clGetProgramBuildInfo_t;
    clCreateKernel: clCreateKernel_t;
    clReleaseKernel: clReleaseKernel_t;
    clSetKernelArg: clSetKernelArg_t;
    clGetKernelInfo: clGetKernelInfo_t;
    clGetKernelArgInfo: clGetKernelArgInfo_t;
    clGetKernelWorkGroupInfo: clGetKernelWorkGroupInfo_t;
    clWaitForEvents: clWaitForEvents_t;
    clGetEventInfo: clGetEventInfo_t;
    clCreateUserEvent: clCreateUserEvent_t;
    clRetainEvent: clRetainEvent_t;
    clReleaseEvent: clReleaseEvent_t;
    clSetUserEventStatus: clSetUserEventStatus_t;
    clSetEventCallback: clSetEventCallback_t;
    clGetEventProfilingInfo: clGetEventProfilingInfo_t;
    clFlush: clFlush_t;
    clFinish: clFinish_t;
    clEnqueueReadBuffer: clEnqueueReadBuffer_t;
    clEnqueueWriteBuffer: clEnqueueWriteBuffer_t;
    clEnqueueFillBuffer: clEnqueueFillBuffer_t;
    clEnqueueReadBufferRect: clEnqueueReadBufferRect_t;
    clEnqueueWriteBufferRect: clEnqueueWriteBufferRect_t;
    clEnqueueMigrateMemObjects: clEnqueueMigrateMemObjects_t;
    clEnqueueCopyBufferRect: clEnqueueCopyBufferRect_t;
    clEnqueueCopyBuffer: clEnqueueCopyBuffer_t;
    clEnqueueReadImage: clEnqueueReadImage_t;
    clEnqueueWriteImage: clEnqueueWriteImage_t;
    clEnqueueFillImage: clEnqueueFillImage_t;
    clEnqueueCopyImage: clEnqueueCopyImage_t;
    clEnqueueCopyImageToBuffer: clEnqueueCopyImageToBuffer_t;
    clEnqueueCopyBufferToImage: clEnqueueCopyBufferToImage_t;
    clEnqueueMapBuffer: clEnqueueMapBuffer_t;
    clEnqueueUnmapMemObject: clEnqueueUnmapMemObject_t;
    clEnqueueNDRangeKernel: clEnqueueNDRangeKernel_t;
    clEnqueueMarkerWithWaitList: clEnqueueMarkerWithWaitList_t;
    clEnqueueBarrierWithWaitList: clEnqueueBarrierWithWaitList_t;
    clCreateSubDevices: clCreateSubDevices_t;
    clReleaseDevice: clReleaseDevice_t;
    clCreateProgramWithBuiltInKernels: clCreateProgramWithBuiltInKernels_t;
    clGetExtensionFunctionAddressForPlatform: clGetExtensionFunctionAddressForPlatform_t;
    @later
    clGetDeviceAndHostTimer: clGetDeviceAndHostTimer_t;
    clCreatePipe: clCreatePipe_t;
    clSVMAlloc: clSVMAlloc_t;
    clSVMFree: clSVMFree_t;
    clEnqueueSVMFree: clEnqueueSVMFree_t;
    clEnqueueSVMMap: clEnqueueSVMMap_t;
    clEnqueueSVMMemcpy: clEnqueueSVMMemcpy_t;
    clEnqueueSVMMemFill: clEnqueueSVMMemFill_t;
    clEnqueueSVMUnmap: clEnqueueSVMUnmap_t;
    clSetKernelArgSVMPointer: clSetKernelArgSVMPointer_t;
    clCreateCommandQueueWithProperties: clCreateCommandQueueWithProperties_t;
    clSetDefaultDeviceCommandQueue: clSetDefaultDeviceCommandQueue_t;
    clSetKernelExecInfo: clSetKernelExecInfo_t;
    clCreateProgramWithIL: clCreateProgramWithIL_t;
    clCloneKernel: clCloneKernel_t;
    clGetKernelSubGroupInfo: clGetKernelSubGroupInfo_t;
    clSetProgramSpecializationConstant: clSetProgramSpecializationConstant_t;
}

static API: OnceLock<Api> = OnceLock::new();

/// Loads the machine's OpenCL. Where there is none, `or_custom` is content with the custom devices.
///
/// # Errors
/// One sentence: there is no loader, or it is too old.
pub fn load(or_custom: bool) -> Result<(), String> {
    if API.get().is_none() {
        let api = match Api::load() {
            Err(_) if or_custom => Api::custom(),
            other => other?,
        };
        // If another thread has set the table first, its table is as good.
        let _ = API.set(api);
    }
    Ok(())
}

/// The loaded functions. Only platforms lead to objects, and [`super::platforms`] loads first.
pub(super) fn api() -> &'static Api {
    API.get().expect("OpenCL is loaded before any object of it exists")
}

//! The functions that this release does not offer. Their slots are filled, because loaders call them unseen.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use ropeway_abi::{CL_INVALID_OPERATION, cl_int};
use ropeway_client::warning;

#[cold]
fn refuse(said: &AtomicBool, name: &str) -> cl_int {
    if !said.swap(true, Ordering::Relaxed) {
        warning!("{name} is not supported by this release of Ropeway; it returns CL_INVALID_OPERATION");
    }
    CL_INVALID_OPERATION
}

/// A function for each name that ignores its arguments, says so once, and returns CL_INVALID_OPERATION: as its result
/// (`status`), or through `errcode_ret`, its last argument, beside a null object (`create`). The arguments' types, one
/// letter for each, follow from the slot that the function is put into.
macro_rules! unsupported {
    ($($kind:ident $name:ident ($($arg:ident)*);)*) => {$( unsupported!(@$kind $name $($arg)*); )*};
    (@status $name:ident $($arg:ident)*) => {
        pub unsafe extern "C" fn $name<$($arg),*>($(_: $arg),*) -> cl_int {
            static SAID: AtomicBool = AtomicBool::new(false);
            refuse(&SAID, stringify!($name))
        }
    };
    (@create $name:ident $($arg:ident)*) => {
        pub unsafe extern "C" fn $name<$($arg),*>($(_: $arg,)* errcode_ret: *mut cl_int) -> *mut c_void {
            static SAID: AtomicBool = AtomicBool::new(false);
            let code = refuse(&SAID, stringify!($name));
            if !errcode_ret.is_null() {
                // SAFETY: null or valid for a write, by the specification of every function that has it.
                unsafe { errcode_ret.write(code) };
            }
            ptr::null_mut()
        }
    };
}

unsupported! {
    // OpenCL 2.0 and later.

    // Sharing with graphics on the application's machine: its objects are not where the devices are.
    create clCreateFromGLBuffer(A B C);
    create clCreateFromGLTexture(A B C D E);
    create clCreateFromGLTexture2D(A B C D E);
    create clCreateFromGLTexture3D(A B C D E);
    create clCreateFromGLRenderbuffer(A B C);
    status clGetGLObjectInfo(A B C);
    status clGetGLTextureInfo(A B C D E);
    status clEnqueueAcquireGLObjects(A B C D E F);
    status clEnqueueReleaseGLObjects(A B C D E F);
    status clGetGLContextInfoKHR(A B C D E);
    create clCreateEventFromGLsyncKHR(A B);
    create clCreateFromEGLImageKHR(A B C D E);
    status clEnqueueAcquireEGLObjectsKHR(A B C D E F);
    status clEnqueueReleaseEGLObjectsKHR(A B C D E F);
    create clCreateEventFromEGLSyncKHR(A B C);
    status clGetDeviceIDsFromD3D10KHR(A B C D E F G);
    create clCreateFromD3D10BufferKHR(A B C);
    create clCreateFromD3D10Texture2DKHR(A B C D);
    create clCreateFromD3D10Texture3DKHR(A B C D);
    status clEnqueueAcquireD3D10ObjectsKHR(A B C D E F);
    status clEnqueueReleaseD3D10ObjectsKHR(A B C D E F);
    status clGetDeviceIDsFromD3D11KHR(A B C D E F G);
    create clCreateFromD3D11BufferKHR(A B C);
    create clCreateFromD3D11Texture2DKHR(A B C D);
    create clCreateFromD3D11Texture3DKHR(A B C D);
    status clEnqueueAcquireD3D11ObjectsKHR(A B C D E F);
    status clEnqueueReleaseD3D11ObjectsKHR(A B C D E F);
    status clGetDeviceIDsFromDX9MediaAdapterKHR(A B C D E F G H);
    create clCreateFromDX9MediaSurfaceKHR(A B C D E);
    status clEnqueueAcquireDX9MediaSurfacesKHR(A B C D E F);
    status clEnqueueReleaseDX9MediaSurfacesKHR(A B C D E F);
}

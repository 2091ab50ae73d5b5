//! A thin safe wrapper of the OpenCL calls that are measured: the library is opened when asked for, every object
//! releases itself, and every transfer blocks, so that no memory is in use after a call returns.

mod gated;
mod many;
mod mapped;
mod recorded;
mod svm;
mod timed;

use std::ffi::{CString, c_void};
use std::ptr;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use opencl_sys::cl_function_types::*;
use opencl_sys::*;

/// An error: the call that failed, and OpenCL's error code or the loader's words.
#[derive(Debug)]
pub struct Error(String);

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A result with this module's error.
pub type Result<T> = std::result::Result<T, Error>;

macro_rules! functions {
    ($($name:ident: $type:ty),* $(,)?) => {
        /// The functions used, as the library exports them.
        #[allow(non_snake_case)]
        struct Functions { $($name: $type,)* }

        impl Functions {
            fn load(library: &Library) -> Result<Self> {
                $(
                    // SAFETY: an OpenCL library's function of this name has the type that the OpenCL headers give it.
                    let symbol = unsafe { library.get::<$type>(concat!(stringify!($name), "\0").as_bytes()) };
                    #[allow(non_snake_case)]
                    let $name = *symbol.map_err(|e| Error(format!("{}: {e}", stringify!($name))))?;
                )*
                Ok(Self { $($name,)* })
            }
        }
    };
}

functions! {
    clGetPlatformIDs: clGetPlatformIDs_t,
    clGetPlatformInfo: clGetPlatformInfo_t,
    clGetDeviceIDs: clGetDeviceIDs_t,
    clGetDeviceInfo: clGetDeviceInfo_t,
    clCreateContext: clCreateContext_t,
    clReleaseContext: clReleaseContext_t,
    clCreateCommandQueue: clCreateCommandQueue_t,
    clReleaseCommandQueue: clReleaseCommandQueue_t,
    clCreateBuffer: clCreateBuffer_t,
    clCreateSubBuffer: clCreateSubBuffer_t,
    clReleaseMemObject: clReleaseMemObject_t,
    clCreateProgramWithSource: clCreateProgramWithSource_t,
    clBuildProgram: clBuildProgram_t,
    clReleaseProgram: clReleaseProgram_t,
    clCreateKernel: clCreateKernel_t,
    clSetKernelArg: clSetKernelArg_t,
    clReleaseKernel: clReleaseKernel_t,
    clEnqueueNDRangeKernel: clEnqueueNDRangeKernel_t,
    clEnqueueReadBuffer: clEnqueueReadBuffer_t,
    clEnqueueWriteBuffer: clEnqueueWriteBuffer_t,
    clEnqueueMigrateMemObjects: clEnqueueMigrateMemObjects_t,
    clEnqueueMapBuffer: clEnqueueMapBuffer_t,
    clEnqueueUnmapMemObject: clEnqueueUnmapMemObject_t,
    clWaitForEvents: clWaitForEvents_t,
    clGetEventInfo: clGetEventInfo_t,
    clGetEventProfilingInfo: clGetEventProfilingInfo_t,
    clReleaseEvent: clReleaseEvent_t,
    clCreateUserEvent: clCreateUserEvent_t,
    clSetUserEventStatus: clSetUserEventStatus_t,
    clSetEventCallback: clSetEventCallback_t,
    clFlush: clFlush_t,
    clFinish: clFinish_t,
    clGetExtensionFunctionAddressForPlatform: clGetExtensionFunctionAddressForPlatform_t,
    clSVMAlloc: clSVMAlloc_t,
    clSVMFree: clSVMFree_t,
    clSetKernelArgSVMPointer: clSetKernelArgSVMPointer_t,
    clEnqueueSVMMap: clEnqueueSVMMap_t,
    clEnqueueSVMUnmap: clEnqueueSVMUnmap_t,
}

/// Calls a function of the library and gives what it returned. The caller's `unsafe` block says why the arguments are
/// right.
macro_rules! call {
    ($api:expr, $name:ident($($arg:expr),* $(,)?)) => {
        match $api.$name {
            Some(function) => function($($arg),*),
            // Reports a missing function as an OpenCL without that function would.
            None => return Err(Error(format!("the OpenCL library has no {}", stringify!($name)))),
        }
    };
}
use call;

fn check(status: cl_int, what: &str) -> Result<()> {
    if status == CL_SUCCESS { Ok(()) } else { Err(Error(format!("{what} returned error {status}"))) }
}

/// An open OpenCL library. It stays loaded, as it does in most programs.
#[derive(Clone, Copy)]
pub struct OpenCl {
    api: &'static Functions,
}

/// A device and its platform.
#[derive(Clone, Copy)]
pub struct Device {
    api: &'static Functions,
    platform: cl_platform_id,
    id: cl_device_id,
}

macro_rules! objects {
    ($($(#[$doc:meta])* $name:ident($type:ty) $release:ident),* $(,)?) => {$(
        $(#[$doc])*
        pub struct $name {
            api: &'static Functions,
            id: $type,
        }

        impl Drop for $name {
            fn drop(&mut self) {
                if let Some(release) = self.api.$release {
                    // SAFETY: `id` was created by this library, and this is its only owner.
                    unsafe { release(self.id) };
                }
            }
        }
    )*};
}

objects! {
    /// A context of one device.
    Context(cl_context) clReleaseContext,
    /// A command queue.
    Queue(cl_command_queue) clReleaseCommandQueue,
    /// A buffer.
    Buffer(cl_mem) clReleaseMemObject,
    /// A program.
    Program(cl_program) clReleaseProgram,
    /// A kernel.
    Kernel(cl_kernel) clReleaseKernel,
    /// An event of a command.
    Event(cl_event) clReleaseEvent,
}

impl OpenCl {
    /// Opens `libOpenCL.so.1`, the ICD loader.
    pub fn open() -> Result<Self> {
        // SAFETY: the loader and what it loads run initialisers, as in every OpenCL program.
        let library = unsafe { Library::open(Some("libOpenCL.so.1"), RTLD_NOW | RTLD_LOCAL) };
        let library = library.map_err(|e| Error(format!("the OpenCL loader cannot be opened: {e}")))?;
        let api = Box::leak(Box::new(Functions::load(&library)?));
        // Drivers do not survive being unloaded, so the library stays loaded.
        std::mem::forget(library);
        Ok(Self { api })
    }

    /// How many platforms there are. None at all is an answer, not an error.
    pub fn platforms(self) -> Result<usize> {
        let mut count = 0;
        // SAFETY: a null list with length 0 asks for the number alone.
        let status = unsafe { call!(self.api, clGetPlatformIDs(0, ptr::null_mut(), &mut count)) };
        // CL_PLATFORM_NOT_FOUND_KHR
        if status == -1001 {
            return Ok(0);
        }
        check(status, "clGetPlatformIDs")?;
        Ok(count as usize)
    }

    /// The first platform whose name, vendor or version contains `filter`, in any case.
    fn platform(self, filter: &str) -> Result<cl_platform_id> {
        let mut platforms = [ptr::null_mut(); 32];
        let mut count = 0;
        // SAFETY: the list has room for the 32 entries announced.
        let status = unsafe { call!(self.api, clGetPlatformIDs(32, platforms.as_mut_ptr(), &mut count)) };
        check(status, "clGetPlatformIDs")?;
        let mut seen = platforms.iter().take(count as usize);
        let wanted = seen.find(|platform| {
            [CL_PLATFORM_NAME, CL_PLATFORM_VENDOR, CL_PLATFORM_VERSION].into_iter().any(|what| {
                let text = self.platform_text(**platform, what).unwrap_or_default();
                text.to_lowercase().contains(&filter.to_lowercase())
            })
        });
        wanted.copied().ok_or_else(|| Error(format!("no OpenCL platform matches '{filter}' ({count} seen)")))
    }

    /// The first device of the first platform whose name, vendor or version contains `filter`, in any case.
    pub fn device(self, filter: &str) -> Result<Device> {
        let platform = self.platform(filter)?;
        let mut id = ptr::null_mut();
        // SAFETY: there is room for one device, as announced.
        let status =
            unsafe { call!(self.api, clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &mut id, ptr::null_mut())) };
        check(status, "clGetDeviceIDs")?;
        Ok(Device { api: self.api, platform, id })
    }

    fn platform_text(self, platform: cl_platform_id, what: cl_platform_info) -> Result<String> {
        let mut text = [0_u8; 1024];
        let into = text.as_mut_ptr().cast::<c_void>();
        // SAFETY: `into` has as many bytes as announced.
        let status = unsafe { call!(self.api, clGetPlatformInfo(platform, what, text.len(), into, ptr::null_mut())) };
        check(status, "clGetPlatformInfo")?;
        Ok(until_nul(&text))
    }
}

fn until_nul(text: &[u8]) -> String {
    let text = text.split(|b| *b == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).trim().to_owned()
}

impl Device {
    /// Platform and device by name.
    pub fn name(&self) -> Result<String> {
        let mut text = [0_u8; 1024];
        let into = text.as_mut_ptr().cast::<c_void>();
        // SAFETY: `into` has as many bytes as announced.
        let status =
            unsafe { call!(self.api, clGetDeviceInfo(self.id, CL_DEVICE_NAME, text.len(), into, ptr::null_mut())) };
        check(status, "clGetDeviceInfo")?;
        let platform = OpenCl { api: self.api }.platform_text(self.platform, CL_PLATFORM_NAME)?;
        Ok(format!("{platform}, {}", until_nul(&text)))
    }

    /// Whether it is a GPU.
    pub fn is_gpu(&self) -> Result<bool> {
        let mut kind: cl_device_type = 0;
        let into = ptr::from_mut(&mut kind).cast::<c_void>();
        // SAFETY: `into` is a cl_device_type, whose size is given.
        let status = unsafe {
            call!(self.api, clGetDeviceInfo(self.id, CL_DEVICE_TYPE, size_of_val(&kind), into, ptr::null_mut()))
        };
        check(status, "clGetDeviceInfo")?;
        Ok(kind & CL_DEVICE_TYPE_GPU != 0)
    }

    /// A context of this device.
    pub fn context(&self) -> Result<Context> {
        let properties = [CL_CONTEXT_PLATFORM, self.platform as cl_context_properties, 0];
        let mut status = 0;
        // SAFETY: the properties end with 0, and there is one device, as announced.
        let id = unsafe {
            call!(self.api, clCreateContext(properties.as_ptr(), 1, &self.id, None, ptr::null_mut(), &mut status))
        };
        check(status, "clCreateContext")?;
        Ok(Context { api: self.api, id })
    }
}

impl Context {
    /// A queue on `device`.
    pub fn queue(&self, device: &Device, out_of_order: bool) -> Result<Queue> {
        let properties = if out_of_order { CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE } else { 0 };
        let mut status = 0;
        // SAFETY: context and device are alive.
        let id = unsafe { call!(self.api, clCreateCommandQueue(self.id, device.id, properties, &mut status)) };
        check(status, "clCreateCommandQueue")?;
        Ok(Queue { api: self.api, id })
    }

    /// A buffer of `size` bytes.
    pub fn buffer(&self, size: usize) -> Result<Buffer> {
        let mut status = 0;
        // SAFETY: no host memory is given.
        let id =
            unsafe { call!(self.api, clCreateBuffer(self.id, CL_MEM_READ_WRITE, size, ptr::null_mut(), &mut status)) };
        check(status, "clCreateBuffer")?;
        Ok(Buffer { api: self.api, id })
    }

    /// A program of `source`, built for `device`.
    pub fn program(&self, device: &Device, source: &str) -> Result<Program> {
        let (mut text, len) = (source.as_ptr().cast::<std::ffi::c_char>(), source.len());
        let mut status = 0;
        // SAFETY: one text of `len` bytes.
        let id = unsafe { call!(self.api, clCreateProgramWithSource(self.id, 1, &mut text, &len, &mut status)) };
        check(status, "clCreateProgramWithSource")?;
        let program = Program { api: self.api, id };
        // SAFETY: one device, as announced; the options are an empty C string.
        let status = unsafe { call!(self.api, clBuildProgram(id, 1, &device.id, c"".as_ptr(), None, ptr::null_mut())) };
        check(status, "clBuildProgram")?;
        Ok(program)
    }
}

impl Program {
    /// The kernel called `name`.
    pub fn kernel(&self, name: &str) -> Result<Kernel> {
        let name = CString::new(name).map_err(|_| Error("a kernel's name has no NUL".into()))?;
        let mut status = 0;
        // SAFETY: the name is a C string.
        let id = unsafe { call!(self.api, clCreateKernel(self.id, name.as_ptr(), &mut status)) };
        check(status, "clCreateKernel")?;
        Ok(Kernel { api: self.api, id })
    }
}

impl Kernel {
    /// Sets an argument to a buffer.
    pub fn set_buffer(&self, index: u32, buffer: &Buffer) -> Result<()> {
        let value = ptr::from_ref(&buffer.id).cast();
        // SAFETY: the value is a cl_mem, whose size is given.
        let status = unsafe { call!(self.api, clSetKernelArg(self.id, index, size_of::<cl_mem>(), value)) };
        check(status, "clSetKernelArg")
    }

    /// Sets an argument to a number.
    pub fn set_int(&self, index: u32, number: i32) -> Result<()> {
        let value = ptr::from_ref(&number).cast();
        // SAFETY: the value is an int, whose size is given.
        let status = unsafe { call!(self.api, clSetKernelArg(self.id, index, size_of::<i32>(), value)) };
        check(status, "clSetKernelArg")
    }
}

impl Queue {
    /// Launches `kernel` over `items` work-items.
    pub fn launch(&self, kernel: &Kernel, items: usize) -> Result<()> {
        self.enqueue(kernel, items, None, ptr::null_mut())
    }

    /// Launches one work-item after `wait`, with an event.
    pub fn launch_after(&self, kernel: &Kernel, wait: Option<&Event>) -> Result<Event> {
        self.launch_with_event(kernel, 1, wait)
    }

    /// Launches `kernel` over `items` work-items after `wait`, with an event.
    pub fn launch_with_event(&self, kernel: &Kernel, items: usize, wait: Option<&Event>) -> Result<Event> {
        let mut id = ptr::null_mut();
        self.enqueue(kernel, items, wait, &mut id)?;
        Ok(Event { api: self.api, id })
    }

    fn enqueue(&self, kernel: &Kernel, items: usize, wait: Option<&Event>, event: *mut cl_event) -> Result<()> {
        let (count, list) = match &wait {
            Some(event) => (1, ptr::from_ref(&event.id)),
            None => (0, ptr::null()),
        };
        let (none, local) = (ptr::null(), ptr::null());
        // SAFETY: one dimension, as announced; the wait list is as long as announced; `event` is null or a place for
        // one.
        let status = unsafe {
            call!(self.api, clEnqueueNDRangeKernel(self.id, kernel.id, 1, none, &items, local, count, list, event))
        };
        check(status, "clEnqueueNDRangeKernel")
    }

    /// Writes `bytes` to the start of `buffer`, and returns when they are no longer needed.
    pub fn write(&self, buffer: &Buffer, bytes: &[u8]) -> Result<()> {
        let (from, none) = (bytes.as_ptr().cast(), ptr::null());
        // SAFETY: `from` has as many bytes as given, and the call blocks until they have been taken.
        let status = unsafe {
            let len = bytes.len();
            call!(self.api, clEnqueueWriteBuffer(self.id, buffer.id, CL_TRUE, 0, len, from, 0, none, ptr::null_mut()))
        };
        check(status, "clEnqueueWriteBuffer")
    }

    /// Reads the start of `buffer` into `bytes`.
    pub fn read(&self, buffer: &Buffer, bytes: &mut [u8]) -> Result<()> {
        let (into, none) = (bytes.as_mut_ptr().cast(), ptr::null());
        // SAFETY: `into` has as many bytes as given, and the call blocks until they have been filled.
        let status = unsafe {
            let len = bytes.len();
            call!(self.api, clEnqueueReadBuffer(self.id, buffer.id, CL_TRUE, 0, len, into, 0, none, ptr::null_mut()))
        };
        check(status, "clEnqueueReadBuffer")
    }

    /// clFlush.
    pub fn flush(&self) -> Result<()> {
        // SAFETY: the queue is alive.
        check(unsafe { call!(self.api, clFlush(self.id)) }, "clFlush")
    }

    /// clFinish.
    pub fn finish(&self) -> Result<()> {
        // SAFETY: the queue is alive.
        check(unsafe { call!(self.api, clFinish(self.id)) }, "clFinish")
    }
}

impl Event {
    /// Waits until its command has ended.
    pub fn wait(&self) -> Result<()> {
        // SAFETY: one event, as announced.
        check(unsafe { call!(self.api, clWaitForEvents(1, &self.id)) }, "clWaitForEvents")
    }
}

impl Error {
    /// Creates the error for a wrong result where no call failed.
    pub fn wrong(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

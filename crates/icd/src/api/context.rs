//! Contexts (OpenCL 3.0 API, section 4.4).

use std::ffi::{CString, c_char, c_void};
use std::ptr;
use std::sync::{Arc, Mutex};

use ropeway_abi::{
    CL_CONTEXT_DEVICES, CL_CONTEXT_INTEROP_USER_SYNC, CL_CONTEXT_NUM_DEVICES, CL_CONTEXT_PLATFORM,
    CL_CONTEXT_PROPERTIES, CL_CONTEXT_REFERENCE_COUNT, CL_DEVICE_NOT_AVAILABLE, CL_INVALID_DEVICE, CL_INVALID_PLATFORM,
    CL_INVALID_PROPERTY, CL_INVALID_VALUE, cl_bool, cl_context, cl_context_info, cl_context_properties, cl_device_id,
    cl_device_type, cl_int, cl_uint,
};
use ropeway_client::collectives::ScratchCache;
use ropeway_client::context::{self, ContextCallback};

use super::{Callback, Raw, device};
use crate::handle::{self, Handle};
use crate::info::{Answered, Info};
use crate::objects::{Context, Device, Platform};
use crate::{guard, registry};

type Notify = unsafe extern "C" fn(*const c_char, *const c_void, usize, *mut c_void);

/// clCreateContext.
pub unsafe extern "C" fn clCreateContext(
    properties: *const cl_context_properties,
    num_devices: cl_uint,
    devices: *const cl_device_id,
    pfn_notify: Option<Notify>,
    user_data: *mut c_void,
    errcode_ret: *mut cl_int,
) -> cl_context {
    // SAFETY: the caller's promise, here and below.
    unsafe {
        guard::create("clCreateContext", errcode_ret, || {
            let properties = Properties::read(properties)?;
            // CL_INVALID_VALUE if devices is NULL or if num_devices is 0.
            if devices.is_null() || num_devices == 0 {
                return Err(CL_INVALID_VALUE);
            }
            let listener = listener(pfn_notify, user_data)?;
            let mut found: Vec<Handle<Device>> = Vec::new();
            for &device in std::slice::from_raw_parts(devices, num_devices as usize) {
                // CL_INVALID_DEVICE if any device is not valid, or is not one of the specified platform.
                let device = Handle::<Device>::find(device)?;
                let of_platform = properties.platform.as_ref().map(Handle::raw);
                if of_platform.is_some_and(|platform| platform != device.platform.get()) {
                    return Err(CL_INVALID_DEVICE);
                }
                // Duplicate devices are ignored.
                if !found.contains(&device) {
                    found.push(device);
                }
            }
            create(found, properties.list, listener)
        })
    }
}

/// clCreateContextFromType.
pub unsafe extern "C" fn clCreateContextFromType(
    properties: *const cl_context_properties,
    device_type: cl_device_type,
    pfn_notify: Option<Notify>,
    user_data: *mut c_void,
    errcode_ret: *mut cl_int,
) -> cl_context {
    // SAFETY: the caller's promise, here and below.
    unsafe {
        guard::create("clCreateContextFromType", errcode_ret, || {
            let properties = Properties::read(properties)?;
            let listener = listener(pfn_notify, user_data)?;
            // Which platform is taken without a property is up to the implementation; CL_INVALID_PLATFORM if there is
            // none.
            let default = || registry::platforms().into_iter().next();
            let platform = properties.platform.clone().or_else(default).ok_or(CL_INVALID_PLATFORM)?;
            let mut found = device::of_type(&platform, device_type)?;
            // The call may give a subset of the devices: without those of lost servers, if there are others.
            if found.iter().any(|device| device.client.is_available()) {
                found.retain(|device| device.client.is_available());
            }
            create(found, properties.list, listener)
        })
    }
}

/// A context's properties.
struct Properties {
    /// As given, with the final 0; empty if there were none.
    list: Vec<isize>,
    platform: Option<Handle<Platform>>,
}

impl Properties {
    /// # Safety
    /// `properties` is null or a list that ends with a 0.
    unsafe fn read(properties: *const cl_context_properties) -> Result<Self, cl_int> {
        let mut read = Self { list: Vec::new(), platform: None };
        if properties.is_null() {
            return Ok(read);
        }
        let mut next = properties;
        loop {
            // SAFETY: the 0 that ends the list has not come yet.
            let name = unsafe { next.read() };
            read.list.push(name);
            if name == 0 {
                return Ok(read);
            }
            // CL_INVALID_PROPERTY if the same property name is specified more than once.
            if read.list[..read.list.len() - 1].iter().step_by(2).any(|&earlier| earlier == name) {
                return Err(CL_INVALID_PROPERTY);
            }
            // SAFETY: a name is followed by its value, and that by the next name or the 0.
            let value = unsafe { next.add(1).read() };
            // SAFETY: as above.
            next = unsafe { next.add(2) };
            match name {
                // CL_INVALID_PLATFORM if the platform is not a valid one.
                CL_CONTEXT_PLATFORM => {
                    read.platform = Some(Handle::find(ptr::with_exposed_provenance_mut(value as usize))?);
                }
                // CL_INVALID_PROPERTY if the value of a supported property is not valid.
                CL_CONTEXT_INTEROP_USER_SYNC if cl_bool::try_from(value).is_ok_and(|value| value <= 1) => {}
                // CL_INVALID_PROPERTY if a property name is not supported.
                _ => return Err(CL_INVALID_PROPERTY),
            }
            read.list.push(value);
        }
    }
}

fn listener(pfn_notify: Option<Notify>, user_data: *mut c_void) -> Result<Option<ContextCallback>, cl_int> {
    let Some(notify) = pfn_notify else {
        // CL_INVALID_VALUE if pfn_notify is NULL but user_data is not NULL.
        return if user_data.is_null() { Ok(None) } else { Err(CL_INVALID_VALUE) };
    };
    let callback = Callback::new(notify, user_data);
    Ok(Some(Arc::new(move |text: &str| {
        let (notify, user_data) = callback.parts();
        let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
        // SAFETY: the application gave this function and argument for this.
        unsafe { notify(text.as_ptr(), ptr::null(), 0, user_data) };
    })))
}

fn create(
    devices: Vec<Handle<Device>>,
    properties: Vec<isize>,
    listener: Option<ContextCallback>,
) -> Result<*mut c_void, cl_int> {
    // CL_DEVICE_NOT_AVAILABLE if a device is currently not available.
    if devices.iter().any(|device| !device.client.is_available()) {
        return Err(CL_DEVICE_NOT_AVAILABLE);
    }
    let client = context::Context::new(devices.iter().map(|device| Arc::clone(&device.client)).collect(), listener)?;
    let first = devices.first().ok_or(CL_INVALID_VALUE)?.clone();
    let (default_queues, scratch_cache) = (Mutex::default(), ScratchCache::default());
    Ok(Handle::new(&first, Context { client, devices, properties, default_queues, scratch_cache })?.give())
}

/// clRetainContext.
pub unsafe extern "C" fn clRetainContext(context: cl_context) -> cl_int {
    guard::status("clRetainContext", || handle::retain::<Context>(context))
}

/// clReleaseContext.
pub unsafe extern "C" fn clReleaseContext(context: cl_context) -> cl_int {
    guard::status("clReleaseContext", || {
        if let Some(last) = handle::release_last::<Context>(context)? {
            last.client.let_go();
        }
        Ok(())
    })
}

/// clGetContextInfo.
pub unsafe extern "C" fn clGetContextInfo(
    context: cl_context,
    name: cl_context_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    // SAFETY: the caller's promise.
    let info = unsafe { Info::new(size, value, size_ret) };
    guard::status("clGetContextInfo", || answer(&Handle::find(context)?, name, info))
}

fn answer(context: &Handle<Context>, name: cl_context_info, info: Info) -> Result<Answered, cl_int> {
    match name {
        CL_CONTEXT_REFERENCE_COUNT => info.value(context.reference_count()),
        CL_CONTEXT_NUM_DEVICES => info.value(context.devices.len() as cl_uint),
        CL_CONTEXT_DEVICES => info.slice(&context.devices.iter().map(Handle::raw).collect::<Vec<_>>()),
        CL_CONTEXT_PROPERTIES => info.slice(&context.properties),
        // CL_INVALID_VALUE if param_name is not one of the supported values.
        _ => Err(CL_INVALID_VALUE),
    }
}

/// clSetContextDestructorCallback.
pub unsafe extern "C" fn clSetContextDestructorCallback(
    context: cl_context,
    pfn_notify: Option<unsafe extern "C" fn(cl_context, *mut c_void)>,
    user_data: *mut c_void,
) -> cl_int {
    guard::status("clSetContextDestructorCallback", || {
        let found = Handle::<Context>::find(context)?;
        // CL_INVALID_VALUE if pfn_notify is NULL.
        let callback = Callback::new(pfn_notify.ok_or(CL_INVALID_VALUE)?, user_data);
        let context = Raw::new(context);
        found.client.on_destruction(Box::new(move || {
            let (notify, user_data) = callback.parts();
            // SAFETY: the application gave this function and argument for this.
            unsafe { notify(context.get(), user_data) };
        }));
        Ok(())
    })
}

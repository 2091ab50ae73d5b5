//! Semaphores as objects: made, asked about.

use std::ffi::c_void;

use ropeway_abi::{
    CL_FALSE, CL_INVALID_DEVICE, CL_INVALID_PROPERTY, CL_INVALID_VALUE, CL_SEMAPHORE_CONTEXT_KHR,
    CL_SEMAPHORE_DEVICE_HANDLE_LIST_END_KHR, CL_SEMAPHORE_DEVICE_HANDLE_LIST_KHR, CL_SEMAPHORE_EXPORTABLE_KHR,
    CL_SEMAPHORE_PAYLOAD_KHR, CL_SEMAPHORE_PROPERTIES_KHR, CL_SEMAPHORE_REFERENCE_COUNT_KHR,
    CL_SEMAPHORE_TYPE_BINARY_KHR, CL_SEMAPHORE_TYPE_KHR, cl_context, cl_device_id,
    cl_external_semaphore_handle_type_khr, cl_int, cl_semaphore_info_khr, cl_semaphore_khr,
    cl_semaphore_properties_khr,
};
use ropeway_client::semaphore;

use crate::guard;
use crate::handle::{self, Handle};
use crate::info::{Answered, Info};
use crate::objects::{Context, Device, Semaphore};

/// The properties in sema_props.
#[derive(Default)]
struct Properties {
    has_type: bool,
    devices: Option<Vec<*mut c_void>>,
    /// As they were given, with the final 0.
    list: Vec<cl_semaphore_properties_khr>,
}

impl Properties {
    /// # Safety
    /// `next` is a list of names and values that ends with 0.
    unsafe fn read(mut next: *const cl_semaphore_properties_khr) -> Result<Self, cl_int> {
        let mut read = Self::default();
        let mut take = |list: &mut Vec<_>| {
            // SAFETY: the caller's promise: nothing is read behind the final 0.
            let one = unsafe { next.read() };
            // SAFETY: as above; at most one past the end.
            next = unsafe { next.add(1) };
            list.push(one);
            one
        };
        loop {
            // CL_INVALID_PROPERTY if a property name in sema_props is not a supported property name, if the value
            // specified for a supported property name is not valid, or if the same property name is specified more than
            // once.
            let name = take(&mut read.list);
            match cl_semaphore_info_khr::try_from(name).map_err(|_| CL_INVALID_PROPERTY)? {
                0 => return Ok(read),
                CL_SEMAPHORE_TYPE_KHR if !read.has_type => {
                    if take(&mut read.list) != u64::from(CL_SEMAPHORE_TYPE_BINARY_KHR) {
                        return Err(CL_INVALID_PROPERTY);
                    }
                    read.has_type = true;
                }
                CL_SEMAPHORE_DEVICE_HANDLE_LIST_KHR if read.devices.is_none() => {
                    let devices = read.devices.insert(Vec::new());
                    loop {
                        let device = take(&mut read.list);
                        if device == u64::from(CL_SEMAPHORE_DEVICE_HANDLE_LIST_END_KHR) {
                            break;
                        }
                        devices.push(device as usize as *mut c_void);
                    }
                }
                _ => return Err(CL_INVALID_PROPERTY),
            }
        }
    }

    /// The one device of the semaphore.
    fn device(&self, context: &Context) -> Result<Handle<Device>, cl_int> {
        let Some(named) = &self.devices else {
            // CL_INVALID_PROPERTY if context is a multiple device context and sema_props does not specify
            // CL_SEMAPHORE_DEVICE_HANDLE_LIST_KHR.
            return match &*context.devices {
                [only] => Ok(only.clone()),
                _ => Err(CL_INVALID_PROPERTY),
            };
        };
        // CL_INVALID_DEVICE if CL_SEMAPHORE_DEVICE_HANDLE_LIST_KHR is specified as part of sema_props, but it does not
        // identify exactly one valid device, or if a device identified by it is not one of the devices within context.
        let [device] = **named else { return Err(CL_INVALID_DEVICE) };
        let device = Handle::<Device>::find(device)?;
        if context.devices.contains(&device) { Ok(device) } else { Err(CL_INVALID_DEVICE) }
    }
}

/// clCreateSemaphoreWithPropertiesKHR.
pub unsafe extern "C" fn clCreateSemaphoreWithPropertiesKHR(
    context: cl_context,
    properties: *const cl_semaphore_properties_khr,
    errcode_ret: *mut cl_int,
) -> cl_semaphore_khr {
    // SAFETY: the caller's promise, here and below.
    unsafe {
        guard::create("clCreateSemaphoreWithPropertiesKHR", errcode_ret, || {
            let context = Handle::<Context>::find(context)?;
            // CL_INVALID_VALUE if sema_props is NULL.
            if properties.is_null() {
                return Err(CL_INVALID_VALUE);
            }
            let properties = Properties::read(properties)?;
            // CL_INVALID_VALUE if sema_props do not specify <property, value> pairs for minimum set of properties (i.e.
            // CL_SEMAPHORE_TYPE_KHR) required for successful creation of a cl_semaphore_khr.
            if !properties.has_type {
                return Err(CL_INVALID_VALUE);
            }
            let device = properties.device(&context)?;
            let client = semaphore::Semaphore::new(&context.client, &device.client)?;
            let semaphore = Semaphore { client, context: context.clone(), device, properties: properties.list };
            Ok(Handle::new(&context, semaphore)?.give())
        })
    }
}

/// clRetainSemaphoreKHR.
pub unsafe extern "C" fn clRetainSemaphoreKHR(semaphore: cl_semaphore_khr) -> cl_int {
    guard::status("clRetainSemaphoreKHR", || handle::retain::<Semaphore>(semaphore))
}

/// clReleaseSemaphoreKHR.
pub unsafe extern "C" fn clReleaseSemaphoreKHR(semaphore: cl_semaphore_khr) -> cl_int {
    guard::status("clReleaseSemaphoreKHR", || handle::release::<Semaphore>(semaphore))
}

/// clGetSemaphoreInfoKHR.
pub unsafe extern "C" fn clGetSemaphoreInfoKHR(
    semaphore: cl_semaphore_khr,
    name: cl_semaphore_info_khr,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    // SAFETY: the caller's promise.
    let info = unsafe { Info::new(size, value, size_ret) };
    guard::status("clGetSemaphoreInfoKHR", || answer(&Handle::find(semaphore)?, name, info))
}

/// clGetSemaphoreHandleForTypeKHR: of cl_khr_external_semaphore, which is not offered; programs look for it beside the
/// others.
pub unsafe extern "C" fn clGetSemaphoreHandleForTypeKHR(
    semaphore: cl_semaphore_khr,
    device: cl_device_id,
    _handle_type: cl_external_semaphore_handle_type_khr,
    _size: usize,
    _handle: *mut c_void,
    _size_ret: *mut usize,
) -> cl_int {
    guard::status("clGetSemaphoreHandleForTypeKHR", || -> Result<(), cl_int> {
        let semaphore = Handle::<Semaphore>::find(semaphore)?;
        // CL_INVALID_DEVICE if device is not a valid device, or if sema_object belongs to a context that is not
        // associated with device.
        let device = Handle::<Device>::find(device)?;
        if !semaphore.context.devices.contains(&device) {
            return Err(CL_INVALID_DEVICE);
        }
        // CL_INVALID_VALUE if the requested external semaphore handle type was not specified when sema_object was
        // created: none can be.
        Err(CL_INVALID_VALUE)
    })
}

fn answer(semaphore: &Handle<Semaphore>, name: cl_semaphore_info_khr, info: Info) -> Result<Answered, cl_int> {
    match name {
        CL_SEMAPHORE_CONTEXT_KHR => info.value(semaphore.context.raw()),
        CL_SEMAPHORE_REFERENCE_COUNT_KHR => info.value(semaphore.reference_count()),
        CL_SEMAPHORE_PROPERTIES_KHR => info.slice(&semaphore.properties),
        CL_SEMAPHORE_TYPE_KHR => info.value(CL_SEMAPHORE_TYPE_BINARY_KHR),
        CL_SEMAPHORE_PAYLOAD_KHR => info.value(semaphore.client.payload()?),
        CL_SEMAPHORE_DEVICE_HANDLE_LIST_KHR => info.value(semaphore.device.raw()),
        CL_SEMAPHORE_EXPORTABLE_KHR => info.value(CL_FALSE),
        // CL_INVALID_VALUE if param_name is not one of the attribute defined in the Semaphore Queries table.
        _ => Err(CL_INVALID_VALUE),
    }
}

//! Contexts.

use std::ffi::{CString, c_char, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use ropeway_abi as cl;

use super::device::{self, Device};
use super::handle::{Object, get, release, retain};
use super::info::give;
use crate::kind::Instance;

/// pfn_notify of clCreateContext.
type Notify = unsafe extern "C" fn(*const c_char, *const c_void, usize, *mut c_void);

/// A context.
pub(super) struct Context {
    pub(super) devices: Vec<Arc<Object<Device>>>,
    instances: Mutex<Instances>,
    notify: Option<(Notify, usize)>,
}

/// The devices as a context uses them.
struct Instances {
    /// Each made when first needed; by the device's place in the context.
    made: Vec<Option<Arc<dyn Instance>>>,
    /// Whether those that are made from now on are called off, too.
    are_called_off: bool,
}

impl Context {
    /// A device as this context uses it.
    pub(super) fn instance(&self, device: &Arc<Object<Device>>) -> Arc<dyn Instance> {
        let place = self.devices.iter().position(|known| Arc::ptr_eq(known, device));
        let mut instances = self.instances.lock().unwrap_or_else(PoisonError::into_inner);
        let Instances { made, are_called_off } = &mut *instances;
        let open = || {
            let instance = device.kind.open();
            if *are_called_off {
                instance.call_off();
            }
            Arc::from(instance)
        };
        match place.and_then(|place| made.get_mut(place)) {
            Some(instance) => instance.get_or_insert_with(open).clone(),
            None => open(),
        }
    }

    /// Tells the program, in one sentence, why a command has failed.
    pub(super) fn report(&self, text: &str) {
        let Some((notify, user)) = self.notify else { return };
        let Ok(text) = CString::new(text.replace('\0', " ")) else { return };
        // SAFETY: as clCreateContext has it: the text ends with NUL, and there are no further bytes; the pointer is the one given there.
        unsafe { notify(text.as_ptr(), std::ptr::null(), 0, std::ptr::with_exposed_provenance_mut(user)) };
    }

    /// Whether it has this device.
    pub(super) fn has(&self, device: &Arc<Object<Device>>) -> bool {
        self.devices.iter().any(|known| Arc::ptr_eq(known, device))
    }
}

/// clCreateContext.
pub(super) unsafe extern "C" fn clCreateContext(
    _: *const cl::cl_context_properties,
    count: cl::cl_uint,
    devices: *const cl::cl_device_id,
    notify: Option<Notify>,
    user: *mut c_void,
    status: *mut cl::cl_int,
) -> cl::cl_context {
    // SAFETY: as the worker calls it.
    let devices = unsafe { device::list(count, devices) };
    let made = devices.filter(|devices| !devices.is_empty()).ok_or(cl::CL_INVALID_DEVICE).map(|devices| {
        let instances = Mutex::new(Instances { made: vec![None; devices.len()], are_called_off: false });
        let notify = notify.map(|notify| (notify, user.expose_provenance()));
        Object::new(Context { devices, instances, notify }).into_handle()
    });
    // SAFETY: null or valid for a write.
    unsafe { give(status, made) }
}

/// clRetainContext.
pub(super) unsafe extern "C" fn clRetainContext(context: cl::cl_context) -> cl::cl_int {
    // SAFETY: the worker's own handle.
    if unsafe { retain::<Context, _>(context) } { cl::CL_SUCCESS } else { cl::CL_INVALID_CONTEXT }
}

/// clReleaseContext.
pub(super) unsafe extern "C" fn clReleaseContext(context: cl::cl_context) -> cl::cl_int {
    // SAFETY: the worker's own handle, with a reference.
    if unsafe { release::<Context, _>(context) }.is_some() { cl::CL_SUCCESS } else { cl::CL_INVALID_CONTEXT }
}

/// Calls off the context's commands that wait for something outside, and all later ones that would.
///
/// # Safety
/// The handle is null or that of a context of this platform that is still referred to.
pub unsafe fn call_off(context: cl::cl_context) {
    // SAFETY: by the promise of the caller.
    if let Some(context) = unsafe { get::<Context, _>(context) } {
        let mut instances = context.instances.lock().unwrap_or_else(PoisonError::into_inner);
        instances.are_called_off = true;
        instances.made.iter().flatten().for_each(|instance| instance.call_off());
    }
}

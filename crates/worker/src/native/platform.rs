//! Platforms, devices and contexts.

use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;

use ropeway_abi as cl;
use ropeway_protocol::types::Status;

use super::api::{api, load};
use super::{check, custom, info, waiting};

/// Most characters of [`Device::driver`].
const MAX_DRIVER: usize = 200;

/// A native platform. It lives as long as the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Platform(cl::cl_platform_id);

// SAFETY: OpenCL's handles may be used from any thread (OpenCL 3.0 API, appendix A.2).
unsafe impl Send for Platform {}
// SAFETY: as above.
unsafe impl Sync for Platform {}

/// A native device. It lives as long as the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Device(pub(super) cl::cl_device_id);

// SAFETY: as for `Platform`.
unsafe impl Send for Device {}
// SAFETY: as for `Platform`.
unsafe impl Sync for Device {}

/// The machine's platforms, in the loader's order. Behind them comes that of the custom devices, if [`custom::offer`] has made it.
///
/// # Errors
/// One sentence: OpenCL cannot be loaded, and there are no custom devices either. A loader without platforms is no error.
pub fn platforms() -> Result<Vec<Platform>, String> {
    let own = custom::platform().map(Platform);
    load(own.is_some())?;
    let mut platforms = of_loader()?;
    // Without a loader, it is what the functions list.
    platforms.extend(own.filter(|own| !platforms.contains(own)));
    waiting::know(&platforms);
    Ok(platforms)
}

fn of_loader() -> Result<Vec<Platform>, String> {
    let mut count = 0;
    // SAFETY: both calls pass memory of the size they announce.
    let status = unsafe { (api().clGetPlatformIDs)(0, std::ptr::null_mut(), &raw mut count) };
    if status != cl::CL_SUCCESS || count == 0 {
        return Ok(Vec::new());
    }
    let mut ids = vec![std::ptr::null_mut(); count as usize];
    // SAFETY: as above.
    let status = unsafe { (api().clGetPlatformIDs)(count, ids.as_mut_ptr(), &raw mut count) };
    if status != cl::CL_SUCCESS {
        return Err(format!("the OpenCL loader cannot list this machine's platforms (error {status})"));
    }
    ids.truncate(count as usize);
    Ok(ids.into_iter().map(Platform).collect())
}

impl Platform {
    /// Whether it is that of the custom devices.
    pub fn is_custom(self) -> bool {
        custom::platform() == Some(self.0)
    }

    /// clGetPlatformInfo, as bytes.
    ///
    /// # Errors
    /// The status of the native call.
    pub fn info(self, name: u32) -> Result<Vec<u8>, Status> {
        // SAFETY: `bytes` passes memory of the size it announces.
        info::bytes(|size, value, ret| unsafe { (self.functions().info)(self.0, name, size, value, ret) })
    }

    /// A string property; empty where it cannot be had.
    pub fn text(self, name: u32) -> String {
        // SAFETY: as above.
        info::text(|size, value, ret| unsafe { (self.functions().info)(self.0, name, size, value, ret) })
            .unwrap_or_default()
    }

    /// The functions that take the platform's handle.
    fn functions(self) -> custom::PlatformFunctions {
        custom::functions(self.0)
    }

    /// All of its devices, in native order; custom ones last, which CL_DEVICE_TYPE_ALL leaves out.
    pub fn devices(self) -> Vec<Device> {
        let mut devices = self.devices_of(cl::CL_DEVICE_TYPE_ALL);
        let custom = self.devices_of(cl::CL_DEVICE_TYPE_CUSTOM);
        // Some implementations count them among all.
        devices.extend(custom.into_iter().filter(|device| !devices.contains(device)).collect::<Vec<_>>());
        devices
    }

    fn devices_of(self, types: u64) -> Vec<Device> {
        let mut count = 0;
        // SAFETY: both calls pass memory of the size they announce.
        let list = |ids: *mut cl::cl_device_id, room: u32, count: &mut u32| unsafe {
            (self.functions().devices)(self.0, types, room, ids, count)
        };
        // A platform without devices answers CL_DEVICE_NOT_FOUND.
        if list(std::ptr::null_mut(), 0, &mut count) != cl::CL_SUCCESS || count == 0 {
            return Vec::new();
        }
        let mut ids = vec![std::ptr::null_mut(); count as usize];
        if list(ids.as_mut_ptr(), count, &mut count) != cl::CL_SUCCESS {
            return Vec::new();
        }
        ids.truncate(count as usize);
        ids.into_iter().map(Device).collect()
    }
}

impl Device {
    /// clGetDeviceInfo, as bytes. An array of pointers to strings becomes the strings, each with its NUL.
    ///
    /// # Errors
    /// The status of the native call.
    pub fn info(self, name: u32) -> Result<Vec<u8>, Status> {
        // SAFETY: `bytes` passes memory of the size it announces.
        let answer =
            info::bytes(|size, value, ret| unsafe { (api().clGetDeviceInfo)(self.0, name, size, value, ret) })?;
        Ok(match name {
            cl::CL_DEVICE_SPIRV_EXTENDED_INSTRUCTION_SETS_KHR | cl::CL_DEVICE_SPIRV_EXTENSIONS_KHR => {
                // SAFETY: cl_khr_spirv_queries defines these answers as arrays of `const char*`, and the strings are
                // the implementation's own; a root device is never released, and of a sub-device the caller holds a
                // reference.
                unsafe { info::strings(&answer) }
            }
            _ => answer,
        })
    }

    /// The device's time of clGetDeviceAndHostTimer, in nanoseconds.
    ///
    /// # Errors
    /// The status of the native call; CL_INVALID_OPERATION where there is none.
    pub fn timer(self) -> Result<u64, Status> {
        let ask = api().clGetDeviceAndHostTimer.filter(|_| self.is_at_least(2, 1)).ok_or(cl::CL_INVALID_OPERATION)?;
        let (mut device, mut host) = (0, 0);
        // SAFETY: both are valid for a write.
        check(unsafe { ask(self.0, &raw mut device, &raw mut host) })?;
        Ok(device)
    }

    /// Its name; empty where it cannot be had.
    pub fn name(self) -> String {
        self.text(cl::CL_DEVICE_NAME)
    }

    /// Names and versions of device and driver: what is found out about one device holds for all with the same text.
    pub fn driver(self) -> String {
        let queries = [cl::CL_DEVICE_NAME, cl::CL_DEVICE_VENDOR, cl::CL_DEVICE_VERSION, cl::CL_DRIVER_VERSION];
        let text = queries.map(|name| self.text(name)).join(", ");
        // It goes into messages and logs.
        text.chars().take(MAX_DRIVER).collect()
    }

    /// A string property; empty where it cannot be had.
    pub(super) fn text(self, name: u32) -> String {
        // SAFETY: `text` passes memory of the size it announces.
        info::text(|size, value, ret| unsafe { (api().clGetDeviceInfo)(self.0, name, size, value, ret) })
            .unwrap_or_default()
    }

    /// Whether it has a built-in kernel of this name.
    pub fn has_built_in_kernel(self, name: &str) -> bool {
        self.text(cl::CL_DEVICE_BUILT_IN_KERNELS).split(';').any(|has| has == name)
    }

    /// Whether it has pipes.
    pub fn has_pipes(self) -> bool {
        // SAFETY: `value` passes memory of the size it announces.
        let has: Result<u32, _> = info::value(|size, value, ret| unsafe {
            (api().clGetDeviceInfo)(self.0, cl::CL_DEVICE_PIPE_SUPPORT, size, value, ret)
        });
        // OpenCL 2.x devices all have them, and need not know the query.
        has.map_or_else(|_| self.is_at_least(2, 0), |has| has != 0)
    }

    /// Whether it has coarse-grain shared virtual memory. An implementation of a version before OpenCL 2.0 does not
    /// know the query.
    pub fn has_svm(self) -> bool {
        // SAFETY: `value` passes memory of the size it announces.
        let has: Result<u64, _> = info::value(|size, value, ret| unsafe {
            (api().clGetDeviceInfo)(self.0, cl::CL_DEVICE_SVM_CAPABILITIES, size, value, ret)
        });
        has.is_ok_and(|has| has & cl::CL_DEVICE_SVM_COARSE_GRAIN_BUFFER != 0)
    }

    /// Whether it is of this version of OpenCL or a later one.
    pub fn is_at_least(self, major: u32, minor: u32) -> bool {
        let text = self.text(cl::CL_DEVICE_VERSION);
        let number = text.strip_prefix("OpenCL ").and_then(|text| text.split_ascii_whitespace().next());
        let version = number.and_then(|number| {
            let (major, minor) = number.split_once('.')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        });
        version.unwrap_or((1, 0)) >= (major, minor)
    }

    /// The address of an extension's function in the driver that the device belongs to; `None` where it has none. What
    /// it points to has the type that the extension declares.
    pub(super) fn function(self, name: &CStr) -> Option<std::ptr::NonNull<c_void>> {
        let platform = self.platform()?;
        // SAFETY: the platform is the driver's own, the name ends with NUL.
        std::ptr::NonNull::new(unsafe { (platform.functions().extension)(platform.0, name.as_ptr()) })
    }

    /// The platform that it belongs to; `None` where it does not say.
    pub(super) fn platform(self) -> Option<Platform> {
        let mut platform: cl::cl_platform_id = std::ptr::null_mut();
        // SAFETY: room for one handle, as announced.
        let asked = unsafe {
            (api().clGetDeviceInfo)(
                self.0,
                cl::CL_DEVICE_PLATFORM,
                size_of::<cl::cl_platform_id>(),
                (&raw mut platform).cast(),
                std::ptr::null_mut(),
            )
        };
        check(asked).ok()?;
        Some(Platform(platform))
    }

    /// CL_DEVICE_TYPE; 0 where it cannot be had.
    pub fn device_type(self) -> u64 {
        // SAFETY: `value` passes memory of the size it announces.
        let asked = info::value(|size, value, ret| unsafe {
            (api().clGetDeviceInfo)(self.0, cl::CL_DEVICE_TYPE, size, value, ret)
        });
        asked.unwrap_or_default()
    }

    /// Whether buffers live in memory that this process can reach without a copy over a bus.
    pub fn shares_host_memory(self) -> bool {
        // SAFETY: `value` passes memory of the size it announces.
        let unified: Result<u32, _> = info::value(|size, value, ret| unsafe {
            (api().clGetDeviceInfo)(self.0, cl::CL_DEVICE_HOST_UNIFIED_MEMORY, size, value, ret)
        });
        self.device_type() & cl::CL_DEVICE_TYPE_CPU != 0 || unified.is_ok_and(|unified| unified != 0)
    }
}

/// Receives the messages of the native implementation about a context (pfn_notify of clCreateContext).
pub trait ErrorSink: Send + Sync {
    /// May be called on any thread, at any time; must not block and must not call OpenCL.
    fn report(&self, text: &str);
}

/// A native context.
#[derive(Debug)]
pub struct Context(pub(super) cl::cl_context);

// SAFETY: as for `Platform`.
unsafe impl Send for Context {}
// SAFETY: as for `Platform`.
unsafe impl Sync for Context {}

impl Context {
    /// What identifies it in this process.
    pub fn address(&self) -> usize {
        self.0.addr()
    }

    /// clCreateContext. `errors` is kept for ever: the native implementation may call it until the process ends.
    ///
    /// # Errors
    /// The status of the native call.
    pub fn new(platform: Platform, devices: &[Device], errors: Arc<dyn ErrorSink>) -> Result<Self, Status> {
        let properties = [cl::CL_CONTEXT_PLATFORM, platform.0 as isize, 0];
        let devices: Vec<_> = devices.iter().map(|d| d.0).collect();
        let sink = Box::into_raw(Box::new(errors));
        let mut status = 0;
        // SAFETY: the arrays have the announced lengths; `sink` is what `report` expects and is never freed.
        let context = unsafe {
            (platform.functions().context)(
                properties.as_ptr(),
                devices.len() as u32,
                devices.as_ptr(),
                Some(report),
                sink.cast(),
                &raw mut status,
            )
        };
        check(status)?;
        Ok(Self(context))
    }

    /// Calls off its commands that wait for something outside, if `device`, which is one of its devices, is a custom one.
    pub fn call_off(&self, device: Device) {
        if device.platform().is_some_and(Platform::is_custom) {
            // SAFETY: a context of a device of the custom platform is that platform's, and alive.
            unsafe { ropeway_custom::platform::call_off(self.0) };
        }
    }

    /// Takes one more reference to the context.
    pub(super) fn retain(&self) -> Self {
        // SAFETY: the context is alive; the new value owns the reference made here.
        unsafe { (api().clRetainContext)(self.0) };
        Self(self.0)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: this is the one reference that the value owns.
        unsafe { (api().clReleaseContext)(self.0) };
    }
}

unsafe extern "C" fn report(text: *const c_char, _: *const c_void, _: usize, sink: *mut c_void) {
    if text.is_null() || sink.is_null() {
        return;
    }
    // SAFETY: `sink` is the box made in `Context::new`, never freed; `text` is a C string for the time of this call.
    let (sink, text) = unsafe { (&*sink.cast::<Arc<dyn ErrorSink>>(), CStr::from_ptr(text)) };
    sink.report(&text.to_string_lossy());
}

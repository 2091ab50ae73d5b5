//! The custom devices' platform, which lives in this process and which no ICD loader knows.
//!
//! A loader calls every object's function through the object, whosever it is; but it takes handles of platforms only if it has
//! listed them itself. So the few functions that take one are called here without it.

use std::sync::OnceLock;

use ropeway_abi as cl;
use ropeway_abi::functions as f;
use ropeway_custom::kind::Kind;
use ropeway_custom::platform;

use super::api::{Present, api};

/// The platform's handle.
struct Handle(cl::cl_platform_id);

// SAFETY: OpenCL's handles may be used from any thread (OpenCL 3.0 API, appendix A.2).
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

static PLATFORM: OnceLock<Handle> = OnceLock::new();

/// Makes the platform of these devices; without any, there is none. Only the first call does something.
pub fn offer(kinds: Vec<Box<dyn Kind>>) {
    if !kinds.is_empty() {
        PLATFORM.get_or_init(|| Handle(platform::offer(kinds)));
    }
}

/// The platform, if there is one.
pub(super) fn platform() -> Option<cl::cl_platform_id> {
    PLATFORM.get().map(|handle| handle.0)
}

/// The functions that take a platform's handle.
pub(super) struct PlatformFunctions {
    pub(super) info: <f::clGetPlatformInfo_t as Present>::Fn,
    pub(super) devices: <f::clGetDeviceIDs_t as Present>::Fn,
    pub(super) context: <f::clCreateContext_t as Present>::Fn,
    pub(super) extension: <f::clGetExtensionFunctionAddressForPlatform_t as Present>::Fn,
}

/// Those of the platform with this handle.
pub(super) fn functions(of: cl::cl_platform_id) -> PlatformFunctions {
    let (table, api) = (platform::table(), api());
    let own = platform().filter(|own| *own == of).and_then(|_| {
        Some(PlatformFunctions {
            info: table.clGetPlatformInfo?,
            devices: table.clGetDeviceIDs?,
            context: table.clCreateContext?,
            extension: table.clGetExtensionFunctionAddressForPlatform?,
        })
    });
    own.unwrap_or(PlatformFunctions {
        info: api.clGetPlatformInfo,
        devices: api.clGetDeviceIDs,
        context: api.clCreateContext,
        extension: api.clGetExtensionFunctionAddressForPlatform,
    })
}

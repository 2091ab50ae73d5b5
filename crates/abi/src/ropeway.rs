//! Ropeway's own query numbers.
//!
//! Systems of this kind have each taken numbers that the Khronos headers later gave to something else. Khronos assigns query
//! numbers below 0x10000 and vendor ids just above; Ropeway's are 0x5257_xxxx ("RW" in ASCII), far from both.

use opencl_sys::{cl_device_info, cl_platform_info};

/// clGetPlatformInfo → `char[]`: the address of the platform's server as it was configured, e.g. `tcp://node7:7590`;
/// for a platform that joins several servers, all their addresses, separated by commas.
pub const CL_PLATFORM_SERVER_ADDRESS_ROPEWAY: cl_platform_info = 0x5257_0001;

/// clGetDeviceInfo → `char[]`: the address of the device's server as it was configured, e.g. `tcp://node7:7590`.
pub const CL_DEVICE_SERVER_ADDRESS_ROPEWAY: cl_device_info = 0x5257_0101;

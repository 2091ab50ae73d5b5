//! Ropeway's own numbers: queries, and the extension cl_ropeway_servers (`include/CL/cl_ext_ropeway.h`).
//!
//! Systems of this kind have each taken numbers that the Khronos headers later gave to something else. Khronos assigns
//! query numbers below 0x10000 and vendor ids just above; Ropeway's are 0x5257_xxxx ("RW" in ASCII), far from both.

pub mod collectives;
pub mod custom;

use std::ffi::c_void;

use opencl_sys::{cl_bitfield, cl_device_info, cl_int, cl_platform_info, cl_uint};

/// clGetPlatformInfo → `char[]`: the address of the platform's server as it was configured, e.g. `tcp://node7:7590`;
/// for a platform that joins several servers, all their addresses, separated by commas.
pub const CL_PLATFORM_SERVER_ADDRESS_ROPEWAY: cl_platform_info = 0x5257_0001;

/// clGetDeviceInfo → `char[]`: the address of the device's server as it was configured, e.g. `tcp://node7:7590`.
pub const CL_DEVICE_SERVER_ADDRESS_ROPEWAY: cl_device_info = 0x5257_0101;

/// clGetDeviceInfo → `cl_uint`: the TCP port of the device's server; 0 where it has none.
pub const CL_DEVICE_SERVER_PORT_ROPEWAY: cl_device_info = 0x5257_0102;

/// clGetDeviceInfo → `char[]`: the name that the server's machine gives itself.
pub const CL_DEVICE_SERVER_HOST_NAME_ROPEWAY: cl_device_info = 0x5257_0103;

/// clGetDeviceInfo → `cl_ulong`: bytes that this process has sent to the device's server.
pub const CL_DEVICE_SERVER_BYTES_SENT_ROPEWAY: cl_device_info = 0x5257_0104;

/// clGetDeviceInfo → `cl_ulong`: bytes that this process has received from the device's server.
pub const CL_DEVICE_SERVER_BYTES_RECEIVED_ROPEWAY: cl_device_info = 0x5257_0105;

/// clGetDeviceInfo → `cl_server_ropeway`: the device's server.
pub const CL_DEVICE_SERVER_ROPEWAY: cl_device_info = 0x5257_0106;

/// PoCL's own name for the traffic with a remote device's server → six 64-bit numbers: seconds and nanoseconds of the
/// host's clock, bytes asked for and received, bytes handed over and sent.
pub const CL_DEVICE_REMOTE_TRAFFIC_STATS_POCL: cl_device_info = 0x4501;

/// PoCL's own name for the address of a remote device's server → `char[]`.
pub const CL_DEVICE_REMOTE_SERVER_IP_POCL: cl_device_info = 0x4503;

/// PoCL's own name for its port → `cl_uint`.
pub const CL_DEVICE_REMOTE_SERVER_PORT_POCL: cl_device_info = 0x4504;

/// `cl_server_ropeway`: a server, as long as the process lives.
#[allow(non_camel_case_types)]
pub type cl_server_ropeway = *mut c_void;

/// The queries of clGetServerInfoROPEWAY.
#[allow(non_camel_case_types)]
pub type cl_server_info_ropeway = cl_uint;

/// → `char[]`: the server's address as it was configured or given.
pub const CL_SERVER_ADDRESS_ROPEWAY: cl_server_info_ropeway = 0x5257_0201;
/// → `cl_uint`: its TCP port; 0 where it has none.
pub const CL_SERVER_PORT_ROPEWAY: cl_server_info_ropeway = 0x5257_0202;
/// → `char[]`: the name that its machine gives itself.
pub const CL_SERVER_HOST_NAME_ROPEWAY: cl_server_info_ropeway = 0x5257_0203;
/// → `cl_uint`: one of the states below.
pub const CL_SERVER_STATE_ROPEWAY: cl_server_info_ropeway = 0x5257_0204;
/// → `char[]`: its release of Ropeway.
pub const CL_SERVER_RELEASE_ROPEWAY: cl_server_info_ropeway = 0x5257_0205;
/// → `cl_ulong`: bytes that this process has sent to it.
pub const CL_SERVER_BYTES_SENT_ROPEWAY: cl_server_info_ropeway = 0x5257_0206;
/// → `cl_ulong`: bytes that this process has received from it.
pub const CL_SERVER_BYTES_RECEIVED_ROPEWAY: cl_server_info_ropeway = 0x5257_0207;
/// → `cl_platform_id[]`: the platforms that its devices are of.
pub const CL_SERVER_PLATFORMS_ROPEWAY: cl_server_info_ropeway = 0x5257_0208;
/// → `cl_device_id[]`: its devices.
pub const CL_SERVER_DEVICES_ROPEWAY: cl_server_info_ropeway = 0x5257_0209;
/// → `cl_ulong`: in how many milliseconds its devices are taken back; CL_ULONG_MAX where there is no notice of that.
pub const CL_SERVER_TIME_LEFT_ROPEWAY: cl_server_info_ropeway = 0x5257_020A;

/// State: its devices can be used.
pub const CL_SERVER_STATE_CONNECTED_ROPEWAY: cl_uint = 1;
/// State: it or the network has ended the session.
pub const CL_SERVER_STATE_LOST_ROPEWAY: cl_uint = 2;
/// State: the program has ended the session.
pub const CL_SERVER_STATE_DISCONNECTED_ROPEWAY: cl_uint = 3;

/// Which news of servers a callback wants, and which it gets.
#[allow(non_camel_case_types)]
pub type cl_server_events_ropeway = cl_bitfield;

/// A server was lost.
pub const CL_SERVER_EVENT_LOST_ROPEWAY: cl_server_events_ropeway = 1 << 0;
/// A server was found: it is connected, and its devices are there.
pub const CL_SERVER_EVENT_FOUND_ROPEWAY: cl_server_events_ropeway = 1 << 1;
/// The broker that has lent a server's devices is going to take them back.
pub const CL_SERVER_EVENT_NOTICE_ROPEWAY: cl_server_events_ropeway = 1 << 2;

/// The handle given as a server is none.
pub const CL_INVALID_SERVER_ROPEWAY: cl_int = -52571;
/// Nothing answers at a server's address.
pub const CL_SERVER_UNREACHABLE_ROPEWAY: cl_int = -52572;
/// The other side answers, but will not or cannot serve.
pub const CL_SERVER_REFUSED_ROPEWAY: cl_int = -52573;

/// dOpenCL's numbers for what is asked of its compute nodes; clGetServerInfoWWU understands them.
pub mod wwu {
    use super::cl_server_info_ropeway;

    /// CL_NODE_PLATFORM_WWU.
    pub const NODE_PLATFORM: cl_server_info_ropeway = 0x0800;
    /// CL_NODE_URL_WWU.
    pub const NODE_URL: cl_server_info_ropeway = 0x0802;
    /// CL_NODE_VERSION_WWU.
    pub const NODE_VERSION: cl_server_info_ropeway = 0x0804;
    /// CL_NODE_NAME_WWU.
    pub const NODE_NAME: cl_server_info_ropeway = 0x0805;
    /// CL_NODE_AVAILABLE_WWU.
    pub const NODE_AVAILABLE: cl_server_info_ropeway = 0x0808;
}

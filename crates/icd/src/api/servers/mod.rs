//! Servers that come and go (cl_ropeway_servers 1.1.0, `docs/extensions/cl_ropeway_servers.md`).

mod call;
mod info;
pub mod wwu;

use ropeway_abi::cl_version;

pub use info::{Asked, answer_of_device};

use crate::capabilities;

/// The extension's name.
pub const NAME: &str = "cl_ropeway_servers";

/// Its version.
pub const VERSION: cl_version = capabilities::version(1, 1, 0);

super::functions! {
    call::clConnectServerROPEWAY,
    call::clDisconnectServerROPEWAY,
    call::clGetServersROPEWAY,
    info::clGetServerInfoROPEWAY,
    call::clGetServerDevicesROPEWAY,
    call::clSetServerCallbackROPEWAY,
}

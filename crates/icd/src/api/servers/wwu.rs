//! The same under the names that dOpenCL's publications give to it, without a platform.

use std::ffi::{c_char, c_void};

use ropeway_abi::ropeway::{
    CL_SERVER_ADDRESS_ROPEWAY, CL_SERVER_HOST_NAME_ROPEWAY, CL_SERVER_PLATFORMS_ROPEWAY, CL_SERVER_RELEASE_ROPEWAY,
    cl_server_info_ropeway, cl_server_ropeway, wwu,
};
use ropeway_abi::{cl_int, cl_uint};
use ropeway_client::servers::State;

use super::call;
use crate::guard;
use crate::handle::Handle;
use crate::info::Info;
use crate::objects::Server;

crate::api::functions! {
    here::clConnectServerWWU,
    here::clDisconnectServerWWU,
    here::clGetServerInfoWWU,
}

/// The list above names modules.
use self as here;

/// clConnectServerWWU.
pub unsafe extern "C" fn clConnectServerWWU(url: *const c_char, errcode_ret: *mut cl_int) -> cl_server_ropeway {
    // SAFETY: the caller's promise, here and below.
    unsafe { guard::create("clConnectServerWWU", errcode_ret, || call::connect(std::ptr::null_mut(), url)) }
}

/// clDisconnectServerWWU.
pub unsafe extern "C" fn clDisconnectServerWWU(server: cl_server_ropeway) -> cl_int {
    guard::status("clDisconnectServerWWU", || call::disconnect(server))
}

/// clGetServerInfoWWU, which understands the numbers of dOpenCL's later compute nodes besides Ropeway's.
pub unsafe extern "C" fn clGetServerInfoWWU(
    server: cl_server_ropeway,
    name: cl_server_info_ropeway,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    // SAFETY: the caller's promise.
    let info = unsafe { Info::new(size, value, size_ret) };
    guard::status("clGetServerInfoWWU", || {
        let server = Handle::<Server>::find(server)?;
        let name = match name {
            wwu::NODE_PLATFORM => CL_SERVER_PLATFORMS_ROPEWAY,
            wwu::NODE_URL => CL_SERVER_ADDRESS_ROPEWAY,
            wwu::NODE_VERSION => CL_SERVER_RELEASE_ROPEWAY,
            wwu::NODE_NAME => CL_SERVER_HOST_NAME_ROPEWAY,
            wwu::NODE_AVAILABLE => return info.value(cl_uint::from(server.client.state() == State::Connected)),
            name => name,
        };
        super::info::answer(&server, name, info)
    })
}

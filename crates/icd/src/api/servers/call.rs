//! Servers connected, disconnected, listed and watched.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use ropeway_abi::ropeway::{
    CL_SERVER_EVENT_FOUND_ROPEWAY, CL_SERVER_EVENT_LOST_ROPEWAY, CL_SERVER_EVENT_NOTICE_ROPEWAY,
    CL_SERVER_REFUSED_ROPEWAY, CL_SERVER_UNREACHABLE_ROPEWAY, cl_server_events_ropeway, cl_server_ropeway,
};
use ropeway_abi::{
    CL_INVALID_PLATFORM, CL_INVALID_VALUE, CL_OUT_OF_HOST_MEMORY, cl_device_id, cl_device_type, cl_int, cl_platform_id,
    cl_uint,
};
use ropeway_client::link::OpenError;
use ropeway_client::servers::{self, Change, System};
use ropeway_client::watch::{Changes, Listener};

use crate::api::{Callback, check_enumeration, device_types, enumerate, text};
use crate::handle::Handle;
use crate::objects::{Platform, Server};
use crate::{guard, registry};

type Notify = unsafe extern "C" fn(cl_server_ropeway, cl_server_events_ropeway, *mut c_void);

/// The servers of this process, behind a platform or NULL for any of Ropeway's.
///
/// # Errors
/// CL_INVALID_PLATFORM if platform is neither NULL nor a platform of this implementation.
fn system(platform: cl_platform_id) -> Result<&'static Arc<System>, cl_int> {
    if !platform.is_null() {
        Handle::<Platform>::find(platform)?;
    }
    registry::system().ok_or(CL_INVALID_PLATFORM)
}

/// The address that a program gives.
///
/// # Errors
/// CL_INVALID_VALUE if url is NULL or not the address of a server.
///
/// # Safety
/// `url` is null or a C string.
unsafe fn address<T: std::str::FromStr>(url: *const c_char) -> Result<T, cl_int> {
    // SAFETY: the caller's promise.
    let url = unsafe { text(url) }.and_then(|url| std::str::from_utf8(url).ok()).ok_or(CL_INVALID_VALUE)?;
    url.parse().map_err(|_| CL_INVALID_VALUE)
}

/// Connects, and gives the handle.
///
/// # Safety
/// `url` is null or a C string.
pub(super) unsafe fn connect(platform: cl_platform_id, url: *const c_char) -> Result<*mut c_void, cl_int> {
    let system = system(platform)?;
    // SAFETY: the caller's promise.
    let address = unsafe { address(url)? };
    let server = system.connect_server(&address).map_err(|error| match error {
        // CL_SERVER_UNREACHABLE_ROPEWAY if nothing answers at url in time.
        OpenError::Link(_) => CL_SERVER_UNREACHABLE_ROPEWAY,
        // CL_SERVER_REFUSED_ROPEWAY if what answers is no server of Ropeway's, has another version of the protocol, or
        // refuses.
        OpenError::Handshake(_) => CL_SERVER_REFUSED_ROPEWAY,
    })?;
    // Its devices get their handles now, even if nobody lists them.
    registry::platforms();
    registry::server(&server).map(|server| server.raw()).ok_or(CL_OUT_OF_HOST_MEMORY)
}

/// clConnectServerROPEWAY.
pub unsafe extern "C" fn clConnectServerROPEWAY(
    platform: cl_platform_id,
    url: *const c_char,
    errcode_ret: *mut cl_int,
) -> cl_server_ropeway {
    // SAFETY: the caller's promise, here and below.
    unsafe { guard::create("clConnectServerROPEWAY", errcode_ret, || connect(platform, url)) }
}

/// Disconnects.
pub(super) fn disconnect(server: cl_server_ropeway) -> Result<(), cl_int> {
    // CL_INVALID_SERVER_ROPEWAY if server is not a valid server.
    let server = Handle::<Server>::find(server)?;
    registry::system().ok_or(CL_INVALID_PLATFORM)?.disconnect(&server.client);
    Ok(())
}

/// clDisconnectServerROPEWAY.
pub unsafe extern "C" fn clDisconnectServerROPEWAY(server: cl_server_ropeway) -> cl_int {
    guard::status("clDisconnectServerROPEWAY", || disconnect(server))
}

/// clGetServersROPEWAY.
pub unsafe extern "C" fn clGetServersROPEWAY(
    platform: cl_platform_id,
    num_entries: cl_uint,
    servers: *mut cl_server_ropeway,
    num_servers: *mut cl_uint,
) -> cl_int {
    guard::status("clGetServersROPEWAY", || {
        system(platform)?;
        check_enumeration(num_entries, servers, num_servers)?;
        let all = registry::servers();
        let listed: Vec<_> = all.iter().filter(|one| !one.client.connection().is_closed()).map(Handle::raw).collect();
        // SAFETY: the caller's promise.
        unsafe { enumerate(&listed, num_entries, servers, num_servers) };
        Ok(())
    })
}

/// clGetServerDevicesROPEWAY.
pub unsafe extern "C" fn clGetServerDevicesROPEWAY(
    server: cl_server_ropeway,
    device_type: cl_device_type,
    num_entries: cl_uint,
    devices: *mut cl_device_id,
    num_devices: *mut cl_uint,
) -> cl_int {
    guard::status("clGetServerDevicesROPEWAY", || {
        // CL_INVALID_SERVER_ROPEWAY if server is not a valid server.
        let server = Handle::<Server>::find(server)?;
        check_enumeration(num_entries, devices, num_devices)?;
        // CL_INVALID_DEVICE_TYPE and CL_DEVICE_NOT_FOUND as for clGetDeviceIDs.
        let found = device_types::among(registry::devices_of(&server), device_type);
        let all: Vec<_> = found.iter().flatten().map(Handle::raw).collect();
        // SAFETY: the caller's promise.
        unsafe { enumerate(&all, num_entries, devices, num_devices) };
        found
    })
}

/// clSetServerCallbackROPEWAY.
pub unsafe extern "C" fn clSetServerCallbackROPEWAY(
    platform: cl_platform_id,
    events: cl_server_events_ropeway,
    pfn_notify: Option<Notify>,
    user_data: *mut c_void,
) -> cl_int {
    guard::status("clSetServerCallbackROPEWAY", || {
        let system = system(platform)?;
        let known = CL_SERVER_EVENT_LOST_ROPEWAY | CL_SERVER_EVENT_FOUND_ROPEWAY | CL_SERVER_EVENT_NOTICE_ROPEWAY;
        let changes = Changes {
            lost: events & CL_SERVER_EVENT_LOST_ROPEWAY != 0,
            found: events & CL_SERVER_EVENT_FOUND_ROPEWAY != 0,
            notice: events & CL_SERVER_EVENT_NOTICE_ROPEWAY != 0,
        };
        // CL_INVALID_VALUE if events has other bits than those, or if it is 0 and pfn_notify is not NULL, or not 0 and
        // pfn_notify is NULL, or if pfn_notify is NULL but user_data is not.
        if events & !known != 0 || (events == 0) != pfn_notify.is_none() || pfn_notify.is_none() && !user_data.is_null()
        {
            return Err(CL_INVALID_VALUE);
        }
        system.watch(pfn_notify.map(|notify| listener(notify, user_data)), changes);
        Ok(())
    })
}

fn listener(notify: Notify, user_data: *mut c_void) -> Listener {
    let callback = Callback::new(notify, user_data);
    Arc::new(move |client: &Arc<servers::Server>, change| {
        registry::platforms();
        let Some(server) = registry::server(client) else { return };
        let event = match change {
            Change::Lost => CL_SERVER_EVENT_LOST_ROPEWAY,
            Change::Found => CL_SERVER_EVENT_FOUND_ROPEWAY,
            Change::Notice => CL_SERVER_EVENT_NOTICE_ROPEWAY,
        };
        let (notify, user_data) = callback.parts();
        // SAFETY: the application gave this function and argument for this.
        unsafe { notify(server.raw(), event, user_data) };
    })
}

//! Queries of servers, and of devices about their servers.

use std::ffi::c_void;

use ropeway_abi::ropeway::*;
use ropeway_abi::{CL_INVALID_VALUE, cl_device_info, cl_int, cl_uint, cl_ulong};
use ropeway_client::device::host_timer;
use ropeway_client::link::Connection;
use ropeway_client::servers::State;

use crate::handle::Handle;
use crate::info::{Answered, Info};
use crate::objects::{Device, Server};
use crate::{guard, registry};

/// Queries that servers and their devices have in common.
#[derive(Clone, Copy)]
pub enum Asked {
    Address,
    /// The server's network address alone; the URL where it has none.
    Ip,
    Port,
    HostName,
    BytesSent,
    BytesReceived,
    /// The time and both counts, each twice.
    Traffic,
    /// The server itself, of a device.
    Server,
}

impl Asked {
    /// The query of a server that a query of its device stands for.
    pub fn of_device(name: cl_device_info) -> Option<Self> {
        Some(match name {
            CL_DEVICE_SERVER_ADDRESS_ROPEWAY => Self::Address,
            CL_DEVICE_REMOTE_SERVER_IP_POCL => Self::Ip,
            CL_DEVICE_SERVER_PORT_ROPEWAY | CL_DEVICE_REMOTE_SERVER_PORT_POCL => Self::Port,
            CL_DEVICE_SERVER_HOST_NAME_ROPEWAY => Self::HostName,
            CL_DEVICE_SERVER_BYTES_SENT_ROPEWAY => Self::BytesSent,
            CL_DEVICE_SERVER_BYTES_RECEIVED_ROPEWAY => Self::BytesReceived,
            CL_DEVICE_REMOTE_TRAFFIC_STATS_POCL => Self::Traffic,
            CL_DEVICE_SERVER_ROPEWAY => Self::Server,
            _ => return None,
        })
    }

    fn of_server(name: cl_server_info_ropeway) -> Option<Self> {
        Some(match name {
            CL_SERVER_ADDRESS_ROPEWAY => Self::Address,
            CL_SERVER_PORT_ROPEWAY => Self::Port,
            CL_SERVER_HOST_NAME_ROPEWAY => Self::HostName,
            CL_SERVER_BYTES_SENT_ROPEWAY => Self::BytesSent,
            CL_SERVER_BYTES_RECEIVED_ROPEWAY => Self::BytesReceived,
            _ => return None,
        })
    }

    fn answer(self, connection: &std::sync::Arc<Connection>, info: Info) -> Result<Answered, cl_int> {
        match self {
            Self::Address => info.string(&connection.configured().to_string()),
            Self::Ip => match connection.peer_address() {
                Some(address) => info.string(&address.ip().to_string()),
                None => info.string(&connection.configured().to_string()),
            },
            Self::Port => info.value(cl_uint::from(connection.endpoint().port())),
            Self::HostName => info.string(&connection.welcome().host.replace('\0', " ")),
            Self::BytesSent => info.value(connection.traffic().0),
            Self::BytesReceived => info.value(connection.traffic().1),
            Self::Traffic => {
                const SECOND: u64 = 1_000_000_000;
                let (now, (sent, received)) = (host_timer(), connection.traffic());
                // A read or a write is counted when it is complete.
                info.slice(&[now / SECOND, now % SECOND, received, received, sent, sent])
            }
            Self::Server => {
                let server = registry::server_of(connection);
                info.value(server.map_or(std::ptr::null_mut(), |server| server.raw()))
            }
        }
    }
}

/// Answers a query of a device about its server.
pub fn answer_of_device(device: &Device, asked: Asked, info: Info) -> Result<Answered, cl_int> {
    asked.answer(device.client.connection(), info)
}

/// clGetServerInfoROPEWAY.
pub unsafe extern "C" fn clGetServerInfoROPEWAY(
    server: cl_server_ropeway,
    name: cl_server_info_ropeway,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    // SAFETY: the caller's promise.
    let info = unsafe { Info::new(size, value, size_ret) };
    // CL_INVALID_SERVER_ROPEWAY if server is not a valid server.
    guard::status("clGetServerInfoROPEWAY", || answer(&*Handle::find(server)?, name, info))
}

pub(super) fn answer(server: &Server, name: cl_server_info_ropeway, info: Info) -> Result<Answered, cl_int> {
    let connection = server.client.connection();
    if let Some(asked) = Asked::of_server(name) {
        return asked.answer(connection, info);
    }
    match name {
        CL_SERVER_STATE_ROPEWAY => info.value(match server.client.state() {
            State::Connected => CL_SERVER_STATE_CONNECTED_ROPEWAY,
            State::Lost => CL_SERVER_STATE_LOST_ROPEWAY,
            State::Disconnected => CL_SERVER_STATE_DISCONNECTED_ROPEWAY,
        }),
        CL_SERVER_TIME_LEFT_ROPEWAY => {
            let left = registry::system().and_then(|system| system.time_left(&server.client));
            info.value(left.map_or(cl_ulong::MAX, |left| left.as_millis() as cl_ulong))
        }
        CL_SERVER_RELEASE_ROPEWAY => info.string(&connection.welcome().release.replace('\0', " ")),
        CL_SERVER_PLATFORMS_ROPEWAY => {
            let mut platforms: Vec<_> =
                registry::devices_of(server).iter().map(|device| device.platform.get()).collect();
            platforms.dedup();
            info.slice(&platforms)
        }
        CL_SERVER_DEVICES_ROPEWAY => {
            let devices: Vec<_> = registry::devices_of(server).iter().map(Handle::raw).collect();
            info.slice(&devices)
        }
        // CL_INVALID_VALUE if param_name is not one of the supported values.
        _ => Err(CL_INVALID_VALUE),
    }
}

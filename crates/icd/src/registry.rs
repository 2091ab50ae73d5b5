//! The platforms and servers of this process. Both lists only grow, and their handles live as long as the process.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ropeway_client::config::Config;
use ropeway_client::link::Connection;
use ropeway_client::log::set_level;
use ropeway_client::servers::System;
use ropeway_client::{servers, warning};

use crate::fork;
use crate::guard;
use crate::handle::Handle;
use crate::objects::{Device, Platform, Server};

/// The handles made so far, in the order of the client's lists.
#[derive(Default)]
struct Handles {
    platforms: Vec<Handle<Platform>>,
    servers: Vec<Handle<Server>>,
}

static HANDLES: Mutex<Handles> = Mutex::new(Handles { platforms: Vec::new(), servers: Vec::new() });

/// All servers, found on first use. None in a server's worker, which sees the native platforms of its machine through
/// the same loader.
pub fn system() -> Option<&'static Arc<System>> {
    static SYSTEM: OnceLock<Option<Arc<System>>> = OnceLock::new();
    let system = SYSTEM.get_or_init(|| {
        if std::env::var_os("ROPEWAY_WORKER").is_some() {
            return None;
        }
        guard::arm();
        fork::prepare();
        let config = Config::load();
        set_level(config.log);
        for problem in &config.problems {
            warning!("{problem}");
        }
        Some(System::connect(&config))
    });
    system.as_ref()
}

/// The platforms.
pub fn platforms() -> Vec<Handle<Platform>> {
    let Some(system) = system() else { return Vec::new() };
    let all = system.platforms();
    let mut handles = HANDLES.lock().unwrap_or_else(PoisonError::into_inner);
    for client in all.iter().skip(handles.platforms.len()) {
        // One made later has to look to the loader like those that it knows.
        let Ok(platform) = Platform::make(client, handles.platforms.first()) else { break };
        handles.platforms.push(platform);
    }
    handles.platforms.clone()
}

/// The servers, those that are gone among them.
pub fn servers() -> Vec<Handle<Server>> {
    let Some(system) = system() else { return Vec::new() };
    let all = system.servers();
    let mut handles = HANDLES.lock().unwrap_or_else(PoisonError::into_inner);
    for client in all.iter().skip(handles.servers.len()) {
        let Ok(server) = Handle::root(Server { client: Arc::clone(client) }) else { break };
        handles.servers.push(server);
    }
    handles.servers.clone()
}

/// The handle of a server.
pub fn server(client: &Arc<servers::Server>) -> Option<Handle<Server>> {
    servers().into_iter().find(|server| Arc::ptr_eq(&server.client, client))
}

/// The server that a connection leads to.
pub fn server_of(connection: &Arc<Connection>) -> Option<Handle<Server>> {
    servers().into_iter().find(|server| Arc::ptr_eq(server.client.connection(), connection))
}

/// A server's devices, also when it is gone.
pub fn devices_of(server: &Server) -> Vec<Handle<Device>> {
    let ours = |device: &Handle<Device>| Arc::ptr_eq(device.client.connection(), server.client.connection());
    platforms().iter().flat_map(|platform| platform.all_devices()).filter(ours).collect()
}

//! Connections in models: shuttle draws at each operation on a lock, an atomic or the link which thread goes on, and
//! thus runs each test in thousands of interleavings (`make model`).
//!
//! All is as it is in the library, but for the [`link`], which has no socket, and for the background I/O thread, which
//! there is none of: a thread that waits has to get on by itself. Time stands still, so that no timeout helps where a
//! wake-up is lost: shuttle then finds that no thread can go on.

mod in_flight;
pub(super) mod link;
mod reading;
mod server;
mod transfers;

use std::sync::Arc;

use ropeway_protocol::handshake::Welcome;
use ropeway_protocol::ids::SessionId;
use ropeway_transport::Endpoint;

use self::link::Link;
use self::server::Server;
use super::channel::Channel;
use super::connection::Connection;
use crate::base::log;
use crate::base::modelled::thread::{self, JoinHandle};

/// Runs a test in many interleavings.
fn check(test: impl Fn() + Send + Sync + 'static) {
    log::set_level(log::Level::Off);
    ropeway_model::check(test);
}

/// Connects to a server whose session is `serve`.
fn connect<R: Send + 'static>(serve: impl FnOnce(Server) -> R + Send + 'static) -> (Arc<Connection>, JoinHandle<R>) {
    let (near, far) = Link::pair();
    let welcome = Welcome {
        features: 0,
        session: SessionId(1),
        release: String::new(),
        host: String::new(),
        little_endian: true,
        peer_address: None,
        peer_key: None,
        lanes_secret: [0; 32],
        platforms: Vec::new(),
    };
    let connection = Connection::new(Channel::new(near), Endpoint::Local, None, welcome);
    (Arc::new(connection.expect("there is an event descriptor")), thread::spawn(move || serve(Server::new(far))))
}

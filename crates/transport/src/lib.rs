//! Byte links between clients and servers: TCP and Unix sockets today. No messages.
//!
//! [`Endpoint`] says where a server is, [`Link`] is one connected stream, [`Listener`] waits for links.
#![forbid(unsafe_code)]

mod endpoint;
mod link;
mod listener;

pub use endpoint::{DEFAULT_PORT, Endpoint, ParseEndpointError};
pub use link::{Link, Sender};
pub use listener::Listener;

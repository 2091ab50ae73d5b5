//! The stream of bytes under a channel: a link of the transport or, in a model, one without a socket.

#[cfg(not(all(test, feature = "model")))]
pub(super) use ropeway_transport::Link;

#[cfg(all(test, feature = "model"))]
pub(super) use super::model::link::Link;

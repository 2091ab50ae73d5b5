//! Kubelet's plug-ins: their protocols, and a server of them.

pub mod messages;
pub mod server;

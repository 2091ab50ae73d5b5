//! Ropeway's driver for Kubernetes: Dynamic Resource Allocation (`resource.k8s.io/v1`) of a broker's devices.
//!
//! | where | what |
//! |---|---|
//! | [`api`] | the cluster's API server, and the objects that the driver reads and writes there |
//! | [`names`] | how the cluster names a broker's devices |
//! | `rack` | what the broker has, and the leases on it |
//! | `slices` | what the cluster is told of the devices |
//! | [`controller`] | keeps the cluster's ResourceSlices as the broker's pool is: one for each cluster |
//! | [`kubelet`] | the messages of kubelet's plug-ins, and their server |
//! | [`node`] | gets a lease when kubelet prepares a claim, and keeps it: one on each node |
#![forbid(unsafe_code)]

pub mod api;
pub mod controller;
pub mod kubelet;
pub mod names;
pub mod node;
mod objects;
mod rack;
mod slices;

use std::fmt;
use std::io::{self, ErrorKind};

use ropeway_transport::Endpoint;

/// The name of the driver, where no other is given.
pub const DRIVER: &str = "ropeway.io";

/// Which devices of which broker, by which names.
#[derive(Clone, Debug)]
pub struct Driver {
    /// The broker, or those of a pool, with their tickets.
    pub brokers: Vec<Endpoint>,
    /// The driver's name in the cluster: a name of the DNS.
    pub name: String,
    /// The name of the broker's pool in the cluster.
    pub pool: String,
}

/// What came of removing something, which is as good where it was not there.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Why something cannot be done: one sentence for a person.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DraError(String);

impl DraError {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    fn from_error(error: impl std::error::Error) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for DraError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DraError {}

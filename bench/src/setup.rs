//! The equipment of a run.

use std::path::PathBuf;

use ropeway_transport::Endpoint;

use crate::process::{Folder, Side};
use crate::server::Server;

/// All that a run needs.
pub struct Bench {
    /// Native OpenCL.
    pub native: Side,
    /// OpenCL through Ropeway.
    pub remote: Side,
    /// An OpenCL loader that finds nothing.
    pub without: Side,
    /// The program `ropeway`.
    pub ropeway: PathBuf,
    /// Ropeway's client library.
    pub library: PathBuf,
    /// The server of this run; `None` if the run uses a server that it did not start.
    pub server: Option<Server>,
    /// Where clients find the server.
    pub url: String,
    /// The far end of the raw link, where this run has not started it.
    pub far: Option<Endpoint>,
    /// The folder for the run's files.
    pub folder: Folder,
    /// How many servers the figures across devices have, if it is not one for each device.
    pub servers: Option<usize>,
    /// Fewer rounds.
    pub quick: bool,
    /// A text that the names of the measured rows must contain.
    pub only: String,
}

impl Bench {
    /// Returns how often to measure something that is measured `usual` times in a full run.
    pub fn rounds(&self, usual: usize) -> usize {
        if self.quick { usual.min(3) } else { usual }
    }
}

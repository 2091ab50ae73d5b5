//! What a run has to measure with.

use std::path::PathBuf;

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
    /// The server of this run; `None` where it is somebody else's.
    pub server: Option<Server>,
    /// Where what the run needs lies.
    pub folder: Folder,
    /// Fewer rounds.
    pub quick: bool,
    /// Only rows whose name contains this.
    pub only: String,
}

impl Bench {
    /// How often something is measured that is usually measured so often.
    pub fn rounds(&self, usual: usize) -> usize {
        if self.quick { usual.min(3) } else { usual }
    }
}

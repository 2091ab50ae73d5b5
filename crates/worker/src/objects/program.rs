//! Programs.

use std::sync::{Arc, Mutex};

use ropeway_protocol::types::{ArgKind, Status};
use rustc_hash::FxHashMap;

use super::context::Context;
use crate::native;

/// A program. Its lock is held while it is built.
pub struct Program {
    /// Its context.
    pub context: Arc<Context>,
    /// The program's state.
    pub state: Mutex<ProgramState>,
}

/// The state of a program.
#[derive(Default)]
pub struct ProgramState {
    /// The native program, once its contents have arrived.
    pub native: Option<Result<native::Program, Status>>,
    /// The content hash of its source.
    pub source: Option<ropeway_protocol::content::ContentHash>,
    /// The hashes of the texts that it was made of, sources or binaries; for a linked program, those of its inputs.
    pub texts: Vec<ropeway_protocol::content::ContentHash>,
    /// Possible names of its kernels, if the driver must not be asked for them ([`crate::programs::names`]).
    pub names: Option<Arc<[String]>>,
    /// The kinds of each kernel's arguments.
    pub kernels: FxHashMap<String, Arc<[ArgKind]>>,
}

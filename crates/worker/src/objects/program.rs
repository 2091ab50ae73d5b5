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
    /// What becomes of it.
    pub state: Mutex<ProgramState>,
}

/// What has become of a program so far.
#[derive(Default)]
pub struct ProgramState {
    /// The native program, once its contents were there.
    pub native: Option<Result<native::Program, Status>>,
    /// Its source, by name.
    pub source: Option<ropeway_protocol::content::ContentHash>,
    /// The texts that it was made of, sources or binaries, by name; those of its inputs, where it was linked.
    pub texts: Vec<ropeway_protocol::content::ContentHash>,
    /// What its kernels may be called, where the driver must not be asked ([`crate::programs::names`]).
    pub names: Option<Arc<[String]>>,
    /// What the arguments of each kernel take.
    pub kernels: FxHashMap<String, Arc<[ArgKind]>>,
}

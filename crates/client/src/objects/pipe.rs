//! Pipes: memory objects whose packets only kernels reach.

use std::sync::Arc;

use ropeway_protocol::messages::CreatePipe;

pub use super::kind::Pipe;
use crate::base::status::Result;
use crate::objects::context::Context;
use crate::objects::home::Home;
use crate::objects::kind::Kind;
use crate::objects::memory::{Description, Memory};

impl Memory {
    /// Makes a pipe (clCreatePipe).
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn pipe(context: &Arc<Context>, flags: u64, pipe: Pipe) -> Result<Arc<Self>> {
        let size = (pipe.packet_size as usize).saturating_mul(pipe.max_packets as usize);
        Self::new(context, Description { flags, size, kind: Kind::Pipe(pipe), parent: None, host: None }, None)
    }

    /// Makes the pipe in the first home that uses it, where it stays: its packets can be reached only there.
    pub(crate) fn create_pipe(&self, home: &Home, pipe: Pipe) -> Result<()> {
        let Pipe { packet_size, max_packets } = pipe;
        let (memory, context, flags) = (self.id(home), home.context(), self.flags());
        home.connection().post(&CreatePipe { memory, context, flags, packet_size, max_packets })
    }

    /// The pipe that it is, if it is one.
    pub fn as_pipe(&self) -> Option<&Pipe> {
        match self.kind() {
            Kind::Pipe(pipe) => Some(pipe),
            _ => None,
        }
    }
}

//! Pipes: memory objects whose packets only kernels reach.

use std::sync::Arc;

use ropeway_protocol::ids::MemoryId;
use ropeway_protocol::messages::CreatePipe;

use crate::Result;
use crate::context::Context;
use crate::memory::{Description, Kind, Memory};

/// What a pipe is, beside what all memory objects are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pipe {
    /// CL_PIPE_PACKET_SIZE, in bytes.
    pub packet_size: u32,
    /// CL_PIPE_MAX_PACKETS.
    pub max_packets: u32,
}

impl Memory {
    /// Makes a pipe (clCreatePipe).
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn pipe(context: &Arc<Context>, flags: u64, pipe: Pipe) -> Result<Arc<Self>> {
        let memory = MemoryId(context.connection().new_id());
        let Pipe { packet_size, max_packets } = pipe;
        context.connection().post(&CreatePipe { memory, context: context.id(), flags, packet_size, max_packets })?;
        let size = (packet_size as usize).saturating_mul(max_packets as usize);
        Ok(Self::made(memory, context, Description { flags, size, kind: Kind::Pipe(pipe), parent: None, host: None }))
    }

    /// The pipe that it is, if it is one.
    pub fn as_pipe(&self) -> Option<&Pipe> {
        match self.kind() {
            Kind::Pipe(pipe) => Some(pipe),
            _ => None,
        }
    }
}

//! Pipes.

use std::sync::Arc;

use ropeway_abi as cl;
use ropeway_protocol::messages::CreatePipe;

use crate::base::error::End;
use crate::native;
use crate::objects::{Memory, MemoryKind};
use crate::session::Session;

/// The flags that a pipe can have.
const FLAGS: u64 = cl::CL_MEM_READ_WRITE | cl::CL_MEM_HOST_NO_ACCESS;

impl Session {
    pub(super) fn create_pipe(&mut self, m: CreatePipe) -> Result<(), End> {
        let context = self.context(m.context)?.clone();
        let bytes = u64::from(m.packet_size) * u64::from(m.max_packets);
        let mut make = || {
            let native = context.native.as_ref().map_err(|status| *status)?;
            // Implementations without pipes need not have the function, either.
            if !context.devices.iter().any(|(_, device)| device.has_pipes()) {
                return Err(cl::CL_INVALID_OPERATION);
            }
            self.allow_memory(bytes)?;
            native::Memory::pipe(native, m.flags & FLAGS, m.packet_size, m.max_packets).map(Arc::new)
        };
        let native = make();
        let charged = if native.is_ok() { bytes } else { 0 };
        self.claim_memory(m.memory, Arc::new(Memory { native, context, kind: MemoryKind::Pipe, charged }))
    }
}

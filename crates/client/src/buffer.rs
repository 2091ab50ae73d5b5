//! Buffers.

use std::sync::Arc;

use ropeway_protocol::ids::{MemoryId, TransferId};
use ropeway_protocol::limits::MAX_EAGER;
use ropeway_protocol::messages::CreateBuffer;
use ropeway_protocol::types::InitialContents;

use crate::Result;
use crate::context::Context;
use crate::host::HostRange;
use crate::memory::{Description, HOST_FLAGS, Kind, Memory};

impl Memory {
    /// Makes a buffer of `size` bytes. `contents`, of the same length, are sent before this returns (CL_MEM_COPY_HOST_PTR,
    /// CL_MEM_USE_HOST_PTR); `host` is where it will be mapped (CL_MEM_USE_HOST_PTR).
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn buffer(
        context: &Arc<Context>,
        flags: u64,
        size: usize,
        contents: Option<&[u8]>,
        host: Option<Arc<dyn HostRange>>,
    ) -> Result<Arc<Self>> {
        let connection = context.connection();
        let id = MemoryId(connection.new_id());
        let transfer = TransferId(connection.new_id());
        let (initial, tail, long) = match contents {
            None => (InitialContents::Undefined, &[][..], &[][..]),
            Some(bytes) if bytes.len() <= MAX_EAGER => (InitialContents::Tail, bytes, &[][..]),
            Some(bytes) => (InitialContents::Transfer(transfer), &[][..], bytes),
        };
        let create =
            CreateBuffer { buffer: id, context: context.id(), flags: flags & !HOST_FLAGS, size: size as u64, initial };
        connection.post_with_tail(&create, tail)?;
        connection.send_transfer(transfer, long)?;
        Ok(Self::made(id, context, Description { flags, size, kind: Kind::Buffer, parent: None, host }))
    }
}

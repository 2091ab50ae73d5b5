//! Buffers.

use std::sync::Arc;

use ropeway_protocol::ids::{MemoryId, TransferId};
use ropeway_protocol::limits::MAX_EAGER;
use ropeway_protocol::messages::{CreateBuffer, CreateSubBuffer, CreateSvmBuffer};
use ropeway_protocol::types::InitialContents;

use crate::Result;
use crate::context::Context;
use crate::host::HostRange;
use crate::memory::{Description, HOST_FLAGS, Kind, Memory};
use crate::svm::Region;

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
        connection.send_transfer(transfer, &long)?;
        Ok(Self::made(id, context, Description { flags, size, kind: Kind::Buffer, parent: None, host }))
    }

    /// Makes a sub-buffer: `size` bytes from `origin` on of `parent`, a buffer.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn sub_buffer(parent: &Arc<Self>, flags: u64, origin: usize, size: usize) -> Result<Arc<Self>> {
        let context = parent.context();
        let id = MemoryId(context.connection().new_id());
        context.connection().post(&CreateSubBuffer {
            memory: id,
            parent: parent.id(),
            flags: flags & !HOST_FLAGS,
            origin: origin as u64,
            size: size as u64,
        })?;
        let (kind, parent) = (Kind::SubBuffer { origin }, Some(Arc::clone(parent)));
        Ok(Self::made(id, context, Description { flags, size, kind, parent, host: None }))
    }

    /// What the server has allocated as shared virtual memory.
    pub(crate) fn of_svm(context: &Arc<Context>, id: MemoryId, flags: u64, size: usize) -> Arc<Self> {
        Self::made(id, context, Description { flags, size, kind: Kind::Buffer, parent: None, host: None })
    }

    /// A buffer of `size` bytes whose storage is `region` (clCreateBuffer with CL_MEM_USE_HOST_PTR).
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn over_svm(region: &Region, flags: u64, size: usize) -> Result<Arc<Self>> {
        let svm = region.memory();
        let (context, connection) = (svm.context(), svm.context().connection());
        let memory = MemoryId(connection.new_id());
        connection.post(&CreateSvmBuffer {
            memory,
            svm: svm.id(),
            flags: flags & !HOST_FLAGS,
            offset: region.offset() as u64,
            size: size as u64,
        })?;
        let host = Some(region.host());
        Ok(Self::made(memory, context, Description { flags, size, kind: Kind::Buffer, parent: None, host }))
    }
}

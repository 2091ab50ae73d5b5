//! Buffers.

use std::sync::{Arc, Mutex};

use ropeway_abi::{CL_MEM_ALLOC_HOST_PTR, CL_MEM_COPY_HOST_PTR, CL_MEM_USE_HOST_PTR};
use ropeway_protocol::ids::{BufferId, TransferId};
use ropeway_protocol::limits::MAX_EAGER;
use ropeway_protocol::messages::{CreateBuffer, ReleaseBuffer};
use ropeway_protocol::types::InitialContents;

use crate::Result;
use crate::connection::{Connection, lock, run_later};
use crate::context::Context;
use crate::mapping::Mappings;
use crate::memory::HostRange;

/// Flags about the application's memory: the server's buffer is an ordinary one.
const HOST_FLAGS: u64 = CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR | CL_MEM_ALLOC_HOST_PTR;

/// A buffer.
pub struct Buffer {
    id: BufferId,
    context: Arc<Context>,
    flags: u64,
    size: usize,
    pub(crate) mappings: Mappings,
    on_destruction: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.id)
    }
}

impl Buffer {
    /// Makes a buffer of `size` bytes. `contents`, of the same length, are sent before this returns (CL_MEM_COPY_HOST_PTR,
    /// CL_MEM_USE_HOST_PTR); `host` is where it will be mapped (CL_MEM_USE_HOST_PTR).
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn new(
        context: &Arc<Context>,
        flags: u64,
        size: usize,
        contents: Option<&[u8]>,
        host: Option<Arc<dyn HostRange>>,
    ) -> Result<Arc<Self>> {
        let connection = context.connection();
        let id = BufferId(connection.new_id());
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
        Ok(Arc::new(Self {
            id,
            context: Arc::clone(context),
            flags,
            size,
            mappings: Mappings::new(host),
            on_destruction: Mutex::default(),
        }))
    }

    /// Its context.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// CL_MEM_FLAGS, as the application gave them.
    pub fn flags(&self) -> u64 {
        self.flags
    }

    /// CL_MEM_SIZE, in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    pub(crate) fn id(&self) -> BufferId {
        self.id
    }

    pub(crate) fn connection(&self) -> &Arc<Connection> {
        self.context.connection()
    }

    /// Calls `callback` when the buffer is no more; the last one registered comes first (clSetMemObjectDestructorCallback).
    pub fn on_destruction(&self, callback: Box<dyn FnOnce() + Send>) {
        lock(&self.on_destruction).push(callback);
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // A lost server has dropped it already.
        let _ = self.connection().post(&ReleaseBuffer { buffer: self.id });
        for callback in std::mem::take(&mut *lock(&self.on_destruction)).into_iter().rev() {
            run_later(callback);
        }
    }
}

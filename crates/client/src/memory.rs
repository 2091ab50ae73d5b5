//! Memory objects: what buffers, sub-buffers, images and pipes have in common.

use std::sync::{Arc, Mutex};

use ropeway_abi::{CL_MEM_ALLOC_HOST_PTR, CL_MEM_COPY_HOST_PTR, CL_MEM_USE_HOST_PTR};
use ropeway_protocol::ids::MemoryId;
use ropeway_protocol::messages::ReleaseMemory;

use crate::connection::{Connection, lock, run_later};
use crate::context::Context;
use crate::host::HostRange;
use crate::image::Image;
use crate::mapping::Mappings;
use crate::pipe::Pipe;

/// Flags about the application's memory: at the server the object is an ordinary one.
pub(crate) const HOST_FLAGS: u64 = CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR | CL_MEM_ALLOC_HOST_PTR;

/// A memory object.
pub struct Memory {
    id: MemoryId,
    context: Arc<Context>,
    flags: u64,
    size: usize,
    kind: Kind,
    parent: Option<Arc<Memory>>,
    pub(crate) mappings: Mappings,
    on_destruction: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
}

/// What a memory object is.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A buffer.
    Buffer,
    /// An image.
    Image(Image),
    /// A pipe.
    Pipe(Pipe),
    /// Part of its parent, a buffer.
    SubBuffer {
        /// Where it begins there, in bytes.
        origin: usize,
    },
}

/// How a new memory object is described; see the methods of [`Memory`] of the same names.
pub(crate) struct Description {
    pub flags: u64,
    pub size: usize,
    pub kind: Kind,
    pub parent: Option<Arc<Memory>>,
    /// Where it is mapped, if that is given (CL_MEM_USE_HOST_PTR).
    pub host: Option<Arc<dyn HostRange>>,
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.id)
    }
}

impl Memory {
    /// The client's side of an object that the server has been told to make under this name.
    pub(crate) fn made(id: MemoryId, context: &Arc<Context>, description: Description) -> Arc<Self> {
        let Description { flags, size, kind, parent, host } = description;
        Arc::new(Self {
            id,
            context: Arc::clone(context),
            flags,
            size,
            kind,
            parent,
            mappings: Mappings::new(host),
            on_destruction: Mutex::default(),
        })
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

    /// What it is.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The object whose memory it uses (CL_MEM_ASSOCIATED_MEMOBJECT).
    pub fn parent(&self) -> Option<&Arc<Memory>> {
        self.parent.as_ref()
    }

    /// Whether functions that take buffers take it.
    pub fn is_buffer(&self) -> bool {
        matches!(self.kind, Kind::Buffer | Kind::SubBuffer { .. })
    }

    /// CL_MEM_OFFSET: where it begins in the buffer that it is part of, in bytes.
    pub fn offset(&self) -> usize {
        if let Kind::SubBuffer { origin } = self.kind { origin } else { 0 }
    }

    /// The same for all objects that share their memory: a buffer and its sub-buffers.
    pub fn storage_id(&self) -> u64 {
        self.parent.as_ref().map_or(self.id.0, |parent| parent.storage_id())
    }

    pub(crate) fn id(&self) -> MemoryId {
        self.id
    }

    pub(crate) fn connection(&self) -> &Arc<Connection> {
        self.context.connection()
    }

    /// Calls `callback` when the object is no more; the last one registered comes first (clSetMemObjectDestructorCallback).
    pub fn on_destruction(&self, callback: Box<dyn FnOnce() + Send>) {
        lock(&self.on_destruction).push(callback);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // A lost server has dropped it already.
        let _ = self.connection().post(&ReleaseMemory { memory: self.id });
        for callback in std::mem::take(&mut *lock(&self.on_destruction)).into_iter().rev() {
            run_later(callback);
        }
    }
}

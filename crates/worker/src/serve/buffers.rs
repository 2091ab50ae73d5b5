//! Buffers: making them, copying between them, filling them.

use std::sync::Arc;

use ropeway_abi as cl;
use ropeway_protocol::limits::MAX_EAGER;
use ropeway_protocol::messages::{
    CopyBuffer, CopyBufferRect, CreateBuffer, CreateSubBuffer, FillBuffer, LocateBuffer, MigrateMemory, ReleaseMemory,
};
use ropeway_protocol::types::InitialContents;
use ropeway_protocol::{CallId, Tail};

use crate::base::error::End;
use crate::base::error::unknown;
use crate::native;
use crate::objects::{Memory, MemoryKind};
use crate::session::Session;
use crate::session::job::Job;

/// Flags of a buffer that concern the device; the client handles those about the host.
pub(super) const DEVICE_FLAGS: u64 = cl::CL_MEM_READ_WRITE | cl::CL_MEM_WRITE_ONLY | cl::CL_MEM_READ_ONLY;

impl Session {
    pub(super) fn create_buffer(&mut self, m: CreateBuffer, tail: &mut dyn Tail) -> Result<(), End> {
        let context = self.context(m.context)?.clone();
        let contents = match m.initial {
            InitialContents::Tail if tail.remaining() > MAX_EAGER || tail.remaining() as u64 != m.size => {
                return Err(End::refused(format_args!("first contents of {} that are not as long as it", m.buffer)));
            }
            InitialContents::Tail => Some(tail.read_to_vec()?),
            _ => None,
        };
        let native = context.native.as_ref().map_err(|status| *status).and_then(|native| {
            self.allow_memory(m.size)?;
            let (flags, contents) = (m.flags & DEVICE_FLAGS, contents.as_deref());
            let storage = self.common.shared.as_ref();
            let storage = storage.filter(|_| context.in_place);
            let shared =
                storage.and_then(|storage| native::Memory::shared(native, flags, m.size, contents, storage).ok());
            shared.map_or_else(|| native::Memory::buffer(native, flags, m.size, contents), Ok)
        });
        let charged = if native.is_ok() { m.size } else { 0 };
        let (native, kind) = (native.map(Arc::new), MemoryKind::Buffer(m.size));
        let buffer = Arc::new(Memory { native, context, kind, charged });
        self.claim_memory(m.buffer, buffer.clone())?;
        match m.initial {
            InitialContents::Transfer(transfer) => self.await_contents(m.buffer, &buffer, transfer),
            _ => Ok(()),
        }
    }

    pub(super) fn locate_buffer(&mut self, m: LocateBuffer, call: CallId<u64>) -> Result<(), End> {
        let memory = self.memory(m.buffer)?;
        let place =
            memory.native.as_ref().ok().and_then(|native| native.place_in(self.common.client.outgoing.arena()?));
        self.job = Some(Job::Answer(place.ok_or(cl::CL_INVALID_OPERATION), call));
        Ok(())
    }

    pub(super) fn release_memory(&mut self, m: ReleaseMemory) -> Result<(), End> {
        let memory = self.memory.remove(&m.memory).ok_or_else(|| unknown(m.memory))?;
        let (native, charged) = (memory.native.as_ref().ok().map(Arc::downgrade), memory.charged);
        self.free_svm_late(&memory);
        drop(memory);
        match native.filter(|native| native.strong_count() > 0) {
            // The memory counts against the quota until its last user, such as a sub-buffer, is gone.
            Some(native) => self.lingering.push((native, charged)),
            None => {
                self.memory_bytes = self.memory_bytes.saturating_sub(charged);
                self.common.limits.has_memory(self.memory_bytes);
            }
        }
        Ok(())
    }

    pub(super) fn create_sub_buffer(&mut self, m: CreateSubBuffer) -> Result<(), End> {
        let parent = self.buffer_range(m.parent, m.origin, m.size)?;
        let make = || {
            let native = parent.native.as_ref().map_err(|status| *status)?;
            self.allow_object()?;
            native::Memory::sub_buffer(native, m.flags & DEVICE_FLAGS, m.origin, m.size)
        };
        // A sub-buffer shares its parent's bytes, which count already.
        let (native, kind) = (make().map(Arc::new), MemoryKind::Buffer(m.size));
        self.claim_memory(m.memory, Arc::new(Memory { native, context: parent.context.clone(), kind, charged: 0 }))
    }

    pub(super) fn migrate_memory(&mut self, m: MigrateMemory) -> Result<(), End> {
        let total = self.objects();
        let memory = m.memory.iter().map(|id| self.memory(*id).cloned()).collect::<Result<Vec<_>, _>>()?;
        self.queue_states.enqueue(total, &m.command, |queue_state, waits, event| {
            Ok(queue_state.native().and_then(|queue| {
                let natives = memory.iter().map(|memory| memory.native.as_deref().map_err(|status| *status));
                let natives = natives.collect::<Result<Vec<_>, _>>()?;
                queue.migrate(queue_state.queue.device, &natives, m.flags, waits, event)
            }))
        })
    }

    pub(super) fn copy_buffer(&mut self, m: CopyBuffer) -> Result<(), End> {
        let total = self.objects();
        let source = self.buffer_range(m.source, m.source_offset, m.size)?;
        let target = self.buffer_range(m.target, m.target_offset, m.size)?;
        self.queue_states.enqueue(total, &m.command, |queue_state, waits, event| {
            Ok(queue_state.native().and_then(|queue| {
                let source = source.native.as_ref().map_err(|status| *status)?;
                let target = target.native.as_ref().map_err(|status| *status)?;
                queue.copy((source, m.source_offset), (target, m.target_offset), m.size, waits, event)
            }))
        })
    }

    pub(super) fn fill_buffer(&mut self, m: FillBuffer<'_>) -> Result<(), End> {
        let total = self.objects();
        let buffer = self.buffer_range(m.buffer, m.offset, m.size)?;
        self.queue_states.enqueue(total, &m.command, |queue_state, waits, event| {
            Ok(queue_state.native().and_then(|queue| {
                let buffer = buffer.native.as_ref().map_err(|status| *status)?;
                queue.fill(buffer, m.pattern, (m.offset, m.size), waits, event)
            }))
        })
    }

    pub(super) fn copy_buffer_rect(&mut self, m: CopyBufferRect) -> Result<(), End> {
        let total = self.objects();
        let (source, _) = self.buffer_rect(m.source, m.source_rect)?;
        let (target, _) = self.buffer_rect(m.target, m.target_rect)?;
        if m.source_rect.region != m.target_rect.region {
            return Err(End::refused("a copy between regions of different sizes"));
        }
        self.queue_states.enqueue(total, &m.command, |queue_state, waits, event| {
            Ok(queue_state.native().and_then(|queue| {
                let source = source.native.as_ref().map_err(|status| *status)?;
                let target = target.native.as_ref().map_err(|status| *status)?;
                queue.copy_rect((source, &m.source_rect), (target, &m.target_rect), waits, event)
            }))
        })
    }
}

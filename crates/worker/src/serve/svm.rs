//! Shared virtual memory: buffers that commands reach by address.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ropeway_abi as cl;
use ropeway_protocol::CallId;
use ropeway_protocol::ids::MemoryId;
use ropeway_protocol::messages::{CreateSvmBuffer, SetKernelSvmPointers, SvmAlloc};
use ropeway_protocol::types::Status;

use super::buffers::DEVICE_FLAGS;
use crate::base::error::End;
use crate::base::error::unknown;
use crate::base::lock::lock;
use crate::native::{self, Waits};
use crate::objects::{Context, Memory, MemoryKind};
use crate::queue_states::QueueState;
use crate::session::Session;
use crate::session::job::Job;

/// The largest page of any client, and the largest alignment that is passed on.
const MAX_ALIGNMENT: u32 = 1 << 21;

/// Minimum size to allocate when the address of an allocation is already in use at the client: blocks of this size do
/// not come from the heap, whose addresses nobody chooses. The size grows fourfold with each attempt.
const MAPPED: u64 = 256 << 10;

/// Attempts for one allocation, after which they grow no more.
const ATTEMPTS: u32 = 5;

/// Most ranges of occupied addresses that a client may report.
const MAX_TAKEN: usize = 256;

/// The argument for [`native::Kernel::set_svm`].
///
/// # Errors
/// CL_INVALID_ARG_VALUE for memory that could not be allocated; CL_INVALID_OPERATION where none can be.
pub fn place<'a>(
    context: &Context,
    place: Option<(MemoryId, u64)>,
    memory: Option<&'a Memory>,
) -> Result<Option<(&'a native::Memory, u64)>, Status> {
    let Some((_, offset)) = place else {
        // A driver without such memory need not have the function.
        return if can_share(context) { Ok(None) } else { Err(cl::CL_INVALID_OPERATION) };
    };
    let native = memory.and_then(|memory| memory.native.as_deref().ok());
    Ok(Some((native.ok_or(cl::CL_INVALID_ARG_VALUE)?, offset)))
}

/// Whether the devices of a context can have shared virtual memory.
fn can_share(context: &Context) -> bool {
    context.devices.iter().any(|(_, device)| device.has_svm())
}

/// Keeps the event that says when the commands of `queue_state` have ended: its queue is about to be released, and they
/// may still use shared virtual memory.
pub fn outlive(queue_state: &QueueState) {
    let context = &queue_state.queue.context;
    if context.has_svm.load(Ordering::Relaxed)
        && let Ok(native) = &queue_state.queue.native
        && let Ok(Some(end)) = native.marker(&Waits::none(), true)
    {
        let mut ends = lock(&context.queue_ends);
        ends.retain(|end| !end.ended());
        ends.push(end);
        let _ = native.flush();
    }
}

impl Session {
    /// clSVMAlloc.
    ///
    /// # Errors
    /// The message is not one of a client.
    pub fn svm_alloc(&mut self, m: SvmAlloc, call: CallId<u64>) -> Result<(), End> {
        let context = self.context(m.context)?.clone();
        let sound = |alignment: u32| alignment.is_power_of_two() && alignment <= MAX_ALIGNMENT;
        if !sound(m.page) || m.alignment != 0 && !sound(m.alignment) || m.taken.len() > MAX_TAKEN {
            return Err(End::refused(format_args!("an allocation aligned to {} and {}", m.alignment, m.page)));
        }
        native::avoid(&m.taken);
        let allowed = self.allow_memory(m.size);
        let storage = self.common.shared.clone().filter(|_| context.svm_in_place);
        let allocate = || {
            let native = context.native.as_ref().map_err(|status| *status)?;
            // Implementations without it need not have the function, either.
            if !context.devices.iter().any(|(_, device)| device.has_svm()) {
                return Err(cl::CL_INVALID_OPERATION);
            }
            allowed?;
            if m.size == 0 {
                return Err(cl::CL_MEM_OBJECT_ALLOCATION_FAILURE);
            }
            let size = match m.attempt.min(ATTEMPTS) {
                0 => m.size,
                again => m.size.max(MAPPED << (2 * (again - 1))),
            };
            native::Memory::svm(native, m.flags & DEVICE_FLAGS, size, (m.alignment, m.page), storage.as_ref())
        };
        let mut made = allocate();
        // The last frees may still wait for earlier commands, and those commands may wait for the client.
        let frees = context.has_svm.load(Ordering::Relaxed) && self.user_events.is_empty() && self.incoming.is_empty();
        if made.is_err() && frees {
            self.demote(|_| false);
            made = context.free_queue().and_then(|queue| queue.finish()).and_then(|()| allocate());
        }
        let answer = match made {
            Err(status) => {
                self.common.limits.has_memory(self.memory_bytes);
                Err(status)
            }
            Ok(native) => {
                let address = native.as_svm().map(native::Svm::address).ok_or(cl::CL_INVALID_OPERATION);
                let (native, kind) = (Ok(Arc::new(native)), MemoryKind::Buffer(m.size));
                let memory = Memory { native, context: context.clone(), kind, charged: m.size };
                self.claim_memory(m.memory, Arc::new(memory))?;
                context.has_svm.store(true, Ordering::Relaxed);
                address
            }
        };
        self.start(Job::Answer(answer, call));
        Ok(())
    }

    /// A buffer over shared virtual memory.
    ///
    /// # Errors
    /// There is no such memory, or the range leaves it.
    pub fn create_svm_buffer(&mut self, m: CreateSvmBuffer) -> Result<(), End> {
        let svm = self.buffer_range(m.svm, m.offset, m.size)?;
        let make = || {
            let context = svm.context.native.as_ref().map_err(|status| *status)?;
            let memory = svm.native.as_ref().map_err(|status| *status)?;
            self.allow_object()?;
            native::Memory::over_svm(context, memory, m.flags & DEVICE_FLAGS, (m.offset, m.size))
        };
        // The buffer shares the bytes of the memory, which count already.
        let (native, kind) = (make().map(Arc::new), MemoryKind::Buffer(m.size));
        self.claim_memory(m.memory, Arc::new(Memory { native, context: svm.context.clone(), kind, charged: 0 }))
    }

    /// CL_KERNEL_EXEC_INFO_SVM_PTRS.
    ///
    /// # Errors
    /// There is no such kernel, or no such memory.
    pub fn set_kernel_svm_pointers(&mut self, m: SetKernelSvmPointers) -> Result<(), End> {
        let memory = |(id, _): &(MemoryId, u64)| self.memory(*id).cloned();
        let memory = m.pointers.iter().map(memory).collect::<Result<Vec<_>, End>>()?;
        let kernel = self.kernels.get_mut(&m.kernel).ok_or_else(|| unknown(m.kernel))?;
        let places = m.pointers.iter().zip(&memory).map(|((_, offset), memory)| {
            memory.native.as_deref().map(|native| (native, *offset)).map_err(|status| *status)
        });
        let places = places.collect::<Result<Vec<_>, Status>>();
        // A driver without such memory need not have the function.
        if let (Ok(native), Ok(places)) = (&mut kernel.native, places)
            && can_share(&kernel.context)
        {
            // Addresses in the native implementation's own memory matter only to its own launches.
            let _ = native.set_svm_pointers(&places);
        }
        Ok(())
    }

    /// Handles the client's release of a memory object. Shared virtual memory under it is not freed before all commands
    /// enqueued until now have ended, whatever else may hold it: native commands do not keep it themselves, the call of
    /// a blocking write returns before its command ends, and an application that frees memory too early must harm no
    /// driver.
    pub fn free_svm_late(&self, memory: &Memory) {
        let Some(svm) = memory.native.as_ref().ok().and_then(|native| native.svm_beneath()) else { return };
        let Ok(queue) = memory.context.free_queue() else { return };
        // A later free comes behind this one, and need not wait for the released queues again.
        let mut ends = std::mem::take(&mut *lock(&memory.context.queue_ends));
        ends.retain(|end| !end.ended());
        for queue_state in self.queue_states.queues.values() {
            if Arc::ptr_eq(&queue_state.queue.context, &memory.context)
                && let Ok(queue) = &queue_state.queue.native
                && let Ok(Some(end)) = queue.marker(&Waits::none(), true)
            {
                let _ = queue.flush();
                ends.push(end);
            }
        }
        let mut waits = Waits::none();
        ends.iter().for_each(|end| waits.push(end));
        queue.free_behind(svm, &waits);
    }
}

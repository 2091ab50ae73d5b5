//! The arguments that all collective operations have in common. The sentences are the extension's.

use std::sync::Arc;

use ropeway_abi::{
    CL_INVALID_COMMAND_QUEUE, CL_INVALID_CONTEXT, CL_INVALID_MEM_OBJECT, CL_INVALID_VALUE, CL_MEM_COPY_OVERLAP,
    cl_command_queue, cl_event, cl_int, cl_mem, cl_uint,
};
use ropeway_client::collectives::schedule::Job;
use ropeway_client::collectives::{self, Call, Operation, Operator, Piece};
use ropeway_client::queue;

use crate::api::order::{Request, check_alignment, find_buffer};
use crate::handle::Handle;
use crate::objects::{Memory, Queue};

/// The `num_ranks` and `command_queues` arguments.
pub struct Ranks {
    queues: Vec<Handle<Queue>>,
    clients: Vec<Arc<queue::Queue>>,
}

/// Buffers of ranks, with offsets; `None` for ranks that have none.
pub type Buffers = Vec<Option<(Handle<Memory>, usize)>>;

/// `count` things behind `list`.
///
/// # Safety
/// `list` is null or valid for reads of `count` things, for as long as the call lasts.
unsafe fn slice<'a, T>(count: usize, list: *const T) -> Result<&'a [T], cl_int> {
    if count == 0 || list.is_null() {
        return Err(CL_INVALID_VALUE);
    }
    // SAFETY: the caller's promise; not null.
    Ok(unsafe { std::slice::from_raw_parts(list, count) })
}

impl Ranks {
    /// # Safety
    /// `list` is null or valid for reads of `count` handles.
    pub unsafe fn read(count: cl_uint, list: *const cl_command_queue) -> Result<Self, cl_int> {
        // CL_INVALID_VALUE if num_ranks is zero or if command_queues is NULL.
        // SAFETY: the caller's promise.
        let list = unsafe { slice(count as usize, list)? };
        // CL_INVALID_COMMAND_QUEUE if any of the command queues in command_queues is not a valid host command-queue.
        let find = |&queue| Handle::<Queue>::find(queue).map_err(|_| CL_INVALID_COMMAND_QUEUE);
        let queues = list.iter().map(find).collect::<Result<Vec<_>, _>>()?;
        // CL_INVALID_CONTEXT if the context associated with the command queues is not the same.
        if queues.iter().any(|queue| queue.context != queues[0].context) {
            return Err(CL_INVALID_CONTEXT);
        }
        let clients = queues.iter().map(|queue| Arc::clone(&queue.client)).collect();
        Ok(Self { queues, clients })
    }

    pub fn queues(&self) -> &[Handle<Queue>] {
        &self.queues
    }

    /// The rank that one argument names.
    pub fn root(&self, root: cl_uint) -> Result<usize, cl_int> {
        // CL_INVALID_VALUE if root is not less than num_ranks.
        if (root as usize) < self.queues.len() { Ok(root as usize) } else { Err(CL_INVALID_VALUE) }
    }

    /// A buffer that one rank has.
    pub fn buffer(&self, rank: usize, buffer: cl_mem, offset: usize) -> Result<Buffers, cl_int> {
        let mut all = vec![None; self.queues.len()];
        all[rank] = Some((self.find(buffer)?, offset));
        Ok(all)
    }

    /// A buffer for each rank.
    ///
    /// # Safety
    /// The lists are null or valid for reads of as many things as there are ranks.
    pub unsafe fn buffers(&self, list: *const cl_mem, offsets: *const usize) -> Result<Buffers, cl_int> {
        let ranks = self.queues.len();
        // CL_INVALID_VALUE if src_buffers or dst_buffers is NULL.
        // SAFETY: the caller's promise.
        let list = unsafe { slice(ranks, list)? };
        // No offsets are offsets of zero.
        let offsets = match offsets.is_null() {
            true => &[][..],
            // SAFETY: as above.
            false => unsafe { slice(ranks, offsets)? },
        };
        let offset = |rank: usize| offsets.get(rank).copied().unwrap_or(0);
        list.iter().enumerate().map(|(rank, &buffer)| Ok(Some((self.find(buffer)?, offset(rank))))).collect()
    }

    fn find(&self, buffer: cl_mem) -> Result<Handle<Memory>, cl_int> {
        // CL_INVALID_MEM_OBJECT if any of the buffers is not a valid buffer object.
        let buffer = find_buffer(buffer).map_err(|_| CL_INVALID_MEM_OBJECT)?;
        // CL_INVALID_CONTEXT if the context associated with the command queues and with any of the buffers is not the
        // same.
        if buffer.context != self.queues[0].context {
            return Err(CL_INVALID_CONTEXT);
        }
        // CL_MISALIGNED_SUB_BUFFER_OFFSET if any of the buffers is a sub-buffer object and the offset specified when it
        // was created is not aligned to CL_DEVICE_MEM_BASE_ADDR_ALIGN for the device associated with any of the command
        // queues.
        self.queues.iter().try_for_each(|queue| check_alignment(&queue.device, &buffer))?;
        Ok(buffer)
    }
}

/// A collective operation, with its arguments read.
pub struct Collective<'a> {
    pub operation: Operation,
    pub sources: Buffers,
    pub targets: Buffers,
    /// Bytes.
    pub size: usize,
    pub operator: Option<Operator<'a>>,
    /// The event's CL_COMMAND_*.
    pub command: cl_uint,
}

impl Collective<'_> {
    /// Holds it against the buffers, and enqueues it.
    ///
    /// # Safety
    /// As the specification says of the last three arguments.
    pub unsafe fn enqueue(
        self,
        ranks: &Ranks,
        num_events: cl_uint,
        wait_list: *const cl_event,
        event: *mut cl_event,
    ) -> Result<(), cl_int> {
        // CL_INVALID_VALUE if size or count is zero.
        if self.size == 0 {
            return Err(CL_INVALID_VALUE);
        }
        let job = Job {
            operation: self.operation,
            ranks: ranks.queues.len(),
            size: self.size as u64,
            element: 1,
            ordered: false,
        };
        check(&self.sources, |rank| job.source_size(rank))?;
        check(&self.targets, |rank| job.target_size(rank))?;
        let (sources, targets) = (pieces(&self.sources), pieces(&self.targets));
        let call = Call {
            operation: self.operation,
            queues: &ranks.clients,
            sources: &sources,
            targets: &targets,
            size: self.size as u64,
            operator: self.operator,
        };
        // CL_MEM_COPY_OVERLAP if the region that a rank gets and that of another rank overlap, or if it overlaps with a
        // region that a rank gives, unless the operation is in place.
        if call.overlaps() {
            return Err(CL_MEM_COPY_OVERLAP);
        }
        // CL_INVALID_EVENT_WAIT_LIST, CL_INVALID_CONTEXT as for other commands.
        let first = &ranks.queues[0];
        // SAFETY: the caller's promise.
        let request = unsafe { Request::read(first, num_events, wait_list, event)? };
        let scratch_cache = &first.context.scratch_cache;
        request.run(first, |order| collectives::enqueue(&call, scratch_cache, self.command, order))
    }
}

/// CL_INVALID_VALUE if any of the regions is out of bounds.
fn check(buffers: &Buffers, size: impl Fn(usize) -> u64) -> Result<(), cl_int> {
    for (rank, buffer) in buffers.iter().enumerate() {
        let Some((buffer, offset)) = buffer else { continue };
        let end = (*offset as u64).checked_add(size(rank)).ok_or(CL_INVALID_VALUE)?;
        if end > buffer.client.size() as u64 {
            return Err(CL_INVALID_VALUE);
        }
    }
    Ok(())
}

fn pieces(buffers: &Buffers) -> Vec<Option<Piece<'_>>> {
    let pieces = buffers.iter().map(|buffer| {
        let (memory, offset) = buffer.as_ref()?;
        Some(Piece { memory: &memory.client, offset: *offset })
    });
    pieces.collect()
}

//! Collective operations that only move data.

use ropeway_abi::ropeway::collectives::{
    CL_COMMAND_ALL_GATHER_BUFFER_ROPEWAY, CL_COMMAND_ALL_TO_ALL_BUFFER_ROPEWAY, CL_COMMAND_BROADCAST_BUFFER_ROPEWAY,
    CL_COMMAND_GATHER_BUFFER_ROPEWAY, CL_COMMAND_SCATTER_BUFFER_ROPEWAY,
};
use ropeway_abi::{cl_command_queue, cl_event, cl_int, cl_mem, cl_uint};
use ropeway_client::collectives::Operation;

use super::arguments::{Collective, Ranks};
use crate::guard;

/// clEnqueueBroadcastBufferROPEWAY.
pub unsafe extern "C" fn clEnqueueBroadcastBufferROPEWAY(
    num_ranks: cl_uint,
    command_queues: *const cl_command_queue,
    root: cl_uint,
    src_buffer: cl_mem,
    src_offset: usize,
    dst_buffers: *const cl_mem,
    dst_offsets: *const usize,
    size: usize,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueBroadcastBufferROPEWAY", || {
        // SAFETY: the caller's promise, here and below.
        let ranks = unsafe { Ranks::read(num_ranks, command_queues)? };
        let root = ranks.root(root)?;
        let sources = ranks.buffer(root, src_buffer, src_offset)?;
        // SAFETY: as above.
        let targets = unsafe { ranks.buffers(dst_buffers, dst_offsets)? };
        let operation = Operation::Broadcast { root };
        let command = CL_COMMAND_BROADCAST_BUFFER_ROPEWAY;
        let call = Collective { operation, sources, targets, size, operator: None, command };
        // SAFETY: as above.
        unsafe { call.enqueue(&ranks, num_events, wait_list, event) }
    })
}

/// clEnqueueScatterBufferROPEWAY.
pub unsafe extern "C" fn clEnqueueScatterBufferROPEWAY(
    num_ranks: cl_uint,
    command_queues: *const cl_command_queue,
    root: cl_uint,
    src_buffer: cl_mem,
    src_offset: usize,
    dst_buffers: *const cl_mem,
    dst_offsets: *const usize,
    size: usize,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueScatterBufferROPEWAY", || {
        // SAFETY: the caller's promise, here and below.
        let ranks = unsafe { Ranks::read(num_ranks, command_queues)? };
        let root = ranks.root(root)?;
        let sources = ranks.buffer(root, src_buffer, src_offset)?;
        // SAFETY: as above.
        let targets = unsafe { ranks.buffers(dst_buffers, dst_offsets)? };
        let operation = Operation::Scatter { root };
        let command = CL_COMMAND_SCATTER_BUFFER_ROPEWAY;
        let call = Collective { operation, sources, targets, size, operator: None, command };
        // SAFETY: as above.
        unsafe { call.enqueue(&ranks, num_events, wait_list, event) }
    })
}

/// clEnqueueGatherBufferROPEWAY.
pub unsafe extern "C" fn clEnqueueGatherBufferROPEWAY(
    num_ranks: cl_uint,
    command_queues: *const cl_command_queue,
    root: cl_uint,
    src_buffers: *const cl_mem,
    src_offsets: *const usize,
    dst_buffer: cl_mem,
    dst_offset: usize,
    size: usize,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueGatherBufferROPEWAY", || {
        // SAFETY: the caller's promise, here and below.
        let ranks = unsafe { Ranks::read(num_ranks, command_queues)? };
        let root = ranks.root(root)?;
        // SAFETY: as above.
        let sources = unsafe { ranks.buffers(src_buffers, src_offsets)? };
        let targets = ranks.buffer(root, dst_buffer, dst_offset)?;
        let operation = Operation::Gather { root };
        let command = CL_COMMAND_GATHER_BUFFER_ROPEWAY;
        let call = Collective { operation, sources, targets, size, operator: None, command };
        // SAFETY: as above.
        unsafe { call.enqueue(&ranks, num_events, wait_list, event) }
    })
}

/// clEnqueueAllGatherBufferROPEWAY.
pub unsafe extern "C" fn clEnqueueAllGatherBufferROPEWAY(
    num_ranks: cl_uint,
    command_queues: *const cl_command_queue,
    src_buffers: *const cl_mem,
    src_offsets: *const usize,
    dst_buffers: *const cl_mem,
    dst_offsets: *const usize,
    size: usize,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueAllGatherBufferROPEWAY", || {
        // SAFETY: the caller's promise, here and below.
        let ranks = unsafe { Ranks::read(num_ranks, command_queues)? };
        // SAFETY: as above.
        let sources = unsafe { ranks.buffers(src_buffers, src_offsets)? };
        // SAFETY: as above.
        let targets = unsafe { ranks.buffers(dst_buffers, dst_offsets)? };
        let operation = Operation::AllGather;
        let command = CL_COMMAND_ALL_GATHER_BUFFER_ROPEWAY;
        let call = Collective { operation, sources, targets, size, operator: None, command };
        // SAFETY: as above.
        unsafe { call.enqueue(&ranks, num_events, wait_list, event) }
    })
}

/// clEnqueueAllToAllBufferROPEWAY.
pub unsafe extern "C" fn clEnqueueAllToAllBufferROPEWAY(
    num_ranks: cl_uint,
    command_queues: *const cl_command_queue,
    src_buffers: *const cl_mem,
    src_offsets: *const usize,
    dst_buffers: *const cl_mem,
    dst_offsets: *const usize,
    size: usize,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueAllToAllBufferROPEWAY", || {
        // SAFETY: the caller's promise, here and below.
        let ranks = unsafe { Ranks::read(num_ranks, command_queues)? };
        // SAFETY: as above.
        let sources = unsafe { ranks.buffers(src_buffers, src_offsets)? };
        // SAFETY: as above.
        let targets = unsafe { ranks.buffers(dst_buffers, dst_offsets)? };
        let operation = Operation::AllToAll;
        let command = CL_COMMAND_ALL_TO_ALL_BUFFER_ROPEWAY;
        let call = Collective { operation, sources, targets, size, operator: None, command };
        // SAFETY: as above.
        unsafe { call.enqueue(&ranks, num_events, wait_list, event) }
    })
}

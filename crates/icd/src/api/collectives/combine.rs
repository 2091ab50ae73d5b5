//! Collective operations that combine data.

use ropeway_abi::ropeway::collectives::{
    CL_COMMAND_ALL_REDUCE_BUFFER_ROPEWAY, CL_COMMAND_REDUCE_BUFFER_ROPEWAY, CL_COMMAND_REDUCE_SCATTER_BUFFER_ROPEWAY,
    CL_COMMAND_SCAN_BUFFER_ROPEWAY, CL_REDUCTION_CHAR_ROPEWAY, CL_REDUCTION_KERNEL_ROPEWAY,
    CL_REDUCTION_ORDERED_ROPEWAY, CL_REDUCTION_SUM_ROPEWAY, CL_SCAN_EXCLUSIVE_ROPEWAY, cl_reduction_ropeway,
    cl_scan_flags_ropeway,
};
use ropeway_abi::{
    CL_BUILD_SUCCESS, CL_INVALID_CONTEXT, CL_INVALID_KERNEL_ARGS, CL_INVALID_OPERATION, CL_INVALID_PROGRAM_EXECUTABLE,
    CL_INVALID_VALUE, cl_command_queue, cl_event, cl_int, cl_mem, cl_uint,
};
use ropeway_client::collectives::{Element, Function, Operation, Operator};
use ropeway_protocol::types::ArgKind;

use super::arguments::{Collective, Ranks};
use crate::guard;
use crate::handle::Handle;
use crate::objects::Kernel;

/// The `reduction` argument.
enum Reduction {
    BuiltIn(Element, Function),
    Kernel { kernel: Handle<Kernel>, element: usize, ordered: bool },
}

impl Reduction {
    /// # Safety
    /// `reduction` is null or valid for a read.
    unsafe fn read(ranks: &Ranks, reduction: *const cl_reduction_ropeway) -> Result<Self, cl_int> {
        // CL_INVALID_VALUE if reduction is NULL.
        if reduction.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        // SAFETY: the caller's promise.
        let reduction = unsafe { reduction.read() };
        // CL_INVALID_VALUE if flags of reduction has others than the defined bits.
        if reduction.flags & !CL_REDUCTION_ORDERED_ROPEWAY != 0 {
            return Err(CL_INVALID_VALUE);
        }
        if reduction.reduction_operator == CL_REDUCTION_KERNEL_ROPEWAY {
            return Self::of_kernel(ranks, &reduction);
        }
        // CL_INVALID_VALUE if reduction_operator or reduction_type of reduction is not a valid value.
        let nth = |value: cl_uint, first: cl_uint| value.checked_sub(first).map(|index| index as usize);
        let function = nth(reduction.reduction_operator, CL_REDUCTION_SUM_ROPEWAY);
        let function = *function.and_then(|index| Function::ALL.get(index)).ok_or(CL_INVALID_VALUE)?;
        let element = nth(reduction.reduction_type, CL_REDUCTION_CHAR_ROPEWAY);
        let element = *element.and_then(|index| Element::ALL.get(index)).ok_or(CL_INVALID_VALUE)?;
        // CL_INVALID_OPERATION if reduction_type of reduction is CL_REDUCTION_DOUBLE_ROPEWAY and any of the devices
        // associated with the command queues has no double precision.
        if !ranks.queues().iter().all(|queue| element.runs_on(&queue.device.client)) {
            return Err(CL_INVALID_OPERATION);
        }
        Ok(Self::BuiltIn(element, function))
    }

    fn of_kernel(ranks: &Ranks, reduction: &cl_reduction_ropeway) -> Result<Self, cl_int> {
        // CL_INVALID_KERNEL if kernel of reduction is not a valid kernel object.
        let kernel = Handle::<Kernel>::find(reduction.kernel)?;
        // CL_INVALID_VALUE if element_size of reduction is zero.
        if reduction.element_size == 0 {
            return Err(CL_INVALID_VALUE);
        }
        for queue in ranks.queues() {
            // CL_INVALID_CONTEXT if the context associated with the kernel and with the command queues is not the same.
            if kernel.program.context != queue.context {
                return Err(CL_INVALID_CONTEXT);
            }
            // CL_INVALID_PROGRAM_EXECUTABLE if there is no successfully built program executable available for the
            // device associated with any of the command queues.
            let build = kernel.client.build().for_device(&queue.device.client);
            if build.is_none_or(|build| build.status != CL_BUILD_SUCCESS) {
                return Err(CL_INVALID_PROGRAM_EXECUTABLE);
            }
        }
        // CL_INVALID_KERNEL_ARGS if any of the first three arguments of the kernel is not a buffer, or if the values of
        // the others have not been specified.
        let is_buffer = |index| matches!(kernel.client.arg_kind(index), Some(ArgKind::Buffer | ArgKind::Unknown));
        if !(0..3).all(is_buffer) || !kernel.client.all_args_set_from(3) {
            return Err(CL_INVALID_KERNEL_ARGS);
        }
        let ordered = reduction.flags & CL_REDUCTION_ORDERED_ROPEWAY != 0;
        Ok(Self::Kernel { kernel, element: reduction.element_size, ordered })
    }

    fn operator(&self) -> Operator<'_> {
        match self {
            Self::BuiltIn(element, function) => Operator::BuiltIn(*element, *function),
            Self::Kernel { kernel, element, ordered } => {
                Operator::Kernel { kernel: &kernel.client, element: *element, ordered: *ordered }
            }
        }
    }

    /// The bytes of `count` elements. More than can be is out of bounds.
    fn size(&self, count: usize) -> Result<usize, cl_int> {
        self.operator().element().checked_mul(count).ok_or(CL_INVALID_VALUE)
    }
}

/// clEnqueueReduceBufferROPEWAY.
pub unsafe extern "C" fn clEnqueueReduceBufferROPEWAY(
    num_ranks: cl_uint,
    command_queues: *const cl_command_queue,
    root: cl_uint,
    src_buffers: *const cl_mem,
    src_offsets: *const usize,
    dst_buffer: cl_mem,
    dst_offset: usize,
    count: usize,
    reduction: *const cl_reduction_ropeway,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueReduceBufferROPEWAY", || {
        // SAFETY: the caller's promise, here and below.
        let ranks = unsafe { Ranks::read(num_ranks, command_queues)? };
        let root = ranks.root(root)?;
        // SAFETY: as above.
        let sources = unsafe { ranks.buffers(src_buffers, src_offsets)? };
        let targets = ranks.buffer(root, dst_buffer, dst_offset)?;
        // SAFETY: as above.
        let reduction = unsafe { Reduction::read(&ranks, reduction)? };
        let (size, operator) = (reduction.size(count)?, Some(reduction.operator()));
        let operation = Operation::Reduce { root };
        let command = CL_COMMAND_REDUCE_BUFFER_ROPEWAY;
        let call = Collective { operation, sources, targets, size, operator, command };
        // SAFETY: as above.
        unsafe { call.enqueue(&ranks, num_events, wait_list, event) }
    })
}

/// clEnqueueAllReduceBufferROPEWAY.
pub unsafe extern "C" fn clEnqueueAllReduceBufferROPEWAY(
    num_ranks: cl_uint,
    command_queues: *const cl_command_queue,
    src_buffers: *const cl_mem,
    src_offsets: *const usize,
    dst_buffers: *const cl_mem,
    dst_offsets: *const usize,
    count: usize,
    reduction: *const cl_reduction_ropeway,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueAllReduceBufferROPEWAY", || {
        // SAFETY: the caller's promise, here and below.
        let ranks = unsafe { Ranks::read(num_ranks, command_queues)? };
        // SAFETY: as above.
        let sources = unsafe { ranks.buffers(src_buffers, src_offsets)? };
        // SAFETY: as above.
        let targets = unsafe { ranks.buffers(dst_buffers, dst_offsets)? };
        // SAFETY: as above.
        let reduction = unsafe { Reduction::read(&ranks, reduction)? };
        let (size, operator) = (reduction.size(count)?, Some(reduction.operator()));
        let operation = Operation::AllReduce;
        let command = CL_COMMAND_ALL_REDUCE_BUFFER_ROPEWAY;
        let call = Collective { operation, sources, targets, size, operator, command };
        // SAFETY: as above.
        unsafe { call.enqueue(&ranks, num_events, wait_list, event) }
    })
}

/// clEnqueueReduceScatterBufferROPEWAY.
pub unsafe extern "C" fn clEnqueueReduceScatterBufferROPEWAY(
    num_ranks: cl_uint,
    command_queues: *const cl_command_queue,
    src_buffers: *const cl_mem,
    src_offsets: *const usize,
    dst_buffers: *const cl_mem,
    dst_offsets: *const usize,
    count: usize,
    reduction: *const cl_reduction_ropeway,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueReduceScatterBufferROPEWAY", || {
        // SAFETY: the caller's promise, here and below.
        let ranks = unsafe { Ranks::read(num_ranks, command_queues)? };
        // SAFETY: as above.
        let sources = unsafe { ranks.buffers(src_buffers, src_offsets)? };
        // SAFETY: as above.
        let targets = unsafe { ranks.buffers(dst_buffers, dst_offsets)? };
        // SAFETY: as above.
        let reduction = unsafe { Reduction::read(&ranks, reduction)? };
        let (size, operator) = (reduction.size(count)?, Some(reduction.operator()));
        let operation = Operation::ReduceScatter;
        let command = CL_COMMAND_REDUCE_SCATTER_BUFFER_ROPEWAY;
        let call = Collective { operation, sources, targets, size, operator, command };
        // SAFETY: as above.
        unsafe { call.enqueue(&ranks, num_events, wait_list, event) }
    })
}

/// clEnqueueScanBufferROPEWAY.
pub unsafe extern "C" fn clEnqueueScanBufferROPEWAY(
    num_ranks: cl_uint,
    command_queues: *const cl_command_queue,
    src_buffers: *const cl_mem,
    src_offsets: *const usize,
    dst_buffers: *const cl_mem,
    dst_offsets: *const usize,
    count: usize,
    reduction: *const cl_reduction_ropeway,
    flags: cl_scan_flags_ropeway,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueScanBufferROPEWAY", || {
        // SAFETY: the caller's promise, here and below.
        let ranks = unsafe { Ranks::read(num_ranks, command_queues)? };
        // SAFETY: as above.
        let sources = unsafe { ranks.buffers(src_buffers, src_offsets)? };
        // SAFETY: as above.
        let targets = unsafe { ranks.buffers(dst_buffers, dst_offsets)? };
        // CL_INVALID_VALUE if flags has others than the defined bits.
        if flags & !CL_SCAN_EXCLUSIVE_ROPEWAY != 0 {
            return Err(CL_INVALID_VALUE);
        }
        // SAFETY: as above.
        let reduction = unsafe { Reduction::read(&ranks, reduction)? };
        let (size, operator) = (reduction.size(count)?, Some(reduction.operator()));
        let operation = Operation::Scan { exclusive: flags & CL_SCAN_EXCLUSIVE_ROPEWAY != 0 };
        let command = CL_COMMAND_SCAN_BUFFER_ROPEWAY;
        let call = Collective { operation, sources, targets, size, operator, command };
        // SAFETY: as above.
        unsafe { call.enqueue(&ranks, num_events, wait_list, event) }
    })
}

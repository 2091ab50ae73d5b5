//! The arguments that all recorded commands have in common; kernels and barriers.

use ropeway_abi::{
    CL_INVALID_COMMAND_QUEUE, CL_INVALID_OPERATION, CL_INVALID_SYNC_POINT_WAIT_LIST_KHR, CL_INVALID_VALUE,
    cl_command_buffer_khr, cl_command_properties_khr, cl_command_queue, cl_int, cl_kernel, cl_mutable_command_khr,
    cl_sync_point_khr, cl_uint,
};
use ropeway_client::command_buffer;

use crate::api::command::{check_range, read_range, ready};
use crate::api::put;
use crate::guard;
use crate::handle::Handle;
use crate::objects::{CommandBuffer, Queue};

/// A command that is being recorded.
pub struct Recording {
    commands: Handle<CommandBuffer>,
    waits: Vec<cl_sync_point_khr>,
    sync_point: *mut cl_sync_point_khr,
}

impl Recording {
    /// Reads what all functions that record have.
    ///
    /// # Errors
    /// As the specification of each says, below.
    ///
    /// # Safety
    /// As the specification says of these arguments, until [`Self::end`].
    pub unsafe fn begin(
        command_buffer: cl_command_buffer_khr,
        command_queue: cl_command_queue,
        properties: *const cl_command_properties_khr,
        (num_sync_points, wait_list): (cl_uint, *const cl_sync_point_khr),
        sync_point: *mut cl_sync_point_khr,
        mutable_handle: *mut cl_mutable_command_khr,
    ) -> Result<Self, cl_int> {
        // CL_INVALID_COMMAND_BUFFER_KHR if command_buffer is not a valid command-buffer.
        let commands = Handle::<CommandBuffer>::find(command_buffer)?;
        // CL_INVALID_COMMAND_QUEUE if command_queue is not NULL (without cl_khr_command_buffer_multi_device).
        if !command_queue.is_null() {
            return Err(CL_INVALID_COMMAND_QUEUE);
        }
        // CL_INVALID_OPERATION if command_buffer has been finalized.
        if commands.client.is_finalized() {
            return Err(CL_INVALID_OPERATION);
        }
        // CL_INVALID_VALUE if values specified in properties are not valid: there are none without further extensions.
        // SAFETY: the caller's promise: null or a list that ends with 0.
        if !properties.is_null() && unsafe { properties.read() } != 0 {
            return Err(CL_INVALID_VALUE);
        }
        // CL_INVALID_VALUE if mutable_handle is not NULL (without cl_khr_command_buffer_mutable_dispatch).
        if !mutable_handle.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        // CL_INVALID_SYNC_POINT_WAIT_LIST_KHR if sync_point_wait_list is NULL and num_sync_points_in_wait_list is > 0,
        // or the other way round, or if synchronization-point objects in it are not valid.
        if (num_sync_points == 0) != wait_list.is_null() {
            return Err(CL_INVALID_SYNC_POINT_WAIT_LIST_KHR);
        }
        let known = 1..=commands.client.commands();
        let mut waits = Vec::new();
        for index in 0..num_sync_points as usize {
            // SAFETY: the caller's promise: a list that is not null has so many entries.
            let point = unsafe { wait_list.add(index).read() };
            if !known.contains(&point) {
                return Err(CL_INVALID_SYNC_POINT_WAIT_LIST_KHR);
            }
            waits.push(point);
        }
        Ok(Self { commands, waits, sync_point })
    }

    /// The queue that the command buffer was made for.
    pub fn queue(&self) -> &Handle<Queue> {
        &self.commands.queue
    }

    /// Records the command and gives its sync point to the application, if that wants it.
    ///
    /// # Errors
    /// Those of `record`.
    pub fn end(
        self,
        record: impl FnOnce(&command_buffer::CommandBuffer, &[cl_sync_point_khr]) -> Result<cl_sync_point_khr, cl_int>,
    ) -> Result<(), cl_int> {
        let point = record(&self.commands.client, &self.waits)?;
        // SAFETY: null or valid for a write, by the promise of `begin`.
        unsafe { put(self.sync_point, point) };
        Ok(())
    }
}

/// clCommandBarrierWithWaitListKHR.
pub unsafe extern "C" fn clCommandBarrierWithWaitListKHR(
    command_buffer: cl_command_buffer_khr,
    command_queue: cl_command_queue,
    properties: *const cl_command_properties_khr,
    num_sync_points: cl_uint,
    wait_list: *const cl_sync_point_khr,
    sync_point: *mut cl_sync_point_khr,
    mutable_handle: *mut cl_mutable_command_khr,
) -> cl_int {
    guard::status("clCommandBarrierWithWaitListKHR", || {
        let waits = (num_sync_points, wait_list);
        // SAFETY: the caller's promise.
        let recording =
            unsafe { Recording::begin(command_buffer, command_queue, properties, waits, sync_point, mutable_handle)? };
        recording.end(|commands, waits| commands.record_barrier(waits))
    })
}

/// clCommandNDRangeKernelKHR.
pub unsafe extern "C" fn clCommandNDRangeKernelKHR(
    command_buffer: cl_command_buffer_khr,
    command_queue: cl_command_queue,
    properties: *const cl_command_properties_khr,
    kernel: cl_kernel,
    work_dim: cl_uint,
    global_work_offset: *const usize,
    global_work_size: *const usize,
    local_work_size: *const usize,
    num_sync_points: cl_uint,
    wait_list: *const cl_sync_point_khr,
    sync_point: *mut cl_sync_point_khr,
    mutable_handle: *mut cl_mutable_command_khr,
) -> cl_int {
    guard::status("clCommandNDRangeKernelKHR", || {
        let waits = (num_sync_points, wait_list);
        // SAFETY: the caller's promise.
        let recording =
            unsafe { Recording::begin(command_buffer, command_queue, properties, waits, sync_point, mutable_handle)? };
        // Errors as of clEnqueueNDRangeKernel.
        let (queue, kernel) = ready(recording.queue().raw(), kernel)?;
        // SAFETY: the caller's promise.
        let mut range =
            unsafe { read_range(&queue.device, work_dim, global_work_offset, global_work_size, local_work_size)? };
        // Where the application leaves the choice of a local size, the program's required work-group size is taken.
        // (PoCL 3.1 follows OpenCL 1.2, which has an error for that; here the error would come too late.)
        let required = kernel.client.work_group(&queue.device.client).map(|known| known.compile_work_group_size);
        range.local = range.local.or(required.filter(|size| *size != [0; 3]));
        check_range(&queue.device, &kernel, &range)?;
        recording.end(|commands, waits| commands.record_kernel(&kernel.client, range, waits))
    })
}

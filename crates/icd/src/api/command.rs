//! Kernels on queues, markers and barriers (OpenCL 3.0 API, sections 5.11 to 5.13).

use ropeway_abi::{
    CL_BUILD_SUCCESS, CL_COMMAND_NDRANGE_KERNEL, CL_COMMAND_TASK, CL_INVALID_CONTEXT, CL_INVALID_EVENT,
    CL_INVALID_GLOBAL_OFFSET, CL_INVALID_GLOBAL_WORK_SIZE, CL_INVALID_KERNEL_ARGS, CL_INVALID_PROGRAM_EXECUTABLE,
    CL_INVALID_VALUE, CL_INVALID_WORK_DIMENSION, CL_INVALID_WORK_GROUP_SIZE, CL_INVALID_WORK_ITEM_SIZE,
    CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, CL_MIGRATE_MEM_OBJECT_HOST, CL_MISALIGNED_SUB_BUFFER_OFFSET,
    cl_command_queue, cl_event, cl_int, cl_kernel, cl_mem, cl_mem_migration_flags, cl_uint,
};
use ropeway_client::command::Order;
use ropeway_protocol::types::NdRange;

use super::order::{Request, Waits, memory_for};
use crate::guard;
use crate::handle::Handle;
use crate::objects::{Device, Kernel, Queue};

/// clEnqueueNDRangeKernel.
pub unsafe extern "C" fn clEnqueueNDRangeKernel(
    queue: cl_command_queue,
    kernel: cl_kernel,
    work_dim: cl_uint,
    global_work_offset: *const usize,
    global_work_size: *const usize,
    local_work_size: *const usize,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueNDRangeKernel", || {
        let (queue, kernel) = ready(queue, kernel)?;
        // SAFETY: the caller's promise.
        let range =
            unsafe { read_range(&queue.device, work_dim, global_work_offset, global_work_size, local_work_size)? };
        let doubtful = check_range(&queue.device, &kernel, &range)?;
        // SAFETY: the caller's promise.
        let request = unsafe { Request::read(&queue, num_events, wait_list, event)? };
        request.run(&queue, |order| match doubtful {
            true => queue.client.launch_kernel(&kernel.client, range, CL_COMMAND_NDRANGE_KERNEL, order),
            false => queue.client.enqueue_kernel(&kernel.client, range, CL_COMMAND_NDRANGE_KERNEL, order),
        })
    })
}

/// clEnqueueTask: one work-item.
pub unsafe extern "C" fn clEnqueueTask(
    queue: cl_command_queue,
    kernel: cl_kernel,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueTask", || {
        let (queue, kernel) = ready(queue, kernel)?;
        let range = NdRange { dims: 1, offset: None, global: [1, 0, 0], local: Some([1, 0, 0]) };
        check_range(&queue.device, &kernel, &range)?;
        // SAFETY: the caller's promise.
        let request = unsafe { Request::read(&queue, num_events, wait_list, event)? };
        request.run(&queue, |order| queue.client.enqueue_kernel(&kernel.client, range, CL_COMMAND_TASK, order))
    })
}

/// The sizes in `list`, 0 where it has none. `None` if it is NULL.
///
/// # Safety
/// `list` is null or valid for reads of `dims` entries.
pub(super) unsafe fn sizes(list: *const usize, dims: usize) -> Option<[u64; 3]> {
    if list.is_null() {
        return None;
    }
    let mut sizes = [0; 3];
    for (index, size) in sizes.iter_mut().take(dims).enumerate() {
        // SAFETY: the caller's promise; not null.
        *size = unsafe { list.add(index).read() } as u64;
    }
    Some(sizes)
}

/// The index space of a launch.
///
/// # Errors
/// As said below.
///
/// # Safety
/// The lists are null or valid for reads of `work_dim` entries.
pub(super) unsafe fn read_range(
    device: &Device,
    work_dim: cl_uint,
    global_work_offset: *const usize,
    global_work_size: *const usize,
    local_work_size: *const usize,
) -> Result<NdRange, cl_int> {
    // CL_INVALID_WORK_DIMENSION if work_dim is not 1, 2 or 3.
    if !(1..=3).contains(&work_dim) {
        return Err(CL_INVALID_WORK_DIMENSION);
    }
    let dims = work_dim as usize;
    // SAFETY: the caller's promise, of each list.
    let given = |list: *const usize| unsafe { sizes(list, dims) };
    // CL_INVALID_GLOBAL_WORK_SIZE if global_work_size is NULL; since OpenCL 2.1 that means no work-items.
    let empty = device.limits.empty_ranges().then_some([0; 3]);
    let global = given(global_work_size).or(empty).ok_or(CL_INVALID_GLOBAL_WORK_SIZE)?;
    Ok(NdRange { dims: work_dim as u8, offset: given(global_work_offset), global, local: given(local_work_size) })
}

/// A queue, and a kernel that can run on it.
pub(super) fn ready(queue: cl_command_queue, kernel: cl_kernel) -> Result<(Handle<Queue>, Handle<Kernel>), cl_int> {
    let queue = Handle::<Queue>::find(queue)?;
    let kernel = Handle::<Kernel>::find(kernel)?;
    // CL_INVALID_CONTEXT if the contexts of the queue and of the kernel are not the same.
    if kernel.program.context != queue.context {
        return Err(CL_INVALID_CONTEXT);
    }
    // CL_INVALID_PROGRAM_EXECUTABLE if there is no successfully built executable for the queue's device.
    let build = kernel.client.build().for_device(&queue.device.client);
    if build.is_none_or(|build| build.status != CL_BUILD_SUCCESS) {
        return Err(CL_INVALID_PROGRAM_EXECUTABLE);
    }
    // CL_INVALID_KERNEL_ARGS if the kernel argument values have not been specified.
    if !kernel.client.all_args_set() {
        return Err(CL_INVALID_KERNEL_ARGS);
    }
    // CL_MISALIGNED_SUB_BUFFER_OFFSET if a sub-buffer object is specified as the value for an argument and its offset
    // is not aligned to CL_DEVICE_MEM_BASE_ADDR_ALIGN for the device.
    if !kernel.client.sub_buffers_are_aligned(queue.device.limits.base_alignment as usize) {
        return Err(CL_MISALIGNED_SUB_BUFFER_OFFSET);
    }
    Ok((queue, kernel))
}

/// Holds the global size and offset of a launch against the device.
pub(super) fn check_global(device: &Device, range: &NdRange) -> Result<(), cl_int> {
    let dims = usize::from(range.dims);
    let limits = &device.limits;
    // The largest value of the device's size_t.
    let most = if limits.address_bits == 32 { u64::from(u32::MAX) } else { u64::MAX };
    for (dim, &global) in range.global.iter().take(dims).enumerate() {
        // CL_INVALID_GLOBAL_WORK_SIZE if any of the values is 0 (before OpenCL 2.1) or exceeds what the device's size_t
        // can hold.
        if global == 0 && !limits.empty_ranges() || global > most {
            return Err(CL_INVALID_GLOBAL_WORK_SIZE);
        }
        // CL_INVALID_GLOBAL_OFFSET if the sum of offset and size exceeds it.
        let offset = range.offset.map_or(0, |offset| offset[dim]);
        if offset.checked_add(global).is_none_or(|end| end > most) {
            return Err(CL_INVALID_GLOBAL_OFFSET);
        }
    }
    Ok(())
}

/// Holds a launch against device and kernel. True where the native implementation has the last word on its work-groups.
pub(super) fn check_range(device: &Device, kernel: &Kernel, range: &NdRange) -> Result<bool, cl_int> {
    check_global(device, range)?;
    let (dims, limits) = (usize::from(range.dims), &device.limits);
    let Some(local) = range.local else { return Ok(false) };
    let known = kernel.client.work_group(&device.client);
    let mut items: u64 = 1;
    for &local in local.iter().take(dims) {
        // CL_INVALID_WORK_GROUP_SIZE if a size is 0.
        if local == 0 {
            return Err(CL_INVALID_WORK_GROUP_SIZE);
        }
        items = items.checked_mul(local).ok_or(CL_INVALID_WORK_GROUP_SIZE)?;
    }
    // CL_INVALID_WORK_GROUP_SIZE if the total number of work-items in the work-group is greater than
    // CL_KERNEL_WORK_GROUP_SIZE. NVIDIA reports 256 there for kernels that it runs with 1024, so what is refused here
    // is only what the device cannot do at all; the kernel's own limit is the native implementation's to enforce, which
    // is then asked.
    if items > limits.max_work_group_size {
        return Err(CL_INVALID_WORK_GROUP_SIZE);
    }
    for (dim, &local) in local.iter().take(dims).enumerate() {
        // CL_INVALID_WORK_ITEM_SIZE if the number of work-items in a dimension is greater than the corresponding value
        // of CL_DEVICE_MAX_WORK_ITEM_SIZES.
        if limits.max_work_item_sizes.get(dim).is_some_and(|&most| local > most) {
            return Err(CL_INVALID_WORK_ITEM_SIZE);
        }
        // CL_INVALID_WORK_GROUP_SIZE if local_work_size does not match the required work-group size in the program
        // source.
        if let Some(known) = known
            && known.compile_work_group_size != [0; 3]
            && known.compile_work_group_size[dim] != local
        {
            return Err(CL_INVALID_WORK_GROUP_SIZE);
        }
        // CL_INVALID_WORK_GROUP_SIZE if the program was compiled for uniform work-groups and global_work_size is not
        // evenly divisible by local_work_size.
        if !range.global[dim].is_multiple_of(local) && !allows_non_uniform(device, kernel) {
            return Err(CL_INVALID_WORK_GROUP_SIZE);
        }
    }
    Ok(known.is_some_and(|known| items > known.work_group_size))
}

/// Whether a device runs this kernel with work-groups of different sizes: it can, and the program was built for OpenCL
/// C 2.0 or later without the option that forbids it.
#[cold]
fn allows_non_uniform(device: &Device, kernel: &Kernel) -> bool {
    let options = kernel.program.client.options();
    let has = |option: &str| options.split_ascii_whitespace().any(|one| one.starts_with(option));
    let language = has("-cl-std=CL2") || has("-cl-std=CL3") || has("-cl-std=CLC++");
    device.limits.non_uniform_work_groups && language && !has("-cl-uniform-work-group-size")
}

/// clEnqueueMarkerWithWaitList.
pub unsafe extern "C" fn clEnqueueMarkerWithWaitList(
    queue: cl_command_queue,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueMarkerWithWaitList", || {
        let queue = Handle::<Queue>::find(queue)?;
        // SAFETY: the caller's promise.
        let request = unsafe { Request::read(&queue, num_events, wait_list, event)? };
        request.run(&queue, |order| queue.client.enqueue_marker(order))
    })
}

/// clEnqueueBarrierWithWaitList.
pub unsafe extern "C" fn clEnqueueBarrierWithWaitList(
    queue: cl_command_queue,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueBarrierWithWaitList", || {
        let queue = Handle::<Queue>::find(queue)?;
        // SAFETY: the caller's promise.
        let request = unsafe { Request::read(&queue, num_events, wait_list, event)? };
        request.run(&queue, |order| queue.client.enqueue_barrier(order))
    })
}

/// clEnqueueMarker (OpenCL 1.1).
pub unsafe extern "C" fn clEnqueueMarker(queue: cl_command_queue, event: *mut cl_event) -> cl_int {
    guard::status("clEnqueueMarker", || {
        let queue = Handle::<Queue>::find(queue)?;
        // CL_INVALID_VALUE if event is a NULL value.
        if event.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        // SAFETY: the caller's promise.
        let request = unsafe { Request::read(&queue, 0, std::ptr::null(), event)? };
        request.run(&queue, |order| queue.client.enqueue_marker(order))
    })
}

/// clEnqueueBarrier (OpenCL 1.1).
pub unsafe extern "C" fn clEnqueueBarrier(queue: cl_command_queue) -> cl_int {
    guard::status("clEnqueueBarrier", || {
        let queue = Handle::<Queue>::find(queue)?;
        queue.client.enqueue_barrier(Order { waits: &[], wants_event: false })
    })
}

/// clEnqueueWaitForEvents (OpenCL 1.1): a barrier that waits for these events.
pub unsafe extern "C" fn clEnqueueWaitForEvents(
    queue: cl_command_queue,
    num_events: cl_uint,
    event_list: *const cl_event,
) -> cl_int {
    guard::status("clEnqueueWaitForEvents", || {
        let queue = Handle::<Queue>::find(queue)?;
        // CL_INVALID_VALUE if num_events is 0 or event_list is NULL.
        if num_events == 0 || event_list.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        // CL_INVALID_EVENT if an event is not valid.
        // SAFETY: the caller's promise.
        let waits = unsafe { Waits::read(&queue, num_events, event_list, CL_INVALID_EVENT)? };
        queue.client.enqueue_barrier(Order { waits: &waits.events(), wants_event: false })
    })
}

/// clEnqueueMigrateMemObjects.
pub unsafe extern "C" fn clEnqueueMigrateMemObjects(
    queue: cl_command_queue,
    num_mem_objects: cl_uint,
    mem_objects: *const cl_mem,
    flags: cl_mem_migration_flags,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueMigrateMemObjects", || {
        let queue = Handle::<Queue>::find(queue)?;
        // CL_INVALID_VALUE if num_mem_objects is 0 or mem_objects is NULL, or if flags has others than the defined
        // bits.
        let known = CL_MIGRATE_MEM_OBJECT_HOST | CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED;
        if num_mem_objects == 0 || mem_objects.is_null() || flags & !known != 0 {
            return Err(CL_INVALID_VALUE);
        }
        // CL_INVALID_MEM_OBJECT if any of the memory objects is not valid; CL_INVALID_CONTEXT if one is of another
        // context. SAFETY: the caller's promise.
        let handles = unsafe { std::slice::from_raw_parts(mem_objects, num_mem_objects as usize) };
        let memory = handles.iter().map(|&handle| memory_for(&queue, handle)).collect::<Result<Vec<_>, _>>()?;
        // SAFETY: the caller's promise.
        let request = unsafe { Request::read(&queue, num_events, wait_list, event)? };
        let memory: Vec<_> = memory.iter().map(|memory| &*memory.client).collect();
        request.run(&queue, |order| queue.client.enqueue_migrate(&memory, flags, order))
    })
}

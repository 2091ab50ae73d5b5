//! Coarse-grain shared virtual memory (OpenCL 3.0 API, section 5.6).

use std::ffi::c_void;
use std::ptr;

use ropeway_abi::{
    CL_COMMAND_SVM_MEMCPY, CL_COMMAND_SVM_MEMFILL, CL_DEVICE_SVM_CAPABILITIES, CL_DEVICE_SVM_COARSE_GRAIN_BUFFER,
    CL_FALSE, CL_INVALID_ARG_INDEX, CL_INVALID_ARG_VALUE, CL_INVALID_OPERATION, CL_INVALID_VALUE,
    CL_KERNEL_EXEC_INFO_SVM_FINE_GRAIN_SYSTEM, CL_KERNEL_EXEC_INFO_SVM_PTRS, CL_MAP_READ, CL_MAP_WRITE,
    CL_MAP_WRITE_INVALIDATE_REGION, CL_MEM_COPY_OVERLAP, CL_MEM_READ_ONLY, CL_MEM_READ_WRITE, CL_MEM_SVM_ATOMICS,
    CL_MEM_SVM_FINE_GRAIN_BUFFER, CL_MEM_WRITE_ONLY, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED,
    CL_MIGRATE_MEM_OBJECT_HOST, cl_bool, cl_command_queue, cl_context, cl_event, cl_int, cl_kernel,
    cl_kernel_exec_info, cl_map_flags, cl_mem_migration_flags, cl_svm_mem_flags, cl_uint,
};
use ropeway_client::kernel::Arg;
use ropeway_client::region;
use ropeway_client::svm::{Region, Source, Target};

use super::order::Request;
use super::{Callback, Raw, copies};
use crate::handle::Handle;
use crate::objects::{Context, Device, Kernel, Queue};
use crate::{guard, host};

/// The function that frees what clEnqueueSVMFree was given.
type FreeFunction = unsafe extern "C" fn(cl_command_queue, cl_uint, *mut *mut c_void, *mut c_void);

/// Whether a device has shared virtual memory.
pub(super) fn supports(device: &Device) -> bool {
    device.client.number(CL_DEVICE_SVM_CAPABILITIES) & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER != 0
}

/// A queue for commands on shared virtual memory.
///
/// # Errors
/// CL_INVALID_COMMAND_QUEUE; CL_INVALID_OPERATION if the device associated with the queue does not support SVM.
fn queue_for(queue: cl_command_queue) -> Result<Handle<Queue>, cl_int> {
    let queue = Handle::<Queue>::find(queue)?;
    if supports(&queue.device) { Ok(queue) } else { Err(CL_INVALID_OPERATION) }
}

/// The region of a command that takes nothing but shared virtual memory.
///
/// # Errors
/// CL_INVALID_VALUE if svm_ptr is NULL; if it is not in shared virtual memory, or the region is not within one
/// allocation.
pub(super) fn region_of(queue: &Queue, pointer: *const c_void, size: usize) -> Result<Region, cl_int> {
    queue.context.client.svm_region(pointer.addr(), size)?.ok_or(CL_INVALID_VALUE)
}

/// clSVMAlloc.
pub unsafe extern "C" fn clSVMAlloc(
    context: cl_context,
    flags: cl_svm_mem_flags,
    size: usize,
    alignment: cl_uint,
) -> *mut c_void {
    // SAFETY: null.
    unsafe {
        guard::create("clSVMAlloc", ptr::null_mut(), || {
            let context = Handle::<Context>::find(context)?;
            // Returns NULL if no device in context supports SVM.
            if !context.devices.iter().any(|device| supports(device)) {
                return Err(CL_INVALID_OPERATION);
            }
            // Returns NULL if values specified in flags are not valid, or if they ask for what no device in context
            // has: here that is all but coarse-grain buffers.
            const ACCESS: u64 = CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY;
            const FINE: u64 = CL_MEM_SVM_FINE_GRAIN_BUFFER | CL_MEM_SVM_ATOMICS;
            if flags & !(ACCESS | FINE) != 0 || (flags & ACCESS).count_ones() > 1 {
                return Err(CL_INVALID_VALUE);
            }
            if flags & FINE != 0 {
                return Err(CL_INVALID_OPERATION);
            }
            // Returns NULL if size is 0 or greater than CL_DEVICE_MAX_MEM_ALLOC_SIZE for any device in context.
            if size == 0 || context.devices.iter().any(|device| size as u64 > device.limits.max_alloc) {
                return Err(CL_INVALID_VALUE);
            }
            // Returns NULL if alignment is not a power of two. The server's implementation checks the upper limit.
            if alignment != 0 && !alignment.is_power_of_two() {
                return Err(CL_INVALID_VALUE);
            }
            let address = context.client.svm_alloc(flags, size, alignment, host::map_at)?;
            Ok(ptr::with_exposed_provenance_mut(address))
        })
    }
}

/// clSVMFree, which returns nothing. Freeing NULL is allowed.
pub unsafe extern "C" fn clSVMFree(context: cl_context, svm_pointer: *mut c_void) {
    guard::status("clSVMFree", || {
        let context = Handle::<Context>::find(context)?;
        let freed = svm_pointer.is_null() || context.client.svm_free(svm_pointer.addr());
        if freed { Ok(()) } else { Err(CL_INVALID_VALUE) }
    });
}

/// clEnqueueSVMFree.
pub unsafe extern "C" fn clEnqueueSVMFree(
    queue: cl_command_queue,
    num_svm_pointers: cl_uint,
    svm_pointers: *mut *mut c_void,
    pfn_free_func: Option<FreeFunction>,
    user_data: *mut c_void,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueSVMFree", || {
        let queue = queue_for(queue)?;
        // CL_INVALID_VALUE if num_svm_pointers is 0 and svm_pointers is non-NULL, or if svm_pointers is NULL and
        // num_svm_pointers is not 0.
        if (num_svm_pointers == 0) != svm_pointers.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        // SAFETY: the caller's promise: a list that is not null has so many entries.
        let pointers = (0..num_svm_pointers as usize).map(|index| Raw::new(unsafe { svm_pointers.add(index).read() }));
        let pointers: Vec<Raw> = pointers.collect();
        // SAFETY: the caller's promise.
        let request = unsafe { Request::read(&queue, num_events, wait_list, event)? };
        let callback = pfn_free_func.map(|function| Callback::new(function, user_data));
        let awaited = callback.is_some();
        // The application may use the queue in the callback, even if it has released it by then.
        let kept = queue.clone();
        let free = move || match callback {
            Some(callback) => {
                let (function, user_data) = callback.parts();
                let mut pointers: Vec<_> = pointers.into_iter().map(Raw::get).collect();
                let list = if pointers.is_empty() { ptr::null_mut() } else { pointers.as_mut_ptr() };
                // SAFETY: the application gave this function and argument for this; the list has as many entries.
                unsafe { function(kept.raw(), num_svm_pointers, list, user_data) };
            }
            None => {
                for pointer in pointers {
                    kept.context.client.svm_free(pointer.get().addr());
                }
            }
        };
        request.run(&queue, |order| queue.client.enqueue_svm_free(free, awaited, order))
    })
}

/// # Errors
/// As said below, of a copy that is enqueued or recorded.
pub(super) fn check_copy(dst_ptr: *const c_void, src_ptr: *const c_void, size: usize) -> Result<(), cl_int> {
    // CL_INVALID_VALUE if dst_ptr or src_ptr is NULL.
    if dst_ptr.is_null() || src_ptr.is_null() {
        return Err(CL_INVALID_VALUE);
    }
    // CL_MEM_COPY_OVERLAP if the values specified for dst_ptr, src_ptr and size result in an overlapping copy.
    if dst_ptr.addr().abs_diff(src_ptr.addr()) < size {
        return Err(CL_MEM_COPY_OVERLAP);
    }
    Ok(())
}

/// clEnqueueSVMMemcpy.
pub unsafe extern "C" fn clEnqueueSVMMemcpy(
    queue: cl_command_queue,
    blocking: cl_bool,
    dst_ptr: *mut c_void,
    src_ptr: *const c_void,
    size: usize,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueSVMMemcpy", || {
        let queue = queue_for(queue)?;
        // SAFETY: the caller's promise.
        let request = unsafe { Request::read(&queue, num_events, wait_list, event)? };
        check_copy(dst_ptr, src_ptr, size)?;
        let blocking = blocking != CL_FALSE;
        if size == 0 {
            let command = CL_COMMAND_SVM_MEMCPY;
            return request.run(&queue, |order| queue.client.enqueue_svm_nothing(command, blocking, order));
        }
        // Neither a slice nor memory is longer than this.
        if isize::try_from(size).is_err() {
            return Err(CL_INVALID_VALUE);
        }
        let context = &queue.context.client;
        let target = match context.svm_region(dst_ptr.addr(), size)? {
            Some(region) => Target::Svm(region),
            // SAFETY: the caller's promise, until the command has ended.
            None => Target::Host(unsafe { host::target(dst_ptr, region::Region::flat(size)) }),
        };
        let source = match context.svm_region(src_ptr.addr(), size)? {
            Some(region) => Source::Svm(region),
            // SAFETY: as above.
            None => Source::Host(unsafe { host::source(src_ptr, region::Region::flat(size)) }),
        };
        request.run(&queue, |order| queue.client.enqueue_svm_copy(target, source, size, blocking, order))
    })
}

/// clEnqueueSVMMemFill.
pub unsafe extern "C" fn clEnqueueSVMMemFill(
    queue: cl_command_queue,
    svm_ptr: *mut c_void,
    pattern: *const c_void,
    pattern_size: usize,
    size: usize,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueSVMMemFill", || {
        let queue = queue_for(queue)?;
        // SAFETY: the caller's promise.
        let request = unsafe { Request::read(&queue, num_events, wait_list, event)? };
        // CL_INVALID_VALUE if svm_ptr is NULL or not aligned to pattern_size bytes, if size is not a multiple of
        // pattern_size, or if pattern is not valid. SAFETY: the caller's promise.
        let pattern = unsafe { copies::pattern(pattern, pattern_size, (svm_ptr.addr(), size))? };
        let region = region_of(&queue, svm_ptr, size)?;
        if size == 0 {
            let command = CL_COMMAND_SVM_MEMFILL;
            return request.run(&queue, |order| queue.client.enqueue_svm_nothing(command, false, order));
        }
        request.run(&queue, |order| queue.client.enqueue_svm_fill(&region, pattern, size, order))
    })
}

/// clEnqueueSVMMap.
pub unsafe extern "C" fn clEnqueueSVMMap(
    queue: cl_command_queue,
    blocking: cl_bool,
    flags: cl_map_flags,
    svm_ptr: *mut c_void,
    size: usize,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueSVMMap", || {
        let queue = queue_for(queue)?;
        // SAFETY: the caller's promise.
        let request = unsafe { Request::read(&queue, num_events, wait_list, event)? };
        // CL_INVALID_VALUE if size is 0 or if values specified in map_flags are not valid: an invalidated region can be
        // neither read nor kept.
        let kept = flags & (CL_MAP_READ | CL_MAP_WRITE) != 0;
        let invalidate = flags & CL_MAP_WRITE_INVALIDATE_REGION != 0;
        let unknown = flags & !(CL_MAP_READ | CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION) != 0;
        if size == 0 || unknown || invalidate && kept {
            return Err(CL_INVALID_VALUE);
        }
        let region = region_of(&queue, svm_ptr, size)?;
        let blocking = blocking != CL_FALSE;
        request.run(&queue, |order| queue.client.enqueue_svm_map(&region, size, flags, blocking, order))
    })
}

/// clEnqueueSVMUnmap.
pub unsafe extern "C" fn clEnqueueSVMUnmap(
    queue: cl_command_queue,
    svm_ptr: *mut c_void,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueSVMUnmap", || {
        let queue = queue_for(queue)?;
        // SAFETY: the caller's promise.
        let request = unsafe { Request::read(&queue, num_events, wait_list, event)? };
        // CL_INVALID_VALUE if svm_ptr is NULL, and here also if nothing is mapped there.
        let region = region_of(&queue, svm_ptr, 0)?;
        request.run(&queue, |order| queue.client.enqueue_svm_unmap(&region, order))
    })
}

/// clEnqueueSVMMigrateMem.
pub unsafe extern "C" fn clEnqueueSVMMigrateMem(
    queue: cl_command_queue,
    num_svm_pointers: cl_uint,
    svm_pointers: *mut *const c_void,
    sizes: *const usize,
    flags: cl_mem_migration_flags,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueSVMMigrateMem", || {
        let queue = queue_for(queue)?;
        // SAFETY: the caller's promise.
        let request = unsafe { Request::read(&queue, num_events, wait_list, event)? };
        // CL_INVALID_VALUE if num_svm_pointers is zero or svm_pointers is NULL, or if flags has others than the defined
        // bits.
        let known = CL_MIGRATE_MEM_OBJECT_HOST | CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED;
        if num_svm_pointers == 0 || svm_pointers.is_null() || flags & !known != 0 {
            return Err(CL_INVALID_VALUE);
        }
        for index in 0..num_svm_pointers as usize {
            // SAFETY: the caller's promise: lists that are not null have so many entries.
            let (pointer, size) =
                unsafe { (svm_pointers.add(index).read(), if sizes.is_null() { 0 } else { sizes.add(index).read() }) };
            // CL_INVALID_VALUE if sizes[i] is non-zero and the range is not contained within an existing clSVMAlloc
            // allocation.
            region_of(&queue, pointer, size)?;
        }
        request.run(&queue, |order| queue.client.enqueue_svm_migrate(order))
    })
}

/// clSetKernelExecInfo.
pub unsafe extern "C" fn clSetKernelExecInfo(
    kernel: cl_kernel,
    name: cl_kernel_exec_info,
    size: usize,
    value: *const c_void,
) -> cl_int {
    guard::status("clSetKernelExecInfo", || {
        let kernel = Handle::<Kernel>::find(kernel)?;
        // CL_INVALID_OPERATION if no devices in the context associated with kernel support SVM.
        if !kernel.program.context.devices.iter().any(|device| supports(device)) {
            return Err(CL_INVALID_OPERATION);
        }
        match name {
            // SAFETY: the caller's promise.
            CL_KERNEL_EXEC_INFO_SVM_PTRS => unsafe { set_exec_info_pointers(&kernel, size, value) },
            CL_KERNEL_EXEC_INFO_SVM_FINE_GRAIN_SYSTEM => {
                // CL_INVALID_VALUE if param_value is NULL or if the size specified by param_value_size is not valid.
                if value.is_null() || size != size_of::<cl_bool>() {
                    return Err(CL_INVALID_VALUE);
                }
                // CL_INVALID_OPERATION if param_value is CL_TRUE but no devices support fine-grain system SVM
                // allocations: none does from another machine. CL_FALSE is what they do anyway. SAFETY: the caller's
                // promise; of the size just checked.
                if unsafe { value.cast::<cl_bool>().read_unaligned() } == CL_FALSE {
                    Ok(())
                } else {
                    Err(CL_INVALID_OPERATION)
                }
            }
            // CL_INVALID_VALUE if param_name is not valid.
            _ => Err(CL_INVALID_VALUE),
        }
    })
}

/// clSetKernelExecInfo with CL_KERNEL_EXEC_INFO_SVM_PTRS.
///
/// # Errors
/// CL_INVALID_VALUE if param_value is NULL or param_value_size is not that of a list of pointers; if one of them is not
/// in shared virtual memory. Neither of the two takes back what was told before.
///
/// # Safety
/// `value` is null or valid for reads of `size` bytes.
unsafe fn set_exec_info_pointers(kernel: &Kernel, size: usize, value: *const c_void) -> Result<(), cl_int> {
    if value.is_null() != (size == 0) || !size.is_multiple_of(size_of::<*const c_void>()) {
        return Err(CL_INVALID_VALUE);
    }
    let list = value.cast::<*const c_void>();
    // SAFETY: the caller's promise; below the size.
    let pointers = (0..size / size_of::<*const c_void>()).map(|index| unsafe { list.add(index).read_unaligned() });
    let context = &kernel.program.context.client;
    let regions = pointers.map(|pointer| context.svm_region(pointer.addr(), 0)?.ok_or(CL_INVALID_VALUE));
    kernel.client.set_svm_pointers(&regions.collect::<Result<Vec<_>, cl_int>>()?)
}

/// clSetKernelArgSVMPointer.
pub unsafe extern "C" fn clSetKernelArgSVMPointer(
    kernel: cl_kernel,
    arg_index: cl_uint,
    arg_value: *const c_void,
) -> cl_int {
    guard::status("clSetKernelArgSVMPointer", || {
        let kernel = Handle::<Kernel>::find(kernel)?;
        let context = &kernel.program.context;
        // CL_INVALID_OPERATION if no devices in the context associated with kernel support SVM.
        if !context.devices.iter().any(|device| supports(device)) {
            return Err(CL_INVALID_OPERATION);
        }
        // CL_INVALID_ARG_INDEX if arg_index is not a valid argument index.
        kernel.client.arg_kind(arg_index).ok_or(CL_INVALID_ARG_INDEX)?;
        if arg_value.is_null() {
            return kernel.client.set_arg(arg_index, Arg::Svm(None));
        }
        // CL_INVALID_ARG_VALUE if arg_value is not a valid value: here, one in shared virtual memory.
        let region = context.client.svm_region(arg_value.addr(), 0)?.ok_or(CL_INVALID_ARG_VALUE)?;
        kernel.client.set_arg(arg_index, Arg::Svm(Some(&region)))
    })
}

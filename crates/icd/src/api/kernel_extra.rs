//! Functions of kernels since OpenCL 2.0: clones, sub-groups, suggested sizes.

use std::ffi::c_void;

use ropeway_abi::{
    CL_DEVICE_MAX_NUM_SUB_GROUPS, CL_INVALID_GLOBAL_WORK_SIZE, CL_INVALID_OPERATION, CL_INVALID_VALUE,
    CL_INVALID_WORK_DIMENSION, CL_KERNEL_COMPILE_NUM_SUB_GROUPS, CL_KERNEL_COMPILE_SUB_GROUP_SIZE_INTEL,
    CL_KERNEL_LOCAL_SIZE_FOR_SUB_GROUP_COUNT, CL_KERNEL_MAX_NUM_SUB_GROUPS, CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE,
    CL_KERNEL_SUB_GROUP_COUNT_FOR_NDRANGE, cl_command_queue, cl_device_id, cl_int, cl_kernel, cl_kernel_sub_group_info,
    cl_uint,
};
use ropeway_protocol::types::NdRange;

use super::command::{check_global, ready, sizes};
use super::kernel::device_of;
use crate::guard;
use crate::handle::Handle;
use crate::info::{Answered, Info};
use crate::objects::Kernel;

/// clCloneKernel.
pub unsafe extern "C" fn clCloneKernel(source_kernel: cl_kernel, errcode_ret: *mut cl_int) -> cl_kernel {
    // SAFETY: the caller's promise.
    unsafe {
        guard::create("clCloneKernel", errcode_ret, || {
            let source = Handle::<Kernel>::find(source_kernel)?;
            // Devices of earlier versions have no such function, and refuse.
            if !source.program.context.devices.iter().any(|device| device.limits.version >= (2, 1)) {
                return Err(CL_INVALID_OPERATION);
            }
            let client = source.client.copy()?;
            Ok(Handle::new(&source, Kernel { client, program: source.program.clone() })?.give())
        })
    }
}

/// clGetKernelSubGroupInfo.
pub unsafe extern "C" fn clGetKernelSubGroupInfo(
    kernel: cl_kernel,
    device: cl_device_id,
    name: cl_kernel_sub_group_info,
    input_size: usize,
    input: *const c_void,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    // SAFETY: the caller's promise.
    let info = unsafe { Info::new(size, value, size_ret) };
    guard::status("clGetKernelSubGroupInfo", || {
        let kernel = Handle::<Kernel>::find(kernel)?;
        // SAFETY: the caller's promise.
        unsafe { answer_sub_groups(&kernel, device, name, (input_size, input), size, info) }
    })
}

/// clGetKernelSubGroupInfoKHR (cl_khr_subgroups): as [`clGetKernelSubGroupInfo`].
pub unsafe extern "C" fn clGetKernelSubGroupInfoKHR(
    kernel: cl_kernel,
    device: cl_device_id,
    name: cl_kernel_sub_group_info,
    input_size: usize,
    input: *const c_void,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    // SAFETY: the caller's promise.
    unsafe { clGetKernelSubGroupInfo(kernel, device, name, input_size, input, size, value, size_ret) }
}

/// # Safety
/// The input is null or valid for reads of its size.
unsafe fn answer_sub_groups(
    kernel: &Kernel,
    device: cl_device_id,
    name: cl_kernel_sub_group_info,
    (input_size, input): (usize, *const c_void),
    room: usize,
    info: Info,
) -> Result<Answered, cl_int> {
    const WORD: usize = size_of::<usize>();
    let device = device_of(kernel, device)?;
    // CL_INVALID_OPERATION if device does not support subgroups.
    if device.number(CL_DEVICE_MAX_NUM_SUB_GROUPS) == 0 {
        return Err(CL_INVALID_OPERATION);
    }
    let takes_input = match name {
        CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE
        | CL_KERNEL_SUB_GROUP_COUNT_FOR_NDRANGE
        | CL_KERNEL_LOCAL_SIZE_FOR_SUB_GROUP_COUNT => true,
        CL_KERNEL_MAX_NUM_SUB_GROUPS | CL_KERNEL_COMPILE_NUM_SUB_GROUPS | CL_KERNEL_COMPILE_SUB_GROUP_SIZE_INTEL => {
            false
        }
        // CL_INVALID_VALUE if param_name is not valid.
        _ => return Err(CL_INVALID_VALUE),
    };
    let mut values = Vec::new();
    if takes_input {
        // CL_INVALID_VALUE if input_value is NULL, or input_value_size is not that of the sizes of one to three
        // dimensions (of one number of sub-groups).
        let most = if name == CL_KERNEL_LOCAL_SIZE_FOR_SUB_GROUP_COUNT { 1 } else { 3 };
        if input.is_null() || !input_size.is_multiple_of(WORD) || !(1..=most).contains(&(input_size / WORD)) {
            return Err(CL_INVALID_VALUE);
        }
        for at in 0..input_size / WORD {
            // SAFETY: below the input's size, by the caller's promise.
            values.push(unsafe { input.cast::<usize>().add(at).read_unaligned() } as u64);
        }
    }
    // One size; as many as the application has room for, up to three, where the answer is a local size.
    let wanted = match name {
        CL_KERNEL_LOCAL_SIZE_FOR_SUB_GROUP_COUNT => (room / WORD).clamp(1, 3),
        _ => 1,
    };
    let answer = kernel.client.sub_group_info(&device, name, &values, wanted as u32)?;
    info.slice(&answer.into_iter().map(|value| value as usize).collect::<Vec<_>>())
}

/// clGetKernelSuggestedLocalWorkSize (cl_khr_suggested_local_work_size).
pub unsafe extern "C" fn clGetKernelSuggestedLocalWorkSize(
    queue: cl_command_queue,
    kernel: cl_kernel,
    work_dim: cl_uint,
    global_work_offset: *const usize,
    global_work_size: *const usize,
    suggested_local_work_size: *mut usize,
) -> cl_int {
    guard::status("clGetKernelSuggestedLocalWorkSize", || {
        let (queue, kernel) = ready(queue, kernel)?;
        if !queue.device.has_extension("cl_khr_suggested_local_work_size") {
            return Err(CL_INVALID_OPERATION);
        }
        // CL_INVALID_WORK_DIMENSION if work_dim is not a valid value.
        if !(1..=3).contains(&work_dim) {
            return Err(CL_INVALID_WORK_DIMENSION);
        }
        let dims = work_dim as usize;
        // SAFETY: the caller's promise: a list that is not null has work_dim entries.
        let given = |list: *const usize| unsafe { sizes(list, dims) };
        // CL_INVALID_GLOBAL_WORK_SIZE if global_work_size is NULL or any of the values is 0.
        let global = given(global_work_size).ok_or(CL_INVALID_GLOBAL_WORK_SIZE)?;
        if global.iter().take(dims).any(|&size| size == 0) {
            return Err(CL_INVALID_GLOBAL_WORK_SIZE);
        }
        // CL_INVALID_VALUE if suggested_local_work_size is NULL.
        if suggested_local_work_size.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        let range = NdRange { dims: work_dim as u8, offset: given(global_work_offset), global, local: None };
        check_global(&queue.device, &range)?;
        let local = queue.client.suggested_local_size(&kernel.client, range)?;
        for (index, &size) in local.iter().take(dims).enumerate() {
            // SAFETY: the caller's promise: room for work_dim entries.
            unsafe { suggested_local_work_size.add(index).write(size as usize) };
        }
        Ok(())
    })
}

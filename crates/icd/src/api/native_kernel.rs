//! Native kernels (OpenCL 3.0 API, section 5.10).

use std::ffi::c_void;
use std::ptr;

use ropeway_abi::{
    CL_DEVICE_EXECUTION_CAPABILITIES, CL_EXEC_NATIVE_KERNEL, CL_INVALID_OPERATION, CL_INVALID_VALUE,
    CL_MEM_OBJECT_ALLOCATION_FAILURE, cl_command_queue, cl_event, cl_int, cl_mem, cl_uint,
};

use super::order::{Request, buffer_for};
use crate::handle::Handle;
use crate::objects::Queue;
use crate::{guard, host};

/// The function that the application wants called.
type UserFunction = unsafe extern "C" fn(*mut c_void);

/// A copy of the application's arguments, aligned for every type.
struct Arguments(Vec<u128>);

impl Arguments {
    /// # Safety
    /// `args` is valid for reads of `len` bytes, if that is not 0.
    unsafe fn copied(args: *const c_void, len: usize) -> Self {
        let mut words = vec![0; len.div_ceil(size_of::<u128>())];
        if len == 0 {
            return Self(words);
        }
        // SAFETY: the copy is at least as long; the rest is the caller's promise.
        unsafe { ptr::copy_nonoverlapping(args.cast::<u8>(), words.as_mut_ptr().cast::<u8>(), len) };
        Self(words)
    }

    /// Puts an address in the place of a memory object's handle.
    ///
    /// # Errors
    /// CL_INVALID_VALUE for a place that is not within the arguments.
    fn put(&mut self, at: usize, address: usize) -> Result<(), cl_int> {
        let bytes = address.to_ne_bytes();
        let whole = self.0.len() * size_of::<u128>();
        if at.checked_add(bytes.len()).is_none_or(|end| end > whole) {
            return Err(CL_INVALID_VALUE);
        }
        // SAFETY: the place lies within the words, by the check above.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.0.as_mut_ptr().cast::<u8>().add(at), bytes.len()) };
        Ok(())
    }
}

/// clEnqueueNativeKernel.
pub unsafe extern "C" fn clEnqueueNativeKernel(
    queue: cl_command_queue,
    user_func: Option<UserFunction>,
    args: *mut c_void,
    cb_args: usize,
    num_mem_objects: cl_uint,
    mem_list: *const cl_mem,
    args_mem_loc: *mut *const c_void,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueNativeKernel", || {
        let queue = Handle::<Queue>::find(queue)?;
        // CL_INVALID_VALUE if user_func is NULL.
        let user_func = user_func.ok_or(CL_INVALID_VALUE)?;
        // CL_INVALID_VALUE if args is a NULL value and cb_args > 0, or if args is a NULL value and num_mem_objects > 0;
        // if args is not NULL and cb_args is 0.
        if args.is_null() != (cb_args == 0) || args.is_null() && num_mem_objects > 0 {
            return Err(CL_INVALID_VALUE);
        }
        // CL_INVALID_VALUE if num_mem_objects > 0 and mem_list or args_mem_loc are NULL, or if num_mem_objects = 0 and
        // mem_list or args_mem_loc are not NULL.
        let any = num_mem_objects > 0;
        if mem_list.is_null() == any || args_mem_loc.is_null() == any {
            return Err(CL_INVALID_VALUE);
        }
        // CL_INVALID_OPERATION if the device associated with command_queue cannot execute the native kernel.
        if queue.device.client.number(CL_DEVICE_EXECUTION_CAPABILITIES) & CL_EXEC_NATIVE_KERNEL == 0 {
            return Err(CL_INVALID_OPERATION);
        }
        // SAFETY: the caller's promise.
        let mut arguments = unsafe { Arguments::copied(args, cb_args) };
        let mut used = Vec::new();
        for index in 0..num_mem_objects as usize {
            // SAFETY: the caller's promise, for both lists.
            let (handle, place) = unsafe { (mem_list.add(index).read(), args_mem_loc.add(index).read()) };
            // CL_INVALID_MEM_OBJECT if one or more memory objects specified in mem_list are not valid or are not buffer
            // objects.
            let buffer = buffer_for(&queue, handle)?;
            let memory = host::own(buffer.client.size()).ok_or(CL_MEM_OBJECT_ALLOCATION_FAILURE)?;
            let at = place.addr().checked_sub(args.addr()).filter(|&at| at < cb_args).ok_or(CL_INVALID_VALUE)?;
            arguments.put(at, memory.address())?;
            used.push((buffer.client.clone(), memory));
        }
        // SAFETY: the caller's promise.
        let request = unsafe { Request::read(&queue, num_events, wait_list, event)? };
        let has_args = !args.is_null();
        let run = Box::new(move || {
            let mut arguments = arguments;
            let args = if has_args { arguments.0.as_mut_ptr().cast() } else { ptr::null_mut() };
            // SAFETY: the application gave the function for this; the arguments are its own, with the addresses of
            // memory that stays until the function has returned.
            unsafe { user_func(args) };
        });
        request.run(&queue, |order| queue.client.enqueue_native_kernel(used, run, order))
    })
}

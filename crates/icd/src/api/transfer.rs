//! Reading, writing, copying and filling buffers (OpenCL 3.0 API, section 5.2).

use std::ffi::c_void;

use ropeway_abi::{
    CL_COMMAND_READ_BUFFER, CL_COMMAND_WRITE_BUFFER, CL_FALSE, CL_INVALID_OPERATION, CL_INVALID_VALUE,
    CL_MEM_HOST_NO_ACCESS, CL_MEM_HOST_READ_ONLY, CL_MEM_HOST_WRITE_ONLY, cl_bool, cl_command_queue, cl_event, cl_int,
    cl_mem, cl_uint,
};

use ropeway_client::region::Region;
use ropeway_client::transfer::Part;

use super::copies;
use super::order::{Request, buffer_for, check_region};
use crate::handle::Handle;
use crate::objects::{Memory, Queue};
use crate::{guard, host};

/// clEnqueueReadBuffer.
pub unsafe extern "C" fn clEnqueueReadBuffer(
    queue: cl_command_queue,
    buffer: cl_mem,
    blocking: cl_bool,
    offset: usize,
    size: usize,
    ptr: *mut c_void,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueReadBuffer", || {
        let queue = Handle::<Queue>::find(queue)?;
        let buffer = buffer_for(&queue, buffer)?;
        // CL_INVALID_VALUE if the region is out of bounds.
        check_region(&buffer, offset, size)?;
        let part = Part::Bytes(&buffer.client, offset);
        let in_host = InHost { ptr, first: 0, region: Region::flat(size) };
        let events = (num_events, wait_list, event);
        // SAFETY: the caller's promise.
        unsafe { read(&queue, (&buffer, part), in_host, blocking, events, CL_COMMAND_READ_BUFFER) }
    })
}

/// clEnqueueWriteBuffer.
pub unsafe extern "C" fn clEnqueueWriteBuffer(
    queue: cl_command_queue,
    buffer: cl_mem,
    blocking: cl_bool,
    offset: usize,
    size: usize,
    ptr: *const c_void,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueWriteBuffer", || {
        let queue = Handle::<Queue>::find(queue)?;
        let buffer = buffer_for(&queue, buffer)?;
        // CL_INVALID_VALUE if the region is out of bounds.
        check_region(&buffer, offset, size)?;
        let part = Part::Bytes(&buffer.client, offset);
        let in_host = InHost { ptr, first: 0, region: Region::flat(size) };
        let events = (num_events, wait_list, event);
        // SAFETY: the caller's promise.
        unsafe { write(&queue, (&buffer, part), in_host, blocking, events, CL_COMMAND_WRITE_BUFFER) }
    })
}

/// Where the data of a read or a write lie in the host's memory.
pub struct InHost<P> {
    /// The pointer that the application gave.
    pub ptr: P,
    /// Bytes from `ptr` to the region's first byte.
    pub first: usize,
    pub region: Region,
}

/// The `num_events_in_wait_list`, `event_wait_list` and `event` arguments.
pub type Events = (cl_uint, *const cl_event, *mut cl_event);

/// Reads a part of `memory`, once the part and the region in the host's memory have been checked.
///
/// # Errors
/// As said of [`request`] and of the command.
///
/// # Safety
/// As the specification says of `ptr` and of the events.
#[inline]
pub unsafe fn read(
    queue: &Handle<Queue>,
    (memory, part): (&Memory, Part<'_>),
    in_host: InHost<*mut c_void>,
    blocking: cl_bool,
    events: Events,
    command: cl_uint,
) -> Result<(), cl_int> {
    let InHost { ptr, first, region } = in_host;
    // CL_INVALID_OPERATION if the object was created with CL_MEM_HOST_WRITE_ONLY or CL_MEM_HOST_NO_ACCESS.
    // SAFETY: the caller's promise.
    let request = unsafe { request(queue, memory, ptr, CL_MEM_HOST_WRITE_ONLY, events)? };
    // SAFETY: the caller's promise, until the command has ended.
    let target = unsafe { host::target(ptr.wrapping_byte_add(first), region) };
    request.run(queue, |order| queue.client.enqueue_read(part, target, blocking != CL_FALSE, order, command))
}

/// Writes a part of `memory`, as [`read`] reads it.
///
/// # Errors
/// As said of [`request`] and of the command.
///
/// # Safety
/// As the specification says of `ptr` and of the events.
#[inline]
pub unsafe fn write(
    queue: &Handle<Queue>,
    (memory, part): (&Memory, Part<'_>),
    in_host: InHost<*const c_void>,
    blocking: cl_bool,
    events: Events,
    command: cl_uint,
) -> Result<(), cl_int> {
    let InHost { ptr, first, region } = in_host;
    // CL_INVALID_OPERATION if the object was created with CL_MEM_HOST_READ_ONLY or CL_MEM_HOST_NO_ACCESS.
    // SAFETY: the caller's promise.
    let request = unsafe { request(queue, memory, ptr, CL_MEM_HOST_READ_ONLY, events)? };
    // SAFETY: the caller's promise, until the command has ended.
    let source = unsafe { host::source(ptr.wrapping_byte_add(first), region) };
    request.run(queue, |order| queue.client.enqueue_write(part, source, blocking != CL_FALSE, order, command))
}

/// The request of a read or a write.
///
/// # Errors
/// CL_INVALID_VALUE if ptr is a NULL value; those of [`Request::read`]; those of [`check_access`].
///
/// # Safety
/// As of [`Request::read`].
#[inline]
unsafe fn request(
    queue: &Queue,
    memory: &Memory,
    ptr: *const c_void,
    forbidden: u64,
    (num_events, wait_list, event): Events,
) -> Result<Request, cl_int> {
    if ptr.is_null() {
        return Err(CL_INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    let request = unsafe { Request::read(queue, num_events, wait_list, event)? };
    check_access(memory, forbidden)?;
    Ok(request)
}

/// # Errors
/// CL_INVALID_OPERATION if the buffer was created with `forbidden` or with CL_MEM_HOST_NO_ACCESS.
pub fn check_access(buffer: &Memory, forbidden: u64) -> Result<(), cl_int> {
    let forbidden = forbidden | CL_MEM_HOST_NO_ACCESS;
    if buffer.client.flags() & forbidden == 0 { Ok(()) } else { Err(CL_INVALID_OPERATION) }
}

/// clEnqueueCopyBuffer.
pub unsafe extern "C" fn clEnqueueCopyBuffer(
    queue: cl_command_queue,
    source: cl_mem,
    target: cl_mem,
    source_offset: usize,
    target_offset: usize,
    size: usize,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueCopyBuffer", || {
        let queue = Handle::<Queue>::find(queue)?;
        let (source, target) = copies::copy(&queue, (source, target), (source_offset, target_offset), size)?;
        // SAFETY: the caller's promise.
        let request = unsafe { Request::read(&queue, num_events, wait_list, event)? };
        request.run(&queue, |order| {
            let (source, target) = ((&*source.client, source_offset), (&*target.client, target_offset));
            queue.client.enqueue_copy(source, target, size, order)
        })
    })
}

/// clEnqueueFillBuffer.
pub unsafe extern "C" fn clEnqueueFillBuffer(
    queue: cl_command_queue,
    buffer: cl_mem,
    pattern: *const c_void,
    pattern_size: usize,
    offset: usize,
    size: usize,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueFillBuffer", || {
        let queue = Handle::<Queue>::find(queue)?;
        let buffer = copies::fill(&queue, buffer, offset, size)?;
        // SAFETY: the caller's promise.
        let pattern = unsafe { copies::pattern(pattern, pattern_size, (offset, size))? };
        // SAFETY: the caller's promise.
        let request = unsafe { Request::read(&queue, num_events, wait_list, event)? };
        request.run(&queue, |order| queue.client.enqueue_fill(&buffer.client, pattern, offset, size, order))
    })
}

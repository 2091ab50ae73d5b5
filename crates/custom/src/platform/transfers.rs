//! Reads, writes, copies, fills and maps: all of them copies within this process, or nothing.

use std::ffi::c_void;
use std::sync::Arc;

use ropeway_abi as cl;

use super::commands::{Command, code};
use super::handle::get;
use super::info::write;
use super::memory::Memory;
use super::rect::Rect;
use crate::engine::queue::{Action, Work};
use crate::memory::{Range, Storage};

/// Copies of up to so many bytes are done by whoever finds them ready: waking a thread takes as long.
const QUICK: usize = 64 << 10;

fn sized(bytes: usize, work: Work) -> Action {
    if bytes <= QUICK { Action::Quick(work) } else { Action::Long(work) }
}

/// The bytes of a buffer.
///
/// # Safety
/// The handle is the worker's own.
unsafe fn range(memory: cl::cl_mem) -> Result<Range, cl::cl_int> {
    // SAFETY: by the promise of the caller.
    unsafe { get::<Memory, _>(memory) }.map(|memory| memory.range.clone()).ok_or(cl::CL_INVALID_MEM_OBJECT)
}

/// The program's memory as a range.
///
/// # Safety
/// There are `len` bytes at `at` until the command has ended.
unsafe fn host(at: *mut c_void, len: usize) -> Result<Range, cl::cl_int> {
    // SAFETY: by the promise of the caller.
    let storage: Arc<Storage> = unsafe { Storage::over(at, len) }.ok_or(cl::CL_INVALID_VALUE)?;
    Range::new(&storage, 0, len).ok_or(cl::CL_INVALID_VALUE)
}

fn copy(command: Command, kind: u32, (from, mut to): (Range, Range), blocking: bool) -> Result<(), cl::cl_int> {
    let action = sized(
        from.len(),
        Box::new(move || {
            to.copy_from(&from);
            cl::CL_COMPLETE
        }),
    );
    command.enqueue(kind, action, blocking)
}

fn copy_rect(
    command: Command,
    kind: u32,
    (from, from_rect): (Range, Rect),
    (to, to_rect): (Range, Rect),
    blocking: bool,
) -> Result<(), cl::cl_int> {
    let fits = |range: &Range, rect: &Rect| rect.end().is_some_and(|end| end <= range.len());
    if !fits(&from, &from_rect) || !fits(&to, &to_rect) {
        return Err(cl::CL_INVALID_VALUE);
    }
    let work: Work = Box::new(move || {
        let row = from_rect.row();
        for (source, target) in from_rect.rows().zip(to_rect.rows()) {
            // Both are there, as all rows end before the rectangle does.
            if let (Some(source), Some(mut target)) = (from.part(source, row), to.part(target, row)) {
                target.copy_from(&source);
            }
        }
        cl::CL_COMPLETE
    });
    command.enqueue(kind, sized(from_rect.bytes(), work), blocking)
}

/// A rectangle as an enqueue function names it: where it begins and how large it is, three numbers each, and its pitches.
///
/// # Safety
/// There are three numbers each.
unsafe fn rect(
    origin: *const usize,
    region: *const usize,
    (row_pitch, slice_pitch): (usize, usize),
) -> Result<Rect, cl::cl_int> {
    if origin.is_null() || region.is_null() {
        return Err(cl::CL_INVALID_VALUE);
    }
    // SAFETY: by the promise of the caller.
    let (origin, region) = unsafe { (origin.cast::<[usize; 3]>().read(), region.cast::<[usize; 3]>().read()) };
    Rect::new(origin, region, row_pitch, slice_pitch).ok_or(cl::CL_INVALID_VALUE)
}

/// clEnqueueReadBuffer.
pub(super) unsafe extern "C" fn clEnqueueReadBuffer(
    queue: cl::cl_command_queue,
    buffer: cl::cl_mem,
    blocking: cl::cl_bool,
    offset: usize,
    size: usize,
    into: *mut c_void,
    count: cl::cl_uint,
    list: *const cl::cl_event,
    event: *mut cl::cl_event,
) -> cl::cl_int {
    // SAFETY: as the worker calls it: handles of its own, memory until the command has ended.
    let read = || unsafe {
        let command = Command::new(queue, (count, list, event))?;
        let from = range(buffer)?.part(offset, size).ok_or(cl::CL_INVALID_VALUE)?;
        copy(command, cl::CL_COMMAND_READ_BUFFER, (from, host(into, size)?), blocking != 0)
    };
    code(read())
}

/// clEnqueueWriteBuffer.
pub(super) unsafe extern "C" fn clEnqueueWriteBuffer(
    queue: cl::cl_command_queue,
    buffer: cl::cl_mem,
    blocking: cl::cl_bool,
    offset: usize,
    size: usize,
    from: *const c_void,
    count: cl::cl_uint,
    list: *const cl::cl_event,
    event: *mut cl::cl_event,
) -> cl::cl_int {
    // SAFETY: as above; the memory is only read.
    let write = || unsafe {
        let command = Command::new(queue, (count, list, event))?;
        let to = range(buffer)?.part(offset, size).ok_or(cl::CL_INVALID_VALUE)?;
        copy(command, cl::CL_COMMAND_WRITE_BUFFER, (host(from.cast_mut(), size)?, to), blocking != 0)
    };
    code(write())
}

/// clEnqueueCopyBuffer.
pub(super) unsafe extern "C" fn clEnqueueCopyBuffer(
    queue: cl::cl_command_queue,
    source: cl::cl_mem,
    target: cl::cl_mem,
    source_offset: usize,
    target_offset: usize,
    size: usize,
    count: cl::cl_uint,
    list: *const cl::cl_event,
    event: *mut cl::cl_event,
) -> cl::cl_int {
    // SAFETY: as above.
    let enqueue = || unsafe {
        let command = Command::new(queue, (count, list, event))?;
        let from = range(source)?.part(source_offset, size).ok_or(cl::CL_INVALID_VALUE)?;
        let to = range(target)?.part(target_offset, size).ok_or(cl::CL_INVALID_VALUE)?;
        if from.overlaps(&to) {
            return Err(cl::CL_MEM_COPY_OVERLAP);
        }
        copy(command, cl::CL_COMMAND_COPY_BUFFER, (from, to), false)
    };
    code(enqueue())
}

/// clEnqueueFillBuffer.
pub(super) unsafe extern "C" fn clEnqueueFillBuffer(
    queue: cl::cl_command_queue,
    buffer: cl::cl_mem,
    pattern: *const c_void,
    pattern_size: usize,
    offset: usize,
    size: usize,
    count: cl::cl_uint,
    list: *const cl::cl_event,
    event: *mut cl::cl_event,
) -> cl::cl_int {
    // SAFETY: as above.
    let fill = || unsafe {
        let command = Command::new(queue, (count, list, event))?;
        let mut to = range(buffer)?.part(offset, size).ok_or(cl::CL_INVALID_VALUE)?;
        if pattern_size == 0 || !size.is_multiple_of(pattern_size) || !offset.is_multiple_of(pattern_size) {
            return Err(cl::CL_INVALID_VALUE);
        }
        // It may change as soon as this function returns.
        let pattern = host(pattern.cast_mut(), pattern_size)?.bytes().to_vec();
        let work: Work = Box::new(move || {
            for piece in to.bytes_mut().chunks_exact_mut(pattern.len()) {
                piece.copy_from_slice(&pattern);
            }
            cl::CL_COMPLETE
        });
        command.enqueue(cl::CL_COMMAND_FILL_BUFFER, sized(size, work), false)
    };
    code(fill())
}

/// clEnqueueReadBufferRect.
pub(super) unsafe extern "C" fn clEnqueueReadBufferRect(
    queue: cl::cl_command_queue,
    buffer: cl::cl_mem,
    blocking: cl::cl_bool,
    buffer_origin: *const usize,
    host_origin: *const usize,
    region: *const usize,
    buffer_row_pitch: usize,
    buffer_slice_pitch: usize,
    host_row_pitch: usize,
    host_slice_pitch: usize,
    into: *mut c_void,
    count: cl::cl_uint,
    list: *const cl::cl_event,
    event: *mut cl::cl_event,
) -> cl::cl_int {
    // SAFETY: as above.
    let read = || unsafe {
        let command = Command::new(queue, (count, list, event))?;
        let (buffer_pitches, host_pitches) =
            ((buffer_row_pitch, buffer_slice_pitch), (host_row_pitch, host_slice_pitch));
        let of_host = rect(host_origin, region, host_pitches)?;
        let to = host(into, of_host.end().ok_or(cl::CL_INVALID_VALUE)?)?;
        let from = (range(buffer)?, rect(buffer_origin, region, buffer_pitches)?);
        copy_rect(command, cl::CL_COMMAND_READ_BUFFER_RECT, from, (to, of_host), blocking != 0)
    };
    code(read())
}

/// clEnqueueWriteBufferRect.
pub(super) unsafe extern "C" fn clEnqueueWriteBufferRect(
    queue: cl::cl_command_queue,
    buffer: cl::cl_mem,
    blocking: cl::cl_bool,
    buffer_origin: *const usize,
    host_origin: *const usize,
    region: *const usize,
    buffer_row_pitch: usize,
    buffer_slice_pitch: usize,
    host_row_pitch: usize,
    host_slice_pitch: usize,
    from: *const c_void,
    count: cl::cl_uint,
    list: *const cl::cl_event,
    event: *mut cl::cl_event,
) -> cl::cl_int {
    // SAFETY: as above; the memory is only read.
    let write = || unsafe {
        let command = Command::new(queue, (count, list, event))?;
        let (buffer_pitches, host_pitches) =
            ((buffer_row_pitch, buffer_slice_pitch), (host_row_pitch, host_slice_pitch));
        let of_host = rect(host_origin, region, host_pitches)?;
        let from = host(from.cast_mut(), of_host.end().ok_or(cl::CL_INVALID_VALUE)?)?;
        let to = (range(buffer)?, rect(buffer_origin, region, buffer_pitches)?);
        copy_rect(command, cl::CL_COMMAND_WRITE_BUFFER_RECT, (from, of_host), to, blocking != 0)
    };
    code(write())
}

/// clEnqueueCopyBufferRect. Whether rectangles of one buffer overlap, the client has seen to.
pub(super) unsafe extern "C" fn clEnqueueCopyBufferRect(
    queue: cl::cl_command_queue,
    source: cl::cl_mem,
    target: cl::cl_mem,
    source_origin: *const usize,
    target_origin: *const usize,
    region: *const usize,
    source_row_pitch: usize,
    source_slice_pitch: usize,
    target_row_pitch: usize,
    target_slice_pitch: usize,
    count: cl::cl_uint,
    list: *const cl::cl_event,
    event: *mut cl::cl_event,
) -> cl::cl_int {
    // SAFETY: as above.
    let enqueue = || unsafe {
        let command = Command::new(queue, (count, list, event))?;
        let from = (range(source)?, rect(source_origin, region, (source_row_pitch, source_slice_pitch))?);
        let to = (range(target)?, rect(target_origin, region, (target_row_pitch, target_slice_pitch))?);
        copy_rect(command, cl::CL_COMMAND_COPY_BUFFER_RECT, from, to, false)
    };
    code(enqueue())
}

/// clEnqueueMapBuffer: the buffer's own memory.
pub(super) unsafe extern "C" fn clEnqueueMapBuffer(
    queue: cl::cl_command_queue,
    buffer: cl::cl_mem,
    blocking: cl::cl_bool,
    _: cl::cl_map_flags,
    offset: usize,
    size: usize,
    count: cl::cl_uint,
    list: *const cl::cl_event,
    event: *mut cl::cl_event,
    status: *mut cl::cl_int,
) -> *mut c_void {
    // SAFETY: as above.
    let map = || unsafe {
        let command = Command::new(queue, (count, list, event))?;
        let mapped = range(buffer)?.part(offset, size).ok_or(cl::CL_INVALID_VALUE)?;
        let at = mapped.pointer();
        let nothing: Work = Box::new(|| cl::CL_COMPLETE);
        command.enqueue(cl::CL_COMMAND_MAP_BUFFER, Action::Quick(nothing), blocking != 0).map(|()| at)
    };
    let (at, code) = match map() {
        Ok(at) => (at.cast(), cl::CL_SUCCESS),
        Err(code) => (std::ptr::null_mut(), code),
    };
    // SAFETY: null or valid for a write.
    unsafe { write(status, code) };
    at
}

/// clEnqueueUnmapMemObject: nothing to do.
pub(super) unsafe extern "C" fn clEnqueueUnmapMemObject(
    queue: cl::cl_command_queue,
    memory: cl::cl_mem,
    _: *mut c_void,
    count: cl::cl_uint,
    list: *const cl::cl_event,
    event: *mut cl::cl_event,
) -> cl::cl_int {
    // SAFETY: as above.
    let unmap = || unsafe {
        let command = Command::new(queue, (count, list, event))?;
        range(memory)?;
        command.enqueue(cl::CL_COMMAND_UNMAP_MEM_OBJECT, Action::Quick(Box::new(|| cl::CL_COMPLETE)), false)
    };
    code(unmap())
}

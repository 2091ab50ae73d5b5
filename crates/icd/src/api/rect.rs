//! Rectangular regions of buffers (OpenCL 3.0 API, section 5.2.3).

use std::ffi::c_void;

use ropeway_abi::{
    CL_COMMAND_READ_BUFFER_RECT, CL_COMMAND_WRITE_BUFFER_RECT, CL_INVALID_CONTEXT, CL_INVALID_VALUE,
    CL_MEM_COPY_OVERLAP, cl_bool, cl_command_queue, cl_event, cl_int, cl_mem, cl_uint,
};
use ropeway_client::region::Region;
use ropeway_client::transfer::Part;
use ropeway_protocol::types::BufferRect;

use super::order::{Request, buffer_for, check_alignment, find_buffer};
use super::three;
use super::transfer::{InHost, read, write};
use crate::guard;
use crate::handle::Handle;
use crate::objects::{Memory, Queue};

/// A region with the pitches that it really has.
///
/// # Errors
/// CL_INVALID_VALUE for a region that is empty, does not fit its pitches, or lies beyond all memory.
fn rect(origin: [usize; 3], region: [usize; 3], row_pitch: usize, slice_pitch: usize) -> Result<BufferRect, cl_int> {
    // If row_pitch is 0, it is computed as region[0]; if slice_pitch is 0, as region[1] * row_pitch.
    let row_pitch = if row_pitch == 0 { region[0] } else { row_pitch };
    let slice = region[1].checked_mul(row_pitch).ok_or(CL_INVALID_VALUE)?;
    let slice_pitch = if slice_pitch == 0 { slice } else { slice_pitch };
    let wide = |sizes: [usize; 3]| sizes.map(|n| n as u64);
    let rect = BufferRect {
        origin: wide(origin),
        region: wide(region),
        row_pitch: row_pitch as u64,
        slice_pitch: slice_pitch as u64,
    };
    // CL_INVALID_VALUE if any region array element is 0; if a row pitch is not 0 and is less than region[0]; if a slice
    // pitch is not 0 and is less than region[1] * row pitch, or not a multiple of the row pitch.
    rect.bounds().map(|_| rect).ok_or(CL_INVALID_VALUE)
}

/// The offset of a region's first byte, and of the one behind its last.
fn bounds(rect: &BufferRect) -> Result<(u64, u64), cl_int> {
    let (first, span) = rect.bounds().ok_or(CL_INVALID_VALUE)?;
    Ok((first, first.checked_add(span).ok_or(CL_INVALID_VALUE)?))
}

/// # Errors
/// CL_INVALID_VALUE if the region being read, written or copied is out of bounds.
fn check_bounds(buffer: &Memory, rect: &BufferRect) -> Result<(), cl_int> {
    let (_, end) = bounds(rect)?;
    if end <= buffer.client.size() as u64 { Ok(()) } else { Err(CL_INVALID_VALUE) }
}

/// The regions of a read or a write in the buffer and in the host's memory, checked.
///
/// # Errors
/// CL_INVALID_VALUE for regions that are none or out of bounds.
///
/// # Safety
/// The first three pointers are null or valid for reads of three sizes.
unsafe fn places<P>(
    buffer: &Memory,
    (buffer_origin, host_origin, region): (*const usize, *const usize, *const usize),
    (buffer_pitches, host_pitches): ((usize, usize), (usize, usize)),
    ptr: P,
) -> Result<(BufferRect, InHost<P>), cl_int> {
    // SAFETY: the caller's promise.
    let (from, at, region) = unsafe { (three(buffer_origin)?, three(host_origin)?, three(region)?) };
    let in_buffer = rect(from, region, buffer_pitches.0, buffer_pitches.1)?;
    check_bounds(buffer, &in_buffer)?;
    let in_host = rect(at, region, host_pitches.0, host_pitches.1)?;
    let (first, _) = bounds(&in_host)?;
    let region = Region::new(region, in_host.row_pitch as usize, in_host.slice_pitch as usize);
    Ok((in_buffer, InHost { ptr, first: first as usize, region: region.ok_or(CL_INVALID_VALUE)? }))
}

/// clEnqueueReadBufferRect.
pub unsafe extern "C" fn clEnqueueReadBufferRect(
    queue: cl_command_queue,
    buffer: cl_mem,
    blocking: cl_bool,
    buffer_origin: *const usize,
    host_origin: *const usize,
    region: *const usize,
    buffer_row_pitch: usize,
    buffer_slice_pitch: usize,
    host_row_pitch: usize,
    host_slice_pitch: usize,
    ptr: *mut c_void,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueReadBufferRect", || {
        let queue = Handle::<Queue>::find(queue)?;
        let buffer = buffer_for(&queue, buffer)?;
        let pitches = ((buffer_row_pitch, buffer_slice_pitch), (host_row_pitch, host_slice_pitch));
        // SAFETY: the caller's promise.
        let (rect, in_host) = unsafe { places(&buffer, (buffer_origin, host_origin, region), pitches, ptr)? };
        let part = Part::Rect(&buffer.client, rect);
        let events = (num_events, wait_list, event);
        // SAFETY: the caller's promise.
        unsafe { read(&queue, (&buffer, part), in_host, blocking, events, CL_COMMAND_READ_BUFFER_RECT) }
    })
}

/// clEnqueueWriteBufferRect.
pub unsafe extern "C" fn clEnqueueWriteBufferRect(
    queue: cl_command_queue,
    buffer: cl_mem,
    blocking: cl_bool,
    buffer_origin: *const usize,
    host_origin: *const usize,
    region: *const usize,
    buffer_row_pitch: usize,
    buffer_slice_pitch: usize,
    host_row_pitch: usize,
    host_slice_pitch: usize,
    ptr: *const c_void,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueWriteBufferRect", || {
        let queue = Handle::<Queue>::find(queue)?;
        let buffer = buffer_for(&queue, buffer)?;
        let pitches = ((buffer_row_pitch, buffer_slice_pitch), (host_row_pitch, host_slice_pitch));
        // SAFETY: the caller's promise.
        let (rect, in_host) = unsafe { places(&buffer, (buffer_origin, host_origin, region), pitches, ptr)? };
        let part = Part::Rect(&buffer.client, rect);
        let events = (num_events, wait_list, event);
        // SAFETY: the caller's promise.
        unsafe { write(&queue, (&buffer, part), in_host, blocking, events, CL_COMMAND_WRITE_BUFFER_RECT) }
    })
}

/// clEnqueueCopyBufferRect.
pub unsafe extern "C" fn clEnqueueCopyBufferRect(
    queue: cl_command_queue,
    source: cl_mem,
    target: cl_mem,
    source_origin: *const usize,
    target_origin: *const usize,
    region: *const usize,
    source_row_pitch: usize,
    source_slice_pitch: usize,
    target_row_pitch: usize,
    target_slice_pitch: usize,
    num_events: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    guard::status("clEnqueueCopyBufferRect", || {
        let queue = Handle::<Queue>::find(queue)?;
        let origins = (source_origin, target_origin, region);
        let pitches = ((source_row_pitch, source_slice_pitch), (target_row_pitch, target_slice_pitch));
        // SAFETY: the caller's promise.
        let copy = unsafe { Copy::read(&queue, (source, target), origins, pitches)? };
        // SAFETY: the caller's promise.
        let request = unsafe { Request::read(&queue, num_events, wait_list, event)? };
        let Copy { source: (source, from), target: (target, to) } = copy;
        request.run(&queue, |order| queue.client.enqueue_copy_rect((&source.client, from), (&target.client, to), order))
    })
}

/// A copy between regions of buffers, checked.
pub(super) struct Copy {
    pub(super) source: (Handle<Memory>, BufferRect),
    pub(super) target: (Handle<Memory>, BufferRect),
}

impl Copy {
    /// # Errors
    /// As said below.
    ///
    /// # Safety
    /// The three pointers are null or valid for reads of three sizes.
    pub(super) unsafe fn read(
        queue: &Queue,
        (source, target): (cl_mem, cl_mem),
        (source_origin, target_origin, region): (*const usize, *const usize, *const usize),
        (source_pitches, target_pitches): ((usize, usize), (usize, usize)),
    ) -> Result<Self, cl_int> {
        let source = find_buffer(source)?;
        let target = find_buffer(target)?;
        // CL_INVALID_CONTEXT if the contexts of the queue and of the buffers are not the same.
        if source.context != queue.context || target.context != queue.context {
            return Err(CL_INVALID_CONTEXT);
        }
        check_alignment(&queue.device, &source)?;
        check_alignment(&queue.device, &target)?;
        // SAFETY: the caller's promise.
        let (from, to, region) = unsafe { (three(source_origin)?, three(target_origin)?, three(region)?) };
        let from = rect(from, region, source_pitches.0, source_pitches.1)?;
        let to = rect(to, region, target_pitches.0, target_pitches.1)?;
        check_bounds(&source, &from)?;
        check_bounds(&target, &to)?;
        let same_pitches = from.row_pitch == to.row_pitch && from.slice_pitch == to.slice_pitch;
        // CL_INVALID_VALUE if both are the same buffer object and the pitches are not equal.
        if source == target && !same_pitches {
            return Err(CL_INVALID_VALUE);
        }
        // CL_MEM_COPY_OVERLAP if both are the same buffer or sub-buffer object and the regions overlap, or if they are
        // different sub-buffers of the same associated buffer object and they overlap.
        if source.client.storage_id() == target.client.storage_id() {
            let shifted = |rect: BufferRect, memory: &Memory| {
                let [x, y, z] = rect.origin;
                BufferRect { origin: [x + memory.client.offset() as u64, y, z], ..rect }
            };
            if overlap(&shifted(from, &source), &shifted(to, &target)) {
                return Err(CL_MEM_COPY_OVERLAP);
            }
        }
        Ok(Self { source: (source, from), target: (target, to) })
    }
}

/// Whether a copy between these regions of one buffer overlaps itself (OpenCL 3.0 API, appendix E). The appendix
/// assumes equal pitches; with different ones, regions overlap if their spans do.
fn overlap(from: &BufferRect, to: &BufferRect) -> bool {
    let (Some((from_start, from_span)), Some((to_start, to_span))) = (from.bounds(), to.bounds()) else { return true };
    // No overlap if one ends before the other starts.
    if from_start + from_span <= to_start || to_start + to_span <= from_start {
        return false;
    }
    if from.row_pitch != to.row_pitch || from.slice_pitch != to.slice_pitch {
        return true;
    }
    let ([width, rows, _], row_pitch, slice_pitch) = (from.region, from.row_pitch, from.slice_pitch);
    // Whether `size` bytes at `a` and at `b` share none where everything repeats with `pitch`.
    let fits_in_gap = |a: u64, b: u64, size: u64, pitch: u64| {
        b >= a + size && b + size <= a + pitch || a >= b + size && a + size <= b + pitch
    };
    // No overlap if the rows of one fit into the gaps between the rows of the other.
    let column = |rect: &BufferRect| rect.origin[0] % row_pitch;
    if fits_in_gap(column(from), column(to), width, row_pitch) {
        return false;
    }
    // The same for slices.
    let slice = (rows - 1) * row_pitch + width;
    let place = |start: u64| start % slice_pitch;
    !fits_in_gap(place(from_start), place(to_start), slice, slice_pitch)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// The offsets of all bytes.
    fn bytes(rect: &BufferRect) -> HashSet<u64> {
        let ([x, y, z], [w, h, d]) = (rect.origin, rect.region);
        let mut all = HashSet::new();
        for (z, y) in (z..z + d).flat_map(|z| (y..y + h).map(move |y| (z, y))) {
            all.extend((x..x + w).map(|x| z * rect.slice_pitch + y * rect.row_pitch + x));
        }
        all
    }

    #[test]
    fn overlaps_are_those_of_the_bytes() {
        let make = |x, y, z| rect([x, y, z], [3, 2, 2], 8, 32).unwrap();
        let from = make(2, 1, 1);
        for (z, y, x) in (0..4).flat_map(|z| (0..4).flat_map(move |y| (0..6).map(move |x| (z, y, x)))) {
            let to = make(x, y, z);
            let shared = !bytes(&from).is_disjoint(&bytes(&to));
            // Where nothing is shared, the specification's algorithm may still see an overlap; never the other way
            // round.
            assert!(overlap(&from, &to) || !shared, "{from:?} {to:?}");
            // Side by side in the same rows and slices it sees none.
            if !shared && (y, z) == (1, 1) {
                assert!(!overlap(&from, &to), "{from:?} {to:?}");
            }
        }
    }

    #[test]
    fn pitches_are_those_of_the_specification() {
        let region = [4, 3, 2];
        assert_eq!(rect([0; 3], region, 0, 0).map(|r| (r.row_pitch, r.slice_pitch)), Ok((4, 12)));
        assert_eq!(rect([0; 3], region, 5, 0).map(|r| (r.row_pitch, r.slice_pitch)), Ok((5, 15)));
        assert_eq!(rect([0; 3], region, 3, 0), Err(CL_INVALID_VALUE));
        assert_eq!(rect([0; 3], region, 5, 14), Err(CL_INVALID_VALUE));
        assert_eq!(rect([0; 3], region, 5, 16), Err(CL_INVALID_VALUE));
        assert_eq!(rect([0; 3], [0, 1, 1], 0, 0), Err(CL_INVALID_VALUE));
        assert_eq!(rect([0; 3], [4, usize::MAX, 1], 0, 0), Err(CL_INVALID_VALUE));
        assert_eq!(rect([usize::MAX, 0, 0], region, 0, 0), Err(CL_INVALID_VALUE));
        assert_eq!(rect([0, 0, usize::MAX / 2], region, 0, 0), Err(CL_INVALID_VALUE));
    }
}

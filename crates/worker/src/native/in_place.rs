//! Whether a device uses a buffer's memory where the application has it (CL_MEM_USE_HOST_PTR).
//!
//! Implementations may keep the contents elsewhere between a map and the next (OpenCL 3.0 API, section 5.2.1), and none
//! says whether it does. So it is tried.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;

use ropeway_abi as cl;
use ropeway_protocol::types::Status;

use super::api::api;
use super::memory::Shape;
use super::shared_storage::ALIGNMENT;
use super::{Context, Event, Memory, Part, Queue, Waits, check};

/// Bytes of the trial's buffer: more than fits into a command.
const SIZE: usize = 64 << 10;

/// Memory that the trial's buffer uses, aligned no better than the memory of any buffer will be.
struct Pages(NonNull<u8>);

impl Pages {
    const LAYOUT: Layout = match Layout::from_size_align(SIZE + ALIGNMENT, 2 * ALIGNMENT) {
        Ok(layout) => layout,
        Err(_) => panic!("the alignment is a power of two"),
    };

    fn new() -> Option<Self> {
        // SAFETY: the layout's size is not 0.
        NonNull::new(unsafe { alloc_zeroed(Self::LAYOUT) }).map(Self)
    }

    fn address(&self) -> *mut u8 {
        self.0.as_ptr().wrapping_add(ALIGNMENT)
    }

    /// Sets all bytes.
    fn set(&self, value: u8) {
        // SAFETY: so many bytes are there, and no command that uses them is under way.
        unsafe { self.address().write_bytes(value, SIZE) };
    }

    /// Whether all bytes are so.
    fn are(&self, value: u8) -> bool {
        // SAFETY: each is within the pages; the device may have written it, behind the compiler's back.
        (0..SIZE).all(|at| unsafe { self.address().add(at).read_volatile() } == value)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.0.as_ptr(), Self::LAYOUT) };
    }
}

/// Tries whether what `queue`'s device writes is in a buffer's memory without a map, and whether the device sees what is
/// written to that memory without one.
///
/// # Errors
/// The status of the native call that failed; the answer is no then.
pub fn uses_memory_in_place(context: &Context, queue: &Arc<Queue>) -> Result<bool, Status> {
    const DEVICE: u8 = 0xd5;
    const HOST: u8 = 0x4a;
    let pages = Pages::new().ok_or(cl::CL_OUT_OF_HOST_MEMORY)?;
    let (flags, mut status) = (cl::CL_MEM_READ_WRITE | cl::CL_MEM_USE_HOST_PTR, 0);
    // SAFETY: the pages are as long as the buffer, and dropped after it and all commands that use it.
    let mem = unsafe { (api().clCreateBuffer)(context.0, flags, SIZE, pages.address().cast(), &raw mut status) };
    check(status)?;
    let buffer = Memory::of(mem, Shape::Buffer(SIZE as u64));
    let copy = Memory::buffer(context, cl::CL_MEM_READ_WRITE, SIZE as u64, None)?;
    let await_end = |event: Option<Event>| -> Result<(), Status> {
        queue.flush()?;
        event.map_or_else(|| queue.finish(), |event| event.wait())
    };
    await_end(queue.fill(&buffer, &[DEVICE; 4], (0, SIZE as u64), &Waits::none(), true)?)?;
    if !pages.are(DEVICE) {
        return Ok(false);
    }
    pages.set(HOST);
    await_end(queue.copy((&buffer, 0), (&copy, 0), SIZE as u64, &Waits::none(), true)?)?;
    let mut seen = vec![0; SIZE];
    let whole = Part::Bytes { offset: 0, size: SIZE as u64 };
    // SAFETY: `seen` is as long as the part, and stays until the command has ended.
    await_end(Some(unsafe { queue.read(&copy, &whole, seen.as_mut_ptr(), &Waits::none()) }?))?;
    Ok(seen.iter().all(|byte| *byte == HOST))
}

//! Whether a device uses a buffer's memory where the application has it (CL_MEM_USE_HOST_PTR), and whether it uses the pages at
//! the addresses of shared virtual memory, whatever pages these are.
//!
//! Implementations may keep the contents elsewhere between a map and the next (OpenCL 3.0 API, sections 5.2.1 and 5.6.1), and
//! none says whether it does. So it is tried.

use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use ropeway_abi as cl;
use ropeway_protocol::types::Status;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::memory::{Shape, buffer_at};
use super::shared_storage::ALIGNMENT;
use super::svm::Svm;
use super::{Context, Event, Memory, Part, Queue, Waits};

/// Bytes of a trial: more than fits into a command.
const SIZE: usize = 64 << 10;

/// Bytes that are mapped for one.
const MAPPED: usize = 2 * SIZE;

/// What the device writes, in a trial.
const DEVICE: u8 = 0xd5;

/// Shared memory that a trial's buffer uses.
struct Pages(NonNull<u8>);

impl Pages {
    fn new() -> Result<Self, Status> {
        // SAFETY: a new mapping, at an address that the system chooses.
        let mapped =
            unsafe { mmap_anonymous(null_mut(), MAPPED, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED) };
        mapped.ok().and_then(|at| NonNull::new(at.cast())).map(Self).ok_or(cl::CL_OUT_OF_HOST_MEMORY)
    }

    /// Where a buffer in them begins that is aligned no better than the memory of any buffer will be.
    fn unaligned(&self) -> *mut u8 {
        self.0.as_ptr().wrapping_add(ALIGNMENT)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping made above, which nobody uses any more.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), MAPPED) };
    }
}

/// Has the device fill a trial's buffer.
fn fill(queue: &Queue, buffer: &Memory) -> Result<(), Status> {
    await_end(queue, queue.fill(buffer, &[DEVICE; 4], (0, SIZE as u64), &Waits::none(), true)?)
}

fn await_end(queue: &Queue, event: Option<Event>) -> Result<(), Status> {
    queue.flush()?;
    event.map_or_else(|| queue.finish(), |event| event.wait())
}

/// Tries whether what the device writes to a buffer is at `at` without a map, and whether the device sees what is written
/// there without one, as it copies the buffer to `copy`.
///
/// # Errors
/// The status of the native call that failed.
///
/// # Safety
/// `SIZE` bytes are mapped at `at`, and nothing uses them but commands on the buffer.
unsafe fn is_seen(queue: &Arc<Queue>, buffer: &Memory, at: *mut u8, copy: &Memory) -> Result<bool, Status> {
    const HOST: u8 = 0x4a;
    fill(queue, buffer)?;
    // SAFETY: the caller's promise; the device may have written each, behind the compiler's back.
    if !(0..SIZE).all(|offset| unsafe { at.add(offset).read_volatile() } == DEVICE) {
        return Ok(false);
    }
    // SAFETY: the caller's promise; no command that uses them is under way.
    unsafe { at.write_bytes(HOST, SIZE) };
    await_end(queue, queue.copy((buffer, 0), (copy, 0), SIZE as u64, &Waits::none(), true)?)?;
    let mut seen = vec![0; SIZE];
    let whole = Part::Bytes { offset: 0, size: SIZE as u64 };
    // SAFETY: `seen` is as long as the part, and stays until the command has ended.
    await_end(queue, Some(unsafe { queue.read(copy, &whole, seen.as_mut_ptr(), &Waits::none()) }?))?;
    Ok(seen.iter().all(|byte| *byte == HOST))
}

/// Tries whether `queue`'s device uses a buffer's memory where it is.
///
/// # Errors
/// The status of the native call that failed; the answer is no then.
pub fn uses_memory_in_place(context: &Context, queue: &Arc<Queue>) -> Result<bool, Status> {
    let pages = Pages::new()?;
    // SAFETY: the pages have as many bytes, and are dropped after the buffer and all commands that use it.
    let mem = unsafe { buffer_at(context, cl::CL_MEM_READ_WRITE, pages.unaligned(), SIZE) }?;
    let buffer = Memory::of(mem, Shape::Buffer(SIZE as u64));
    let copy = Memory::buffer(context, cl::CL_MEM_READ_WRITE, SIZE as u64, None)?;
    // SAFETY: the pages are the trial's alone.
    unsafe { is_seen(queue, &buffer, pages.unaligned(), &copy) }
}

/// Tries whether `queue`'s device uses shared pages that take the place of those of shared virtual memory, also where it
/// knows the latter already.
///
/// # Errors
/// As [`uses_memory_in_place`].
pub fn uses_svm_in_place(context: &Context, queue: &Arc<Queue>) -> Result<bool, Status> {
    let page = rustix::param::page_size() as u32;
    let new = || Svm::new(context, cl::CL_MEM_READ_WRITE, SIZE as u64, (0, page), None);
    let (pages, copy) = (Pages::new()?, Memory::over(new()?, SIZE as u64));
    let mut shared = Memory::over(new()?, SIZE as u64);
    fill(queue, &shared)?;
    if let Some(svm) = shared.svm_mut() {
        // SAFETY: it has as many bytes, and so have the pages; the one command that used it has ended.
        unsafe { svm.share(SIZE, pages.0, None) }?;
    }
    // SAFETY: the pages are the trial's alone.
    let is_seen = || unsafe { is_seen(queue, &shared, pages.0.as_ptr(), &copy) };
    Ok(shared.as_svm().is_some_and(Svm::is_shared) && is_seen()?)
}

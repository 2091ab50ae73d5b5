//! The application's memory, as the client takes it.
//!
//! The specification lets the application hand over pointers that stay valid until a command has ended; nothing can check
//! that they do. Here they become the client's traits.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use ropeway_client::memory::{HostRange, HostSource, HostTarget};

/// `len` bytes of the application's from `address`.
struct Stretch {
    address: *mut u8,
    len: usize,
    /// Keeps the memory, where it is the library's own.
    _owner: Option<Arc<dyn HostRange>>,
}

// SAFETY: whoever makes a Stretch has the promise that the memory may be used from any thread until it is dropped.
unsafe impl Send for Stretch {}

impl HostSource for Stretch {
    fn bytes(&self) -> &[u8] {
        // SAFETY: not null, and valid until this is dropped, by the promise of its maker. The application must not write
        // it meanwhile; if it does, the bytes sent are some mixture, as with any implementation.
        unsafe { std::slice::from_raw_parts(self.address, self.len) }
    }
}

impl HostTarget for Stretch {
    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: as above; the application must not use it at all meanwhile.
        unsafe { std::slice::from_raw_parts_mut(self.address, self.len) }
    }
}

/// Memory to read from.
///
/// # Safety
/// `address` is valid for reads of `len` bytes until the source is dropped, and not null.
pub unsafe fn source(address: *const c_void, len: usize) -> Box<dyn HostSource> {
    Box::new(Stretch { address: address.cast_mut().cast(), len, _owner: None })
}

/// Memory to write into.
///
/// # Safety
/// `address` is valid for writes of `len` bytes until the target is dropped, and not null.
pub unsafe fn target(address: *mut c_void, len: usize) -> Box<dyn HostTarget> {
    Box::new(Stretch { address: address.cast(), len, _owner: None })
}

/// The memory of a CL_MEM_USE_HOST_PTR buffer.
///
/// # Safety
/// `address` is valid for reads and writes of as many bytes as the buffer has, until the buffer is destroyed, and not null.
pub unsafe fn borrowed(address: *mut c_void) -> Arc<dyn HostRange> {
    Arc::new(Borrowed(address.cast()))
}

struct Borrowed(*mut u8);

// SAFETY: the promise of `borrowed` holds in every thread.
unsafe impl Send for Borrowed {}
// SAFETY: as above.
unsafe impl Sync for Borrowed {}

impl HostRange for Borrowed {
    fn address(&self) -> usize {
        self.0.expose_provenance()
    }

    fn source(self: Arc<Self>, offset: usize, len: usize) -> Box<dyn HostSource> {
        Box::new(stretch(self.0, offset, len, self))
    }

    fn target(self: Arc<Self>, offset: usize, len: usize) -> Box<dyn HostTarget> {
        Box::new(stretch(self.0, offset, len, self))
    }
}

/// Part of a range; the client keeps `offset + len` within it.
fn stretch(address: *mut u8, offset: usize, len: usize, owner: Arc<dyn HostRange>) -> Stretch {
    Stretch { address: address.wrapping_add(offset), len, _owner: Some(owner) }
}

/// Memory for mapping a buffer, `len` bytes, zero at first. `None` where there is none.
pub fn allocate(len: usize) -> Option<Arc<dyn HostRange>> {
    /// A page: enough for every type's alignment, and the kernel gives zeroed pages only as they are touched.
    const ALIGNMENT: usize = 4096;
    let layout = Layout::from_size_align(len.max(1), ALIGNMENT).ok()?;
    // SAFETY: the layout's size is not 0.
    let memory = NonNull::new(unsafe { alloc_zeroed(layout) })?;
    Some(Arc::new(Owned { memory, layout }))
}

struct Owned {
    memory: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory is this object's alone, apart from what it hands out; the application shares it as it sees fit.
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}

impl HostRange for Owned {
    fn address(&self) -> usize {
        self.memory.as_ptr().expose_provenance()
    }

    fn source(self: Arc<Self>, offset: usize, len: usize) -> Box<dyn HostSource> {
        Box::new(stretch(self.memory.as_ptr(), offset, len, self))
    }

    fn target(self: Arc<Self>, offset: usize, len: usize) -> Box<dyn HostTarget> {
        Box::new(stretch(self.memory.as_ptr(), offset, len, self))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout; every stretch of it holds a reference.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) };
    }
}

//! The application's memory, as the client takes it.
//!
//! The specification lets the application hand over pointers that stay valid until a command has ended; nothing can check
//! that they do. Here they become the client's traits.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock, Weak};

use ropeway_client::host::{HostRange, HostSource, HostTarget};
use ropeway_client::memory::Memory;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// `len` bytes of the application's from `address`.
struct Stretch {
    address: *mut u8,
    len: usize,
    /// Keeps the memory, where the library can.
    _owner: Owner,
}

enum Owner {
    /// The application, as long as the command has not ended.
    Application,
    /// The application, as long as this object is not destroyed.
    Memory { _memory: Option<Arc<Memory>> },
    /// The library.
    Range { _range: Arc<dyn HostRange> },
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
    Box::new(Stretch { address: address.cast_mut().cast(), len, _owner: Owner::Application })
}

/// Memory to write into.
///
/// # Safety
/// `address` is valid for writes of `len` bytes until the target is dropped, and not null.
pub unsafe fn target(address: *mut c_void, len: usize) -> Box<dyn HostTarget> {
    Box::new(Stretch { address: address.cast(), len, _owner: Owner::Application })
}

/// The memory of a CL_MEM_USE_HOST_PTR buffer.
///
/// The application may free it once the buffer's destructor callbacks were called. What is still to be sent from it or received
/// into it, such as the bytes of a region unmapped just before the release, therefore keeps the buffer.
pub struct Borrowed {
    address: *mut u8,
    memory: OnceLock<Weak<Memory>>,
}

// SAFETY: the promise of `new` holds in every thread.
unsafe impl Send for Borrowed {}
// SAFETY: as above.
unsafe impl Sync for Borrowed {}

impl Borrowed {
    /// # Safety
    /// `address` is not null and valid for reads and writes of as many bytes as the buffer has, until the buffer is destroyed.
    pub unsafe fn new(address: *mut c_void) -> Arc<Self> {
        Arc::new(Self { address: address.cast(), memory: OnceLock::new() })
    }

    /// Tells whose memory it is, as soon as that is made.
    pub fn belongs_to(&self, memory: &Arc<Memory>) {
        let _ = self.memory.set(Arc::downgrade(memory));
    }

    /// The client keeps `offset + len` within the buffer.
    fn stretch(&self, offset: usize, len: usize) -> Box<Stretch> {
        let memory = self.memory.get().and_then(Weak::upgrade);
        Box::new(Stretch { address: self.address.wrapping_add(offset), len, _owner: Owner::Memory { _memory: memory } })
    }
}

impl HostRange for Borrowed {
    fn address(&self) -> usize {
        self.address.expose_provenance()
    }

    fn source(self: Arc<Self>, offset: usize, len: usize) -> Box<dyn HostSource> {
        self.stretch(offset, len)
    }

    fn target(self: Arc<Self>, offset: usize, len: usize) -> Box<dyn HostTarget> {
        self.stretch(offset, len)
    }
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

impl Owned {
    /// The client keeps `offset + len` within the buffer.
    fn stretch(self: Arc<Self>, offset: usize, len: usize) -> Box<Stretch> {
        let address = self.memory.as_ptr().wrapping_add(offset);
        Box::new(Stretch { address, len, _owner: Owner::Range { _range: self } })
    }
}

impl HostRange for Owned {
    fn address(&self) -> usize {
        self.memory.as_ptr().expose_provenance()
    }

    fn source(self: Arc<Self>, offset: usize, len: usize) -> Box<dyn HostSource> {
        self.stretch(offset, len)
    }

    fn target(self: Arc<Self>, offset: usize, len: usize) -> Box<dyn HostTarget> {
        self.stretch(offset, len)
    }
}

/// Memory at exactly this address, `len` bytes, zero at first. `None` where there is something else, or nothing can be.
pub fn map_at(address: usize, len: usize) -> Option<Arc<dyn HostRange>> {
    isize::try_from(len).ok().filter(|len| *len > 0)?;
    let wanted = std::ptr::with_exposed_provenance_mut::<c_void>(address);
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
    // SAFETY: a new mapping that replaces none.
    let mapped = unsafe { mmap_anonymous(wanted, len, ProtFlags::READ | ProtFlags::WRITE, flags) }.ok()?;
    let memory = Arc::new(Mapped { memory: NonNull::new(mapped.cast())?, len });
    // A kernel that does not know the flag takes the address for a hint.
    (mapped == wanted).then_some(memory as Arc<dyn HostRange>)
}

struct Mapped {
    memory: NonNull<u8>,
    len: usize,
}

// SAFETY: as for `Owned`.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// The client keeps `offset + len` within what was asked for.
    fn stretch(self: Arc<Self>, offset: usize, len: usize) -> Box<Stretch> {
        let address = self.memory.as_ptr().wrapping_add(offset);
        Box::new(Stretch { address, len, _owner: Owner::Range { _range: self } })
    }
}

impl HostRange for Mapped {
    fn address(&self) -> usize {
        self.memory.as_ptr().expose_provenance()
    }

    fn source(self: Arc<Self>, offset: usize, len: usize) -> Box<dyn HostSource> {
        self.stretch(offset, len)
    }

    fn target(self: Arc<Self>, offset: usize, len: usize) -> Box<dyn HostTarget> {
        self.stretch(offset, len)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made for it; every stretch of it holds a reference.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), self.len) };
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout; every stretch of it holds a reference.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) };
    }
}

//! The application's memory, as the client takes it.
//!
//! The specification lets the application hand over pointers that stay valid until a command has ended; nothing can
//! check that they do. Here they become the client's traits.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::c_void;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock, Weak};

use ropeway_client::host::{Arena, HostRange, HostSource, HostTarget, NotMapped, Wanted, map_again};
use ropeway_client::memory::Memory;
use ropeway_client::region::Region;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// A region of the application's memory that begins at `address`.
struct Stretch {
    address: *mut u8,
    region: Region,
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

impl Stretch {
    fn addresses(&self) -> Range<usize> {
        let start = self.address.addr();
        start..start.saturating_add(self.region.span())
    }
}

impl HostSource for Stretch {
    fn size(&self) -> usize {
        self.region.len()
    }

    fn span(&self) -> Range<usize> {
        self.addresses()
    }

    fn run(&self, at: usize) -> &[u8] {
        let run = self.region.run(at);
        // SAFETY: not null, and all bytes of the region valid until this is dropped, by the promise of its maker. The
        // application must not write them meanwhile; if it does, the bytes sent are some mixture, as with any
        // implementation.
        unsafe { std::slice::from_raw_parts(self.address.wrapping_add(run.start), run.len()) }
    }
}

impl HostTarget for Stretch {
    fn size(&self) -> usize {
        self.region.len()
    }

    fn span(&self) -> Range<usize> {
        self.addresses()
    }

    fn run(&mut self, at: usize) -> &mut [u8] {
        let run = self.region.run(at);
        // SAFETY: as above; the application must not use them at all meanwhile.
        unsafe { std::slice::from_raw_parts_mut(self.address.wrapping_add(run.start), run.len()) }
    }
}

/// Memory to read from.
///
/// # Safety
/// `address` is not null, and the bytes of the region that begins there are valid for reads until the source is
/// dropped.
pub unsafe fn source(address: *const c_void, region: Region) -> Box<dyn HostSource> {
    Box::new(Stretch { address: address.cast_mut().cast(), region, _owner: Owner::Application })
}

/// Memory to write into.
///
/// # Safety
/// `address` is not null, and the bytes of the region that begins there are valid for writes until the target is
/// dropped.
pub unsafe fn target(address: *mut c_void, region: Region) -> Box<dyn HostTarget> {
    Box::new(Stretch { address: address.cast(), region, _owner: Owner::Application })
}

/// The memory of a CL_MEM_USE_HOST_PTR buffer.
///
/// The application may free it once the buffer's destructor callbacks were called. What is still to be sent from it or
/// received into it, such as the bytes of a region unmapped just before the release, therefore keeps the buffer.
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
    /// `address` is not null and valid for reads and writes of as many bytes as the buffer has, until the buffer is
    /// destroyed.
    pub unsafe fn new(address: *mut c_void) -> Arc<Self> {
        Arc::new(Self { address: address.cast(), memory: OnceLock::new() })
    }

    /// Tells whose memory it is, as soon as that is made.
    pub fn belongs_to(&self, memory: &Arc<Memory>) {
        let _ = self.memory.set(Arc::downgrade(memory));
    }

    /// The client keeps the region within the memory object.
    fn stretch(&self, offset: usize, region: Region) -> Box<Stretch> {
        let memory = self.memory.get().and_then(Weak::upgrade);
        Box::new(Stretch {
            address: self.address.wrapping_add(offset),
            region,
            _owner: Owner::Memory { _memory: memory },
        })
    }
}

impl HostRange for Borrowed {
    fn address(&self) -> usize {
        self.address.expose_provenance()
    }

    fn source(self: Arc<Self>, offset: usize, region: Region) -> Box<dyn HostSource> {
        self.stretch(offset, region)
    }

    fn target(self: Arc<Self>, offset: usize, region: Region) -> Box<dyn HostTarget> {
        self.stretch(offset, region)
    }
}

/// Memory for mapping a buffer: some of the library's own, zero at first, or what the server sees as well. `None` where
/// there is none.
pub fn allocate(wanted: Wanted) -> Option<Arc<dyn HostRange>> {
    match wanted {
        Wanted::Own(len) => own(len),
        Wanted::Shared(arena, at, len) => {
            let memory = arena.address(at, len)?;
            Some(Arc::new(Owned { memory, origin: Origin::Shared { _arena: arena } }))
        }
    }
}

/// Memory of the library's own, `len` bytes, zero at first. `None` where there is none.
pub fn own(len: usize) -> Option<Arc<dyn HostRange>> {
    /// A page: enough for every type's alignment, and the kernel gives zeroed pages only as they are touched.
    const ALIGNMENT: usize = 4096;
    let layout = Layout::from_size_align(len.max(1), ALIGNMENT).ok()?;
    // SAFETY: the layout's size is not 0.
    let memory = NonNull::new(unsafe { alloc_zeroed(layout) })?;
    Some(Arc::new(Owned { memory, origin: Origin::Allocated(layout) }))
}

/// Memory that the library has.
struct Owned {
    memory: NonNull<u8>,
    origin: Origin,
}

/// Where the library has memory from.
enum Origin {
    /// From the allocator.
    Allocated(Layout),
    /// A mapping of so many bytes: the library's own, or of what it shares with a server.
    Mapped { len: usize, is_shared: bool },
    /// Part of what this process shares with a server, where the device has the buffer.
    Shared { _arena: Arc<Arena> },
}

// SAFETY: the memory is this object's alone, apart from what it hands out and what a server sees as well; the application
// shares it as it sees fit, and takes turns with the server's commands as the specification asks it to.
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}

impl Owned {
    /// The client keeps the region within the memory object.
    fn stretch(self: Arc<Self>, offset: usize, region: Region) -> Box<Stretch> {
        let address = self.memory.as_ptr().wrapping_add(offset);
        Box::new(Stretch { address, region, _owner: Owner::Range { _range: self } })
    }
}

impl HostRange for Owned {
    fn address(&self) -> usize {
        self.memory.as_ptr().expose_provenance()
    }

    fn is_the_devices(&self) -> bool {
        matches!(self.origin, Origin::Shared { .. } | Origin::Mapped { is_shared: true, .. })
    }

    fn source(self: Arc<Self>, offset: usize, region: Region) -> Box<dyn HostSource> {
        self.stretch(offset, region)
    }

    fn target(self: Arc<Self>, offset: usize, region: Region) -> Box<dyn HostTarget> {
        self.stretch(offset, region)
    }
}

/// Maps memory at exactly this address: zeroed, or what the server sees as well. `None` where something else is mapped there,
/// or memory is short.
pub fn map_at(address: usize, wanted: Wanted) -> Option<Arc<dyn HostRange>> {
    let (len, shared) = match &wanted {
        Wanted::Own(len) => (*len, None),
        Wanted::Shared(arena, at, len) => (*len, arena.address(*at, *len).filter(|_| arena.can_be_mapped_again())),
    };
    isize::try_from(len).ok().filter(|len| *len > 0)?;
    let wanted = std::ptr::with_exposed_provenance_mut::<c_void>(address);
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
    // SAFETY: a new mapping that replaces none.
    let mapped = unsafe { mmap_anonymous(wanted, len, ProtFlags::READ | ProtFlags::WRITE, flags) }.ok()?;
    let memory = NonNull::new(mapped.cast())?;
    let mut owned = Owned { memory, origin: Origin::Mapped { len, is_shared: false } };
    // A kernel that does not know the flag takes the address for a hint.
    if mapped != wanted {
        return None;
    }
    if let Some(pages) = shared {
        // SAFETY: the mapping made above, which nobody knows yet; the arena has as many bytes mapped there.
        match unsafe { map_again(pages, len, memory) } {
            Ok(()) => owned.origin = Origin::Mapped { len, is_shared: true },
            // What is here is a copy then, as where nothing is shared.
            Err(NotMapped::Refused(_)) => {}
            Err(NotMapped::Lost(_)) => {
                std::mem::forget(owned);
                return None;
            }
        }
    }
    Some(Arc::new(owned))
}

impl Drop for Owned {
    fn drop(&mut self) {
        match self.origin {
            // SAFETY: allocated with this layout; every stretch of it holds a reference.
            Origin::Allocated(layout) => unsafe { dealloc(self.memory.as_ptr(), layout) },
            Origin::Shared { .. } => {}
            Origin::Mapped { len, .. } => {
                // SAFETY: exactly the mapping made for it; every stretch of it holds a reference.
                let _ = unsafe { munmap(self.memory.as_ptr().cast(), len) };
            }
        }
    }
}

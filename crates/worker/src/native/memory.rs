//! Memory objects.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use ropeway_abi as cl;
use ropeway_protocol::image::ImageDescription;
use ropeway_protocol::types::{BufferRect, Status};
use ropeway_transport::Arena;

use super::addresses::Addresses;
use super::api::api;
use super::shared_storage::{Keeper, SharedStorage, end_of_buffer};
use super::svm::Svm;
use super::{Context, check};

/// A native memory object, with its shape so that no access leaves it.
#[derive(Debug)]
pub struct Memory {
    /// Null for shared virtual memory.
    pub(super) mem: cl::cl_mem,
    pub(super) shape: Shape,
    storage: Storage,
    /// Where it is mapped: shared by a buffer and its sub-buffers.
    pub(super) addresses: Arc<Addresses>,
    /// Where it begins in the memory that `addresses` are of; 0 but for what is part of another object.
    pub(super) origin: usize,
}

/// Where a memory object's bytes are.
#[derive(Debug)]
enum Storage {
    /// In memory that the object itself has.
    Own,
    /// In this shared virtual memory. There is no object; commands name its addresses.
    Svm(Svm),
    /// At this address of memory that the client sees.
    Shared(usize),
    /// In another object's, which must outlive it.
    Within(Arc<Memory>),
}

/// A region within a buffer, as native functions take it.
pub(super) struct NativeRect {
    pub origin: [usize; 3],
    pub region: [usize; 3],
    pub row_pitch: usize,
    pub slice_pitch: usize,
}

/// The kind and size of a memory object.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    /// A buffer of so many bytes.
    Buffer(u64),
    /// An image like this.
    Image(ImageDescription),
    /// A pipe, whose packets only kernels reach.
    Pipe,
}

// SAFETY: OpenCL's handles may be used from any thread (OpenCL 3.0 API, appendix A.2).
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// clCreateBuffer, with `contents` (as long as the buffer) where given. `flags` must be without those about host
    /// memory.
    ///
    /// # Errors
    /// The status of the native call.
    pub fn buffer(context: &Context, flags: u64, size: u64, contents: Option<&[u8]>) -> Result<Self, Status> {
        let bytes = usize::try_from(size).map_err(|_| cl::CL_INVALID_BUFFER_SIZE)?;
        let (flags, host) = match contents {
            Some(contents) if contents.len() != bytes => return Err(cl::CL_INVALID_BUFFER_SIZE),
            // The native call copies from the pointer before it returns.
            Some(contents) => (flags | cl::CL_MEM_COPY_HOST_PTR, contents.as_ptr().cast_mut().cast()),
            None => (flags, std::ptr::null_mut()),
        };
        let mut status = 0;
        // SAFETY: `host` is null or as long as the buffer.
        let mem = unsafe { (api().clCreateBuffer)(context.0, flags, bytes, host, &raw mut status) };
        check(status)?;
        Ok(Self::of(mem, Shape::Buffer(size)))
    }

    /// A buffer in memory that the client sees (clCreateBuffer with CL_MEM_USE_HOST_PTR), with `contents` (as long as the
    /// buffer) where given. `flags` as for [`Self::buffer`].
    ///
    /// # Errors
    /// The status of the native call.
    pub fn shared(
        context: &Context,
        flags: u64,
        size: u64,
        contents: Option<&[u8]>,
        storage: &Arc<SharedStorage>,
    ) -> Result<Self, Status> {
        let bytes = usize::try_from(size).map_err(|_| cl::CL_INVALID_BUFFER_SIZE)?;
        if contents.is_some_and(|contents| contents.len() != bytes) {
            return Err(cl::CL_INVALID_BUFFER_SIZE);
        }
        let extent = storage.take_for_buffer(size).ok_or(cl::CL_MEM_OBJECT_ALLOCATION_FAILURE)?;
        let host = extent.address;
        if let Some(contents) = contents {
            // SAFETY: the extent has room for `bytes`, and no reference into it exists.
            unsafe { host.copy_from_nonoverlapping(NonNull::from(contents).cast(), bytes) };
        }
        // SAFETY: the extent is as long as the buffer.
        unsafe { Self::over_host(context, flags, (host, bytes), Keeper::Extent(extent)) }
    }

    /// A buffer over these bytes of an arena whose parts nobody gives out.
    ///
    /// # Errors
    /// The status of the native call; CL_MEM_OBJECT_ALLOCATION_FAILURE where they are not all in the arena.
    pub(super) fn over_arena(context: &Context, arena: &Arc<Arena>, range: &Range<u64>) -> Result<Self, Status> {
        let bytes = range.end.checked_sub(range.start).and_then(|len| usize::try_from(len).ok());
        let bytes = bytes.ok_or(cl::CL_INVALID_BUFFER_SIZE)?;
        let host = arena.address(range.start, bytes).ok_or(cl::CL_MEM_OBJECT_ALLOCATION_FAILURE)?;
        // SAFETY: the arena has so many bytes there.
        unsafe { Self::over_host(context, cl::CL_MEM_READ_WRITE, (host, bytes), Keeper::Arena(arena.clone())) }
    }

    /// A buffer in memory that is there, and is kept until the buffer is gone.
    ///
    /// # Errors
    /// The status of the native call.
    ///
    /// # Safety
    /// The memory has so many bytes as long as `keeper` lives.
    unsafe fn over_host(
        context: &Context,
        flags: u64,
        (host, bytes): (NonNull<u8>, usize),
        keeper: Keeper,
    ) -> Result<Self, Status> {
        // SAFETY: as the caller promises; the keeper outlives the buffer: it is dropped by the callback below.
        let mem = unsafe { buffer_at(context, flags, host.as_ptr(), bytes) }?;
        let (at, shape) = (host.addr().get(), Shape::Buffer(bytes as u64));
        let memory = Self::stored(mem, shape, Storage::Shared(at), Addresses::known(at));
        let keeper = Box::into_raw(Box::new(keeper)).cast();
        // SAFETY: the buffer is alive, and the callback takes what it is given.
        let status = unsafe { (api().clSetMemObjectDestructorCallback)(mem, Some(end_of_buffer), keeper) };
        // Without a callback nobody can tell when the memory is free again: it is kept for ever, but used for nothing.
        check(status).map(|()| memory)
    }

    /// clCreateSubBuffer.
    ///
    /// # Errors
    /// The status of the native call; CL_INVALID_VALUE when the range leaves `parent` or that is no buffer.
    pub fn sub_buffer(parent: &Arc<Self>, flags: u64, origin: u64, size: u64) -> Result<Self, Status> {
        let (origin, bytes) = parent.range(origin, size)?;
        if parent.as_svm().is_some() {
            return Err(cl::CL_INVALID_MEM_OBJECT);
        }
        let region = cl::cl_buffer_region { origin, size: bytes };
        let mut status = 0;
        // SAFETY: the parent is alive, and kept; the region is of the type that goes with CL_BUFFER_CREATE_TYPE_REGION.
        let mem = unsafe {
            (api().clCreateSubBuffer)(
                parent.mem,
                flags,
                cl::CL_BUFFER_CREATE_TYPE_REGION,
                (&raw const region).cast(),
                &raw mut status,
            )
        };
        check(status)?;
        let (storage, addresses) = (Storage::Within(parent.clone()), parent.addresses.clone());
        Ok(Self { mem, shape: Shape::Buffer(size), storage, addresses, origin: parent.origin + origin })
    }

    /// clCreatePipe.
    ///
    /// # Errors
    /// The status of the native call; CL_INVALID_OPERATION where there is none.
    pub fn pipe(context: &Context, flags: u64, packet_size: u32, max_packets: u32) -> Result<Self, Status> {
        let create = api().clCreatePipe.ok_or(cl::CL_INVALID_OPERATION)?;
        let mut status = 0;
        // SAFETY: the context is alive; no properties are given.
        let mem = unsafe { create(context.0, flags, packet_size, max_packets, std::ptr::null(), &raw mut status) };
        check(status)?;
        Ok(Self::of(mem, Shape::Pipe))
    }

    /// Takes over a handle of an object that has memory of its own.
    pub(super) fn of(mem: cl::cl_mem, shape: Shape) -> Self {
        Self::stored(mem, shape, Storage::Own, Addresses::default())
    }

    fn stored(mem: cl::cl_mem, shape: Shape, storage: Storage, addresses: Addresses) -> Self {
        Self { mem, shape, storage, addresses: Arc::new(addresses), origin: 0 }
    }

    /// As [`Self::of`], of an object that has the memory of another.
    pub(super) fn within(mem: cl::cl_mem, shape: Shape, of: Arc<Self>) -> Self {
        Self::stored(mem, shape, Storage::Within(of), Addresses::default())
    }

    /// Shared virtual memory, which is a buffer for all commands: as [`Svm::new`].
    ///
    /// # Errors
    /// As [`Svm::new`].
    pub fn svm(
        context: &Context,
        flags: u64,
        size: u64,
        boundaries: (u32, u32),
        storage: Option<&Arc<SharedStorage>>,
    ) -> Result<Self, Status> {
        Ok(Self::over(Svm::new(context, flags, size, boundaries, storage)?, size))
    }

    /// The first `size` bytes of shared virtual memory, which has so many.
    pub(super) fn over(svm: Svm, size: u64) -> Self {
        let addresses = Addresses::known(svm.at(0).addr());
        Self::stored(std::ptr::null_mut(), Shape::Buffer(size), Storage::Svm(svm), addresses)
    }

    /// A buffer whose storage is part of shared virtual memory (clCreateBuffer with CL_MEM_USE_HOST_PTR).
    ///
    /// # Errors
    /// The status of the native call; CL_INVALID_VALUE when the range leaves the memory or `svm` is none.
    pub fn over_svm(
        context: &Context,
        svm: &Arc<Self>,
        flags: u64,
        (offset, size): (u64, u64),
    ) -> Result<Self, Status> {
        let (at, bytes) = svm.range(offset, size)?;
        let host = svm.as_svm().ok_or(cl::CL_INVALID_VALUE)?.at(at);
        // SAFETY: the range is within the memory, which the new object keeps.
        let mem = unsafe { buffer_at(context, flags, host, bytes) }?;
        let (storage, addresses) = (Storage::Within(svm.clone()), svm.addresses.clone());
        Ok(Self { mem, shape: Shape::Buffer(size), storage, addresses, origin: at })
    }

    /// Where it is in `arena`, if it has its storage there.
    pub fn place_in(&self, arena: &Arena) -> Option<u64> {
        match (&self.storage, self.shape) {
            (Storage::Shared(at), Shape::Buffer(size)) => arena.place_of(*at, size as usize),
            (Storage::Svm(svm), Shape::Buffer(size)) => svm.place_in(arena, size as usize),
            (Storage::Within(parent), Shape::Buffer(_)) => {
                Some(parent.place_in(arena)? + (self.origin - parent.origin) as u64)
            }
            _ => None,
        }
    }

    /// The shared virtual memory that it is.
    pub fn as_svm(&self) -> Option<&Svm> {
        match &self.storage {
            Storage::Svm(svm) => Some(svm),
            Storage::Own | Storage::Shared(_) | Storage::Within(_) => None,
        }
    }

    /// As [`Self::as_svm`].
    pub(super) fn svm_mut(&mut self) -> Option<&mut Svm> {
        if let Storage::Svm(svm) = &mut self.storage { Some(svm) } else { None }
    }

    /// The shared virtual memory that its bytes are in.
    pub fn svm_beneath(&self) -> Option<&Svm> {
        match &self.storage {
            Storage::Own | Storage::Shared(_) => None,
            Storage::Svm(svm) => Some(svm),
            Storage::Within(memory) => memory.svm_beneath(),
        }
    }

    /// A region's origin, size and pitches as native sizes, when this is a buffer and it lies within it.
    pub(super) fn rect(&self, rect: &BufferRect) -> Result<NativeRect, Status> {
        let (first, span) = rect.bounds().ok_or(cl::CL_INVALID_VALUE)?;
        self.range(first, span)?;
        if self.as_svm().is_some() {
            return Err(cl::CL_INVALID_MEM_OBJECT);
        }
        let sizes = |from: [u64; 3]| from.map(|n| n as usize);
        Ok(NativeRect {
            origin: sizes(rect.origin),
            region: sizes(rect.region),
            row_pitch: rect.row_pitch as usize,
            slice_pitch: rect.slice_pitch as usize,
        })
    }

    /// `offset` and `size` as native sizes, when this is a buffer and they lie within it.
    pub(super) fn range(&self, offset: u64, size: u64) -> Result<(usize, usize), Status> {
        let Shape::Buffer(whole) = self.shape else { return Err(cl::CL_INVALID_MEM_OBJECT) };
        match offset.checked_add(size) {
            Some(end) if end <= whole => Ok((offset as usize, size as usize)),
            _ => Err(cl::CL_INVALID_VALUE),
        }
    }
}

/// A buffer that uses memory that is there (clCreateBuffer with CL_MEM_USE_HOST_PTR).
///
/// # Errors
/// The status of the native call.
///
/// # Safety
/// `bytes` bytes are mapped at `host` as long as the buffer, or a command that uses it, exists.
pub(super) unsafe fn buffer_at(
    context: &Context,
    flags: u64,
    host: *mut u8,
    bytes: usize,
) -> Result<cl::cl_mem, Status> {
    let (flags, mut status) = (flags | cl::CL_MEM_USE_HOST_PTR, 0);
    // SAFETY: the caller's promise.
    let mem = unsafe { (api().clCreateBuffer)(context.0, flags, bytes, host.cast(), &raw mut status) };
    check(status).map(|()| mem)
}

impl Drop for Memory {
    fn drop(&mut self) {
        if !self.mem.is_null() {
            // SAFETY: this is the one reference that the value owns.
            unsafe { (api().clReleaseMemObject)(self.mem) };
        }
    }
}

//! Memory objects (OpenCL 3.0 API, sections 5.2 and 5.5).

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use ropeway_abi::{
    CL_INVALID_BUFFER_SIZE, CL_INVALID_HOST_PTR, CL_INVALID_PROPERTY, CL_INVALID_VALUE, CL_MEM_ALLOC_HOST_PTR,
    CL_MEM_ASSOCIATED_MEMOBJECT, CL_MEM_CONTEXT, CL_MEM_COPY_HOST_PTR, CL_MEM_FLAGS, CL_MEM_HOST_NO_ACCESS,
    CL_MEM_HOST_PTR, CL_MEM_HOST_READ_ONLY, CL_MEM_HOST_WRITE_ONLY, CL_MEM_MAP_COUNT, CL_MEM_OBJECT_BUFFER,
    CL_MEM_OBJECT_PIPE, CL_MEM_OFFSET, CL_MEM_PROPERTIES, CL_MEM_READ_ONLY, CL_MEM_READ_WRITE, CL_MEM_REFERENCE_COUNT,
    CL_MEM_SIZE, CL_MEM_TYPE, CL_MEM_USE_HOST_PTR, CL_MEM_USES_SVM_POINTER, CL_MEM_WRITE_ONLY, cl_context, cl_int,
    cl_mem, cl_mem_flags, cl_mem_info, cl_mem_properties, cl_uint,
};
use ropeway_client::host::HostRange;
use ropeway_client::memory::{self, Kind};

use super::image::type_of;
use super::{Callback, Raw};
use crate::handle::{self, Handle};
use crate::info::{Answered, Info};
use crate::objects::{Context, Memory};
use crate::{guard, host};

pub(super) const DEVICE_ACCESS: cl_mem_flags = CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY;
pub(super) const HOST_ACCESS: cl_mem_flags = CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS;
pub(super) const HOST_POINTER: cl_mem_flags = CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR;

/// # Errors
/// CL_INVALID_VALUE if values specified in flags are not valid.
pub(super) fn check_flags(flags: cl_mem_flags) -> Result<(), cl_int> {
    let unknown = flags & !(DEVICE_ACCESS | HOST_ACCESS | HOST_POINTER) != 0;
    // The ways of access exclude each other, for kernels and for the host; memory that is the application's own is
    // neither allocated nor copied.
    let access = (flags & DEVICE_ACCESS).count_ones() > 1 || (flags & HOST_ACCESS).count_ones() > 1;
    let pointer = flags & CL_MEM_USE_HOST_PTR != 0 && flags & (CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR) != 0;
    if unknown || access || pointer { Err(CL_INVALID_VALUE) } else { Ok(()) }
}

/// The flags of an object that shares another one's memory: its own, which are checked, and the other's where its own
/// leave the choice.
///
/// # Errors
/// CL_INVALID_VALUE for flags that allow what the other's do not.
pub(super) fn inherited(parent: cl_mem_flags, flags: cl_mem_flags) -> Result<cl_mem_flags, cl_int> {
    let conflicts = |of_parent: cl_mem_flags, of_flags: cl_mem_flags| parent & of_parent != 0 && flags & of_flags != 0;
    // CL_INVALID_VALUE if the other was created with CL_MEM_WRITE_ONLY and flags specifies CL_MEM_READ_WRITE or
    // CL_MEM_READ_ONLY, or with CL_MEM_READ_ONLY and flags specifies CL_MEM_READ_WRITE or CL_MEM_WRITE_ONLY.
    let device = conflicts(CL_MEM_WRITE_ONLY, CL_MEM_READ_WRITE | CL_MEM_READ_ONLY)
        || conflicts(CL_MEM_READ_ONLY, CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY);
    // CL_INVALID_VALUE if it was created with CL_MEM_HOST_WRITE_ONLY and flags specifies CL_MEM_HOST_READ_ONLY, or with
    // CL_MEM_HOST_READ_ONLY and flags specifies CL_MEM_HOST_WRITE_ONLY, or with CL_MEM_HOST_NO_ACCESS and flags
    // specifies CL_MEM_HOST_READ_ONLY or CL_MEM_HOST_WRITE_ONLY.
    let host = conflicts(CL_MEM_HOST_WRITE_ONLY, CL_MEM_HOST_READ_ONLY)
        || conflicts(CL_MEM_HOST_READ_ONLY, CL_MEM_HOST_WRITE_ONLY)
        || conflicts(CL_MEM_HOST_NO_ACCESS, CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_WRITE_ONLY);
    if device || host {
        return Err(CL_INVALID_VALUE);
    }
    let or_inherit = |mask: cl_mem_flags| if flags & mask != 0 { flags & mask } else { parent & mask };
    Ok(or_inherit(DEVICE_ACCESS) | or_inherit(HOST_ACCESS) | parent & HOST_POINTER)
}

/// clCreateBuffer.
pub unsafe extern "C" fn clCreateBuffer(
    context: cl_context,
    flags: cl_mem_flags,
    size: usize,
    host_ptr: *mut c_void,
    errcode_ret: *mut cl_int,
) -> cl_mem {
    // SAFETY: the caller's promise.
    unsafe { guard::create("clCreateBuffer", errcode_ret, || create(context, Vec::new(), flags, size, host_ptr)) }
}

/// clCreateBufferWithProperties: no properties are defined for buffers that Ropeway offers.
pub unsafe extern "C" fn clCreateBufferWithProperties(
    context: cl_context,
    properties: *const cl_mem_properties,
    flags: cl_mem_flags,
    size: usize,
    host_ptr: *mut c_void,
    errcode_ret: *mut cl_int,
) -> cl_mem {
    // SAFETY: the caller's promise, here and below.
    unsafe {
        guard::create("clCreateBufferWithProperties", errcode_ret, || {
            Handle::<Context>::find(context)?;
            // CL_INVALID_PROPERTY if a property name in properties is not supported.
            if !properties.is_null() && properties.read() != 0 {
                return Err(CL_INVALID_PROPERTY);
            }
            let properties = if properties.is_null() { Vec::new() } else { vec![0] };
            create(context, properties, flags, size, host_ptr)
        })
    }
}

/// # Safety
/// As the specification says of clCreateBuffer's arguments.
unsafe fn create(
    context: cl_context,
    properties: Vec<cl_mem_properties>,
    flags: cl_mem_flags,
    size: usize,
    host_ptr: *mut c_void,
) -> Result<*mut c_void, cl_int> {
    let context = Handle::<Context>::find(context)?;
    check_flags(flags)?;
    // CL_INVALID_BUFFER_SIZE if size is 0, or greater than CL_DEVICE_MAX_MEM_ALLOC_SIZE for all devices of the context.
    if size == 0 || context.devices.iter().all(|device| size as u64 > device.limits.max_alloc) {
        return Err(CL_INVALID_BUFFER_SIZE);
    }
    // CL_INVALID_HOST_PTR if host_ptr is NULL and CL_MEM_USE_HOST_PTR or CL_MEM_COPY_HOST_PTR are set in flags, or if
    // host_ptr is not NULL but neither is set.
    let uses_pointer = flags & (CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR) != 0;
    if uses_pointer == host_ptr.is_null() {
        return Err(CL_INVALID_HOST_PTR);
    }
    // No slice is longer than this, and no allocation.
    if uses_pointer && isize::try_from(size).is_err() {
        return Err(CL_INVALID_BUFFER_SIZE);
    }
    // CL_INVALID_BUFFER_SIZE if CL_MEM_USE_HOST_PTR is set in flags and host_ptr is a pointer returned by clSVMAlloc
    // and size is greater than the size passed to clSVMAlloc.
    if flags & CL_MEM_USE_HOST_PTR != 0
        && let Some(region) = context.client.svm_region(host_ptr.addr(), size).map_err(|_| CL_INVALID_BUFFER_SIZE)?
    {
        let client = memory::Memory::over_svm(&region, flags, size)?;
        return Ok(Handle::new(&context, Memory { client, context: context.clone(), parent: None, properties })?.give());
    }
    // SAFETY: the application's memory, of as many bytes as the buffer has.
    let contents = uses_pointer.then(|| unsafe { std::slice::from_raw_parts(host_ptr.cast::<u8>(), size) });
    // SAFETY: with this flag, until the buffer is destroyed.
    let host = (flags & CL_MEM_USE_HOST_PTR != 0).then(|| unsafe { host::Borrowed::new(host_ptr) });
    let range = host.clone().map(|host| host as Arc<dyn HostRange>);
    let client = memory::Memory::buffer(&context.client, flags, size, contents, range)?;
    if let Some(host) = host {
        host.belongs_to(&client);
    }
    Ok(Handle::new(&context, Memory { client, context: context.clone(), parent: None, properties })?.give())
}

/// clRetainMemObject.
pub unsafe extern "C" fn clRetainMemObject(memobj: cl_mem) -> cl_int {
    guard::status("clRetainMemObject", || handle::retain::<Memory>(memobj))
}

/// clReleaseMemObject.
pub unsafe extern "C" fn clReleaseMemObject(memobj: cl_mem) -> cl_int {
    guard::status("clReleaseMemObject", || handle::release::<Memory>(memobj))
}

/// clGetMemObjectInfo.
pub unsafe extern "C" fn clGetMemObjectInfo(
    memobj: cl_mem,
    name: cl_mem_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    // SAFETY: the caller's promise.
    let info = unsafe { Info::new(size, value, size_ret) };
    guard::status("clGetMemObjectInfo", || answer(&Handle::find(memobj)?, name, info))
}

fn answer(memory: &Handle<Memory>, name: cl_mem_info, info: Info) -> Result<Answered, cl_int> {
    let client = &memory.client;
    match name {
        CL_MEM_TYPE => match client.kind() {
            Kind::Buffer | Kind::SubBuffer { .. } => info.value(CL_MEM_OBJECT_BUFFER),
            Kind::Image(image) => info.value(type_of(image.like.kind)),
            Kind::Pipe(_) => info.value(CL_MEM_OBJECT_PIPE),
        },
        CL_MEM_FLAGS => info.value(client.flags()),
        CL_MEM_SIZE => info.value(client.size()),
        // The pointer given with CL_MEM_USE_HOST_PTR; NULL for other buffers, wherever they are mapped.
        CL_MEM_HOST_PTR => {
            let uses = client.flags() & CL_MEM_USE_HOST_PTR != 0;
            info.value(client.host_address().filter(|_| uses).unwrap_or(0))
        }
        CL_MEM_MAP_COUNT => info.value(client.map_count() as cl_uint),
        CL_MEM_REFERENCE_COUNT => info.value(memory.reference_count()),
        CL_MEM_CONTEXT => info.value(memory.context.raw()),
        // The object that it was made from; NULL for one with memory of its own.
        CL_MEM_ASSOCIATED_MEMOBJECT => info.value(memory.parent.as_ref().map_or(ptr::null_mut(), Handle::raw)),
        CL_MEM_OFFSET => info.value(client.offset()),
        CL_MEM_USES_SVM_POINTER => info.value(cl_uint::from(client.uses_svm())),
        CL_MEM_PROPERTIES => info.slice(&memory.properties),
        // CL_INVALID_VALUE if param_name is not one of the supported values.
        _ => Err(CL_INVALID_VALUE),
    }
}

/// clSetMemObjectDestructorCallback.
pub unsafe extern "C" fn clSetMemObjectDestructorCallback(
    memobj: cl_mem,
    pfn_notify: Option<unsafe extern "C" fn(cl_mem, *mut c_void)>,
    user_data: *mut c_void,
) -> cl_int {
    guard::status("clSetMemObjectDestructorCallback", || {
        let memory = Handle::<Memory>::find(memobj)?;
        // CL_INVALID_VALUE if pfn_notify is NULL.
        let callback = Callback::new(pfn_notify.ok_or(CL_INVALID_VALUE)?, user_data);
        let memobj = Raw::new(memobj);
        memory.client.on_destruction(Box::new(move || {
            let (notify, user_data) = callback.parts();
            // SAFETY: the application gave this function and argument for this.
            unsafe { notify(memobj.get(), user_data) };
        }));
        Ok(())
    })
}

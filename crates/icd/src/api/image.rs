//! Images: how they are made and what can be asked about them (OpenCL 3.0 API, sections 5.3.1, 5.3.2 and 5.3.9).

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use ropeway_abi::*;
use ropeway_client::host::HostRange;
use ropeway_client::image::{Image, Layout, Material};
use ropeway_client::memory;
use ropeway_protocol::image::{ImageDescription, ImageFormat, ImageKind};

use super::memory::{DEVICE_ACCESS, check_flags, inherited};
use super::put;
use crate::handle::Handle;
use crate::info::{Answered, Info};
use crate::objects::{Context, ImageLimits, Memory};
use crate::{guard, host};

/// # Errors
/// CL_INVALID_OPERATION if there are no devices in context that support images.
pub fn check_support(context: &Context) -> Result<(), cl_int> {
    let any = context.devices.iter().any(|device| device.limits.images.is_some());
    if any { Ok(()) } else { Err(CL_INVALID_OPERATION) }
}

/// The type of image that a CL_MEM_OBJECT_IMAGE… is.
fn kind_of(image_type: cl_mem_object_type) -> Option<ImageKind> {
    Some(match image_type {
        CL_MEM_OBJECT_IMAGE1D => ImageKind::Image1D,
        CL_MEM_OBJECT_IMAGE1D_BUFFER => ImageKind::Image1DBuffer,
        CL_MEM_OBJECT_IMAGE1D_ARRAY => ImageKind::Image1DArray,
        CL_MEM_OBJECT_IMAGE2D => ImageKind::Image2D,
        CL_MEM_OBJECT_IMAGE2D_ARRAY => ImageKind::Image2DArray,
        CL_MEM_OBJECT_IMAGE3D => ImageKind::Image3D,
        _ => return None,
    })
}

/// CL_MEM_TYPE of an image.
pub fn type_of(kind: ImageKind) -> cl_mem_object_type {
    match kind {
        ImageKind::Image1D => CL_MEM_OBJECT_IMAGE1D,
        ImageKind::Image1DBuffer => CL_MEM_OBJECT_IMAGE1D_BUFFER,
        ImageKind::Image1DArray => CL_MEM_OBJECT_IMAGE1D_ARRAY,
        ImageKind::Image2D => CL_MEM_OBJECT_IMAGE2D,
        ImageKind::Image2DArray => CL_MEM_OBJECT_IMAGE2D_ARRAY,
        ImageKind::Image3D => CL_MEM_OBJECT_IMAGE3D,
    }
}

/// clCreateImage.
pub unsafe extern "C" fn clCreateImage(
    context: cl_context,
    flags: cl_mem_flags,
    format: *const cl_image_format,
    desc: *const cl_image_desc,
    host_ptr: *mut c_void,
    errcode_ret: *mut cl_int,
) -> cl_mem {
    // SAFETY: the caller's promise, here and below.
    unsafe {
        guard::create("clCreateImage", errcode_ret, || {
            let context = Handle::<Context>::find(context)?;
            create(&context, Vec::new(), flags, format, desc, host_ptr)
        })
    }
}

/// clCreateImageWithProperties: no properties are defined for images that Ropeway offers.
pub unsafe extern "C" fn clCreateImageWithProperties(
    context: cl_context,
    properties: *const cl_mem_properties,
    flags: cl_mem_flags,
    format: *const cl_image_format,
    desc: *const cl_image_desc,
    host_ptr: *mut c_void,
    errcode_ret: *mut cl_int,
) -> cl_mem {
    // SAFETY: the caller's promise, here and below.
    unsafe {
        guard::create("clCreateImageWithProperties", errcode_ret, || {
            let context = Handle::<Context>::find(context)?;
            // CL_INVALID_PROPERTY if a property name in properties is not supported.
            if !properties.is_null() && properties.read() != 0 {
                return Err(CL_INVALID_PROPERTY);
            }
            let properties = if properties.is_null() { Vec::new() } else { vec![0] };
            create(&context, properties, flags, format, desc, host_ptr)
        })
    }
}

/// clCreateImage2D (OpenCL 1.1).
pub unsafe extern "C" fn clCreateImage2D(
    context: cl_context,
    flags: cl_mem_flags,
    format: *const cl_image_format,
    width: usize,
    height: usize,
    row_pitch: usize,
    host_ptr: *mut c_void,
    errcode_ret: *mut cl_int,
) -> cl_mem {
    let desc = described(CL_MEM_OBJECT_IMAGE2D, [width, height, 0], row_pitch, 0);
    // SAFETY: the caller's promise.
    unsafe {
        guard::create("clCreateImage2D", errcode_ret, || {
            let context = Handle::<Context>::find(context)?;
            create(&context, Vec::new(), flags, format, &desc, host_ptr).map_err(as_size)
        })
    }
}

/// clCreateImage3D (OpenCL 1.1).
pub unsafe extern "C" fn clCreateImage3D(
    context: cl_context,
    flags: cl_mem_flags,
    format: *const cl_image_format,
    width: usize,
    height: usize,
    depth: usize,
    row_pitch: usize,
    slice_pitch: usize,
    host_ptr: *mut c_void,
    errcode_ret: *mut cl_int,
) -> cl_mem {
    let desc = described(CL_MEM_OBJECT_IMAGE3D, [width, height, depth], row_pitch, slice_pitch);
    // SAFETY: the caller's promise.
    unsafe {
        guard::create("clCreateImage3D", errcode_ret, || {
            let context = Handle::<Context>::find(context)?;
            create(&context, Vec::new(), flags, format, &desc, host_ptr).map_err(as_size)
        })
    }
}

fn described(
    image_type: cl_mem_object_type,
    [width, height, depth]: [usize; 3],
    row_pitch: usize,
    slice_pitch: usize,
) -> cl_image_desc {
    cl_image_desc {
        image_type,
        image_width: width,
        image_height: height,
        image_depth: depth,
        image_array_size: 0,
        image_row_pitch: row_pitch,
        image_slice_pitch: slice_pitch,
        num_mip_levels: 0,
        num_samples: 0,
        __bindgen_anon_1: _cl_image_desc__bindgen_ty_1 { buffer: ptr::null_mut() },
    }
}

/// Turns an error about a descriptor into CL_INVALID_IMAGE_SIZE: OpenCL 1.1, which had no image descriptor, has that
/// code for sizes and pitches that break the rules.
fn as_size(code: cl_int) -> cl_int {
    if code == CL_INVALID_IMAGE_DESCRIPTOR { CL_INVALID_IMAGE_SIZE } else { code }
}

/// # Safety
/// As the specification says of clCreateImage's arguments.
unsafe fn create(
    context: &Handle<Context>,
    properties: Vec<cl_mem_properties>,
    flags: cl_mem_flags,
    format: *const cl_image_format,
    desc: *const cl_image_desc,
    host_ptr: *mut c_void,
) -> Result<*mut c_void, cl_int> {
    // CL_INVALID_VALUE if values specified in flags are not valid.
    check_flags(flags & !CL_MEM_KERNEL_READ_AND_WRITE)?;
    // CL_INVALID_IMAGE_FORMAT_DESCRIPTOR if values specified in image_format are not valid or if image_format is NULL.
    // SAFETY: the caller's promise.
    let format = unsafe { format.as_ref() }.ok_or(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR)?;
    let format = ImageFormat { order: format.image_channel_order, data_type: format.image_channel_data_type };
    let element = format.element_size().ok_or(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR)? as usize;
    // CL_INVALID_IMAGE_DESCRIPTOR if values specified in image_desc are not valid or if image_desc is NULL.
    // SAFETY: the caller's promise.
    let desc = unsafe { desc.as_ref() }.ok_or(CL_INVALID_IMAGE_DESCRIPTOR)?;
    let kind = kind_of(desc.image_type).ok_or(CL_INVALID_IMAGE_DESCRIPTOR)?;
    check_support(context)?;
    // SAFETY: both members of the union are handles.
    let object = unsafe { desc.__bindgen_anon_1.mem_object };
    let parent = if object.is_null() { None } else { Some(parent_of(context, kind, object)?) };
    let flags = match &parent {
        Some(parent) => inherited(parent.client.flags(), flags)?,
        None => flags,
    };
    // CL_INVALID_HOST_PTR if host_ptr is NULL and CL_MEM_USE_HOST_PTR or CL_MEM_COPY_HOST_PTR are set in flags, or if
    // host_ptr is not NULL but neither is set.
    let uses_pointer = parent.is_none() && flags & (CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR) != 0;
    if parent.is_none() && uses_pointer == host_ptr.is_null() {
        return Err(CL_INVALID_HOST_PTR);
    }
    let pitches = uses_pointer || parent.is_some();
    let image = image_of(kind, format, element, desc, pitches, parent.as_ref().map(|parent| &*parent.client))?;
    // CL_INVALID_IMAGE_SIZE if image dimensions specified in image_desc exceed the maximum for all devices in context.
    let mut limits = context.devices.iter().filter_map(|device| device.limits.images.as_ref());
    if !limits.any(|limits| fits(&image.like, limits)) {
        return Err(CL_INVALID_IMAGE_SIZE);
    }
    let (Some(size), Some(layout)) = (image.size(), image.layout()) else { return Err(CL_INVALID_IMAGE_SIZE) };
    let region = layout.region(image.extent()).ok_or(CL_INVALID_IMAGE_SIZE)?;
    // CL_IMAGE_FORMAT_NOT_SUPPORTED if there are no devices in context that support image_format. The list does not say
    // all: what is not on it, or lies in another object's memory, is for the native implementation to refuse.
    let access = if flags & DEVICE_ACCESS == 0 { CL_MEM_READ_WRITE } else { flags & DEVICE_ACCESS };
    let listed = context.client.image_formats(access, desc.image_type).is_ok_and(|list| list.contains(&format));
    // CL_INVALID_IMAGE_FORMAT_DESCRIPTOR if values specified in image_format are not valid: also together.
    if !listed && !format.is_legal() {
        return Err(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR);
    }
    // SAFETY: the application's memory, of as many bytes as the image spans.
    let contents = uses_pointer.then(|| unsafe { host::source(host_ptr, region) });
    // SAFETY: with this flag, until the image is destroyed.
    let borrowed = (uses_pointer && flags & CL_MEM_USE_HOST_PTR != 0).then(|| unsafe { host::Borrowed::new(host_ptr) });
    let material = match &parent {
        Some(parent) => Material::Of(&parent.client),
        None => Material::Own(contents.as_deref(), borrowed.clone().map(|host| host as Arc<dyn HostRange>)),
    };
    let client = memory::Memory::image(&context.client, flags, image, size, material)?;
    if let Some(host) = borrowed {
        host.belongs_to(&client);
    }
    if !listed || parent.is_some() && kind == ImageKind::Image2D {
        client.confirm().map_err(|code| match code {
            // PoCL returns this code for formats that it does not support.
            CL_INVALID_OPERATION if !listed => CL_IMAGE_FORMAT_NOT_SUPPORTED,
            code => code,
        })?;
    }
    Ok(Handle::new(context, Memory { client, context: context.clone(), parent, properties })?.give())
}

/// The object that an image is made of.
///
/// # Errors
/// CL_INVALID_IMAGE_DESCRIPTOR if mem_object is not a valid object for this type of image; CL_INVALID_CONTEXT if it is
/// another context's.
fn parent_of(context: &Handle<Context>, kind: ImageKind, object: cl_mem) -> Result<Handle<Memory>, cl_int> {
    let parent = Handle::<Memory>::find(object).map_err(|_| CL_INVALID_IMAGE_DESCRIPTOR)?;
    if parent.context != *context {
        return Err(CL_INVALID_CONTEXT);
    }
    let fits = match (kind, parent.client.as_image()) {
        (ImageKind::Image1DBuffer | ImageKind::Image2D, None) => parent.client.is_buffer(),
        (ImageKind::Image2D, Some(of)) => of.like.kind == ImageKind::Image2D,
        _ => false,
    };
    if fits { Ok(parent) } else { Err(CL_INVALID_IMAGE_DESCRIPTOR) }
}

/// # Errors
/// CL_INVALID_IMAGE_DESCRIPTOR if values specified in image_desc are not valid.
fn image_of(
    kind: ImageKind,
    format: ImageFormat,
    element: usize,
    desc: &cl_image_desc,
    may_have_pitches: bool,
    parent: Option<&memory::Memory>,
) -> Result<Image, cl_int> {
    let extent = match kind {
        ImageKind::Image1D | ImageKind::Image1DBuffer => [desc.image_width, 1, 1],
        ImageKind::Image1DArray => [desc.image_width, desc.image_array_size, 1],
        ImageKind::Image2D => [desc.image_width, desc.image_height, 1],
        ImageKind::Image2DArray => [desc.image_width, desc.image_height, desc.image_array_size],
        ImageKind::Image3D => [desc.image_width, desc.image_height, desc.image_depth],
    };
    let (row_pitch, slice_pitch) = (desc.image_row_pitch, desc.image_slice_pitch);
    // Each size that the type has must be at least 1; there are no mip-maps and no samples; pitches must be 0 without
    // host_ptr; a 1D image buffer needs its buffer; a row pitch is a multiple of the element's size, a slice pitch of
    // the row pitch.
    let slices = kind.slices().is_some();
    if extent.contains(&0)
        || desc.num_mip_levels != 0
        || desc.num_samples != 0
        || !may_have_pitches && (row_pitch != 0 || slices && slice_pitch != 0)
        || kind == ImageKind::Image1DBuffer && parent.is_none()
        || !row_pitch.is_multiple_of(element)
    {
        return Err(CL_INVALID_IMAGE_DESCRIPTOR);
    }
    let row = element.checked_mul(extent[0]).ok_or(CL_INVALID_IMAGE_SIZE)?;
    // The pitch of a 2D image of a 2D image is that one's.
    let row_pitch = match parent.and_then(memory::Memory::as_image) {
        Some(of) => of.row_pitch,
        None if row_pitch == 0 => row,
        None => row_pitch,
    };
    let rows = if kind == ImageKind::Image1DArray { 1 } else { extent[1] };
    let slice = row_pitch.checked_mul(rows).ok_or(CL_INVALID_IMAGE_SIZE)?;
    let slice_pitch = match slices {
        false => 0,
        true if slice_pitch == 0 => slice,
        true => slice_pitch,
    };
    if Layout::new(kind, element, extent, row_pitch, slice_pitch).is_none()
        || slices && !slice_pitch.is_multiple_of(row_pitch)
    {
        return Err(CL_INVALID_IMAGE_DESCRIPTOR);
    }
    let of_buffer = parent.is_some_and(memory::Memory::is_buffer);
    let pitch_of_buffer = if of_buffer && kind == ImageKind::Image2D { desc.image_row_pitch as u64 } else { 0 };
    let like = ImageDescription { kind, format, extent: extent.map(|n| n as u64), row_pitch: pitch_of_buffer };
    match parent {
        // CL_INVALID_IMAGE_SIZE if the image is larger than its buffer.
        Some(of) if of_buffer && like.bytes_of_buffer().is_none_or(|needed| needed > of.size() as u64) => {
            Err(CL_INVALID_IMAGE_SIZE)
        }
        // CL_INVALID_IMAGE_FORMAT_DESCRIPTOR if a 2D image is created from a 2D image and the rules are not followed:
        // the same sizes.
        Some(of) if of.as_image().is_some_and(|of| of.like.extent != like.extent || of.element() != element) => {
            Err(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR)
        }
        _ => Ok(Image { like, row_pitch, slice_pitch }),
    }
}

/// Whether a device with these limits has such images.
pub fn fits(like: &ImageDescription, limits: &ImageLimits) -> bool {
    let [x, y, z] = like.extent;
    let [width, height] = limits.image_2d;
    match like.kind {
        ImageKind::Image1D => x <= width,
        ImageKind::Image1DBuffer => x <= limits.buffer,
        ImageKind::Image1DArray => x <= width && y <= limits.array,
        ImageKind::Image2D => x <= width && y <= height,
        ImageKind::Image2DArray => x <= width && y <= height && z <= limits.array,
        ImageKind::Image3D => like.extent.iter().zip(limits.image_3d).all(|(n, most)| *n <= most),
    }
}

/// clGetImageInfo.
pub unsafe extern "C" fn clGetImageInfo(
    image: cl_mem,
    name: cl_image_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    // SAFETY: the caller's promise.
    let info = unsafe { Info::new(size, value, size_ret) };
    guard::status("clGetImageInfo", || answer(&Handle::find(image)?, name, info))
}

fn answer(memory: &Handle<Memory>, name: cl_image_info, info: Info) -> Result<Answered, cl_int> {
    // CL_INVALID_MEM_OBJECT if image is not a valid image object.
    let image = memory.client.as_image().ok_or(CL_INVALID_MEM_OBJECT)?;
    let kind = image.like.kind;
    let [width, y, z] = image.extent();
    match name {
        CL_IMAGE_FORMAT => info.slice(&[image.like.format.order, image.like.format.data_type]),
        CL_IMAGE_ELEMENT_SIZE => info.value(image.element()),
        CL_IMAGE_ROW_PITCH => info.value(image.row_pitch),
        CL_IMAGE_SLICE_PITCH => info.value(image.slice_pitch),
        CL_IMAGE_WIDTH => info.value(width),
        CL_IMAGE_HEIGHT => info.value(match kind {
            ImageKind::Image2D | ImageKind::Image2DArray | ImageKind::Image3D => y,
            _ => 0,
        }),
        CL_IMAGE_DEPTH => info.value(if kind == ImageKind::Image3D { z } else { 0 }),
        CL_IMAGE_ARRAY_SIZE => info.value(match kind {
            ImageKind::Image1DArray => y,
            ImageKind::Image2DArray => z,
            _ => 0,
        }),
        CL_IMAGE_BUFFER => {
            let buffer = memory.parent.as_ref().filter(|parent| parent.client.is_buffer());
            info.value(buffer.map_or(ptr::null_mut(), Handle::raw))
        }
        CL_IMAGE_NUM_MIP_LEVELS | CL_IMAGE_NUM_SAMPLES => info.value::<cl_uint>(0),
        // CL_INVALID_VALUE if param_name is not one of the supported values.
        _ => Err(CL_INVALID_VALUE),
    }
}

/// clGetSupportedImageFormats.
pub unsafe extern "C" fn clGetSupportedImageFormats(
    context: cl_context,
    flags: cl_mem_flags,
    image_type: cl_mem_object_type,
    num_entries: cl_uint,
    image_formats: *mut cl_image_format,
    num_image_formats: *mut cl_uint,
) -> cl_int {
    guard::status("clGetSupportedImageFormats", || {
        let context = Handle::<Context>::find(context)?;
        // CL_INVALID_VALUE if flags or image_type are not valid, or if num_entries is 0 and image_formats is not NULL.
        check_flags(flags & !CL_MEM_KERNEL_READ_AND_WRITE)?;
        if kind_of(image_type).is_none() || num_entries == 0 && !image_formats.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        let known = match check_support(&context) {
            Ok(()) => context.client.image_formats(flags, image_type)?,
            Err(_) => Arc::default(),
        };
        if !image_formats.is_null() {
            for (index, format) in known.iter().take(num_entries as usize).enumerate() {
                let format =
                    cl_image_format { image_channel_order: format.order, image_channel_data_type: format.data_type };
                // SAFETY: below `num_entries`, by the caller's promise.
                unsafe { image_formats.add(index).write(format) };
            }
        }
        // SAFETY: the caller's promise.
        unsafe { put(num_image_formats, known.len() as cl_uint) };
        Ok(())
    })
}

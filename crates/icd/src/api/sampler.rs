//! Samplers (OpenCL 3.0 API, section 5.7).

use ropeway_abi::{
    CL_ADDRESS_CLAMP, CL_ADDRESS_MIRRORED_REPEAT, CL_ADDRESS_NONE, CL_ADDRESS_REPEAT, CL_FILTER_LINEAR,
    CL_FILTER_NEAREST, CL_INVALID_VALUE, CL_SAMPLER_ADDRESSING_MODE, CL_SAMPLER_CONTEXT, CL_SAMPLER_FILTER_MODE,
    CL_SAMPLER_NORMALIZED_COORDS, CL_SAMPLER_PROPERTIES, CL_SAMPLER_REFERENCE_COUNT, CL_TRUE, cl_addressing_mode,
    cl_bool, cl_context, cl_filter_mode, cl_int, cl_sampler, cl_sampler_info, cl_sampler_properties, cl_uint,
};
use ropeway_client::sampler;
use ropeway_protocol::image::SamplerDescription;
use std::ffi::c_void;

use super::image::check_support;
use crate::guard;
use crate::handle::{self, Handle};
use crate::info::{Answered, Info};
use crate::objects::{Context, Sampler};

/// clCreateSampler.
pub unsafe extern "C" fn clCreateSampler(
    context: cl_context,
    normalized_coords: cl_bool,
    addressing_mode: cl_addressing_mode,
    filter_mode: cl_filter_mode,
    errcode_ret: *mut cl_int,
) -> cl_sampler {
    // SAFETY: the caller's promise.
    unsafe {
        guard::create("clCreateSampler", errcode_ret, || {
            let context = Handle::<Context>::find(context)?;
            // CL_INVALID_VALUE if addressing_mode, filter_mode, normalized_coords or a combination of these arguments
            // are not valid.
            let like = checked(normalized_coords.into(), addressing_mode.into(), filter_mode.into())?;
            create(&context, like, Vec::new())
        })
    }
}

/// clCreateSamplerWithProperties.
pub unsafe extern "C" fn clCreateSamplerWithProperties(
    context: cl_context,
    properties: *const cl_sampler_properties,
    errcode_ret: *mut cl_int,
) -> cl_sampler {
    // SAFETY: the caller's promise, here and below.
    unsafe {
        guard::create("clCreateSamplerWithProperties", errcode_ret, || {
            let context = Handle::<Context>::find(context)?;
            let (mut normalized, mut addressing, mut filter) = (None, None, None);
            let mut list = Vec::new();
            let mut next = properties;
            while !next.is_null() {
                let name = next.read();
                list.push(name);
                if name == 0 {
                    break;
                }
                let value = next.add(1).read();
                list.push(value);
                next = next.add(2);
                // CL_INVALID_VALUE if the property name in sampler_properties is not a supported property name, if the
                // value specified for a supported property name is not valid, or if the same property name is specified
                // more than once.
                let place = match cl_uint::try_from(name) {
                    Ok(CL_SAMPLER_NORMALIZED_COORDS) => &mut normalized,
                    Ok(CL_SAMPLER_ADDRESSING_MODE) => &mut addressing,
                    Ok(CL_SAMPLER_FILTER_MODE) => &mut filter,
                    _ => return Err(CL_INVALID_VALUE),
                };
                if place.replace(value).is_some() {
                    return Err(CL_INVALID_VALUE);
                }
            }
            let like = checked(
                normalized.unwrap_or(CL_TRUE.into()),
                addressing.unwrap_or(CL_ADDRESS_CLAMP.into()),
                filter.unwrap_or(CL_FILTER_NEAREST.into()),
            )?;
            create(&context, like, list)
        })
    }
}

/// # Errors
/// CL_INVALID_VALUE for what no sampler has.
fn checked(normalized: u64, addressing: u64, filter: u64) -> Result<SamplerDescription, cl_int> {
    let known = normalized <= CL_TRUE.into()
        && (CL_ADDRESS_NONE.into()..=CL_ADDRESS_MIRRORED_REPEAT.into()).contains(&addressing)
        && (CL_FILTER_NEAREST.into()..=CL_FILTER_LINEAR.into()).contains(&filter);
    if !known {
        return Err(CL_INVALID_VALUE);
    }
    Ok(SamplerDescription { normalized: normalized != 0, addressing: addressing as u32, filter: filter as u32 })
}

fn create(context: &Handle<Context>, like: SamplerDescription, properties: Vec<u64>) -> Result<*mut c_void, cl_int> {
    check_support(context)?;
    let client = sampler::Sampler::new(&context.client, like)?;
    // CL_INVALID_VALUE if a combination of the arguments is not valid: coordinates that are not normalized cannot be
    // repeated. PoCL refuses that, NVIDIA does not.
    if !like.normalized && like.addressing >= CL_ADDRESS_REPEAT {
        client.confirm()?;
    }
    Ok(Handle::new(context, Sampler { client, context: context.clone(), properties })?.give())
}

/// clRetainSampler.
pub unsafe extern "C" fn clRetainSampler(sampler: cl_sampler) -> cl_int {
    guard::status("clRetainSampler", || handle::retain::<Sampler>(sampler))
}

/// clReleaseSampler.
pub unsafe extern "C" fn clReleaseSampler(sampler: cl_sampler) -> cl_int {
    guard::status("clReleaseSampler", || handle::release::<Sampler>(sampler))
}

/// clGetSamplerInfo.
pub unsafe extern "C" fn clGetSamplerInfo(
    sampler: cl_sampler,
    name: cl_sampler_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    // SAFETY: the caller's promise.
    let info = unsafe { Info::new(size, value, size_ret) };
    guard::status("clGetSamplerInfo", || answer(&Handle::find(sampler)?, name, info))
}

fn answer(sampler: &Handle<Sampler>, name: cl_sampler_info, info: Info) -> Result<Answered, cl_int> {
    let like = sampler.client.like();
    match name {
        CL_SAMPLER_REFERENCE_COUNT => info.value(sampler.reference_count()),
        CL_SAMPLER_CONTEXT => info.value(sampler.context.raw()),
        CL_SAMPLER_NORMALIZED_COORDS => info.value(cl_bool::from(like.normalized)),
        CL_SAMPLER_ADDRESSING_MODE => info.value(like.addressing),
        CL_SAMPLER_FILTER_MODE => info.value(like.filter),
        CL_SAMPLER_PROPERTIES => info.slice(&sampler.properties),
        // CL_INVALID_VALUE if param_name is not one of the supported values.
        _ => Err(CL_INVALID_VALUE),
    }
}

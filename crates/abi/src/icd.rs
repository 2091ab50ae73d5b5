//! The interface between an ICD loader and a driver (cl_khr_icd 2.0.0).
//!
//! Every handle that a driver hands out points to an object whose first word is the address of the driver's dispatch
//! table and whose second word belongs to the loader ("dispatch data"). A driver of version 2 says so by [`ICD2_TAG`]
//! in two slots of the table that no loader has ever called, and offers two more functions by name.

use std::ffi::{c_char, c_void};

use opencl_sys::{cl_int, cl_platform_id, cl_uint};

/// The dispatch table: one slot for each function of the API, in the order that all loaders agree on.
pub type DispatchTable = opencl_sys::cl_icd::_cl_icd_dispatch;

/// CL_ICD2_TAG_KHR: marks the table of a driver of cl_khr_icd 2.0 ("OPENCL31" in ASCII; its lower half on 32 bits).
#[cfg(target_pointer_width = "64")]
pub const ICD2_TAG: isize = 0x4F50_454E_434C_3331;
/// CL_ICD2_TAG_KHR: marks the table of a driver of cl_khr_icd 2.0 ("OPENCL31" in ASCII; its lower half on 32 bits).
#[cfg(target_pointer_width = "32")]
pub const ICD2_TAG: isize = 0x434C_3331;

/// clIcdGetPlatformIDsKHR: lists the driver's platforms to the loader.
#[allow(non_camel_case_types)]
pub type clIcdGetPlatformIDsKHR_t = unsafe extern "C" fn(cl_uint, *mut cl_platform_id, *mut cl_uint) -> cl_int;

/// clIcdGetFunctionAddressForPlatformKHR: finds one function of the API for the loader's own table.
#[allow(non_camel_case_types)]
pub type clIcdGetFunctionAddressForPlatformKHR_t = unsafe extern "C" fn(cl_platform_id, *const c_char) -> *mut c_void;

/// clIcdSetPlatformDispatchDataKHR: gives the word that the driver puts second into every object of the platform.
#[allow(non_camel_case_types)]
pub type clIcdSetPlatformDispatchDataKHR_t = unsafe extern "C" fn(cl_platform_id, *mut c_void) -> cl_int;

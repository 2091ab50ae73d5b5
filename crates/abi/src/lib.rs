//! OpenCL as C sees it: types, constants, error codes, function types and the ICD dispatch table. No logic.
//!
//! The declarations are those of `opencl-sys`; [`icd`] and [`ropeway`] add what it lacks.
//! Nothing here links an OpenCL library.

pub mod icd;
pub mod ropeway;

pub use opencl_sys::cl_function_types as functions;
pub use opencl_sys::*;

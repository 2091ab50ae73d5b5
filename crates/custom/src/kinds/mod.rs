//! The kinds of custom devices, one file each.

pub mod functions;
pub mod source;

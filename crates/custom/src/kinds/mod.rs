//! The kinds of custom devices, one file each.

pub mod functions;

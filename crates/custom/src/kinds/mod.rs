//! The kinds of custom devices, one file each; `records` and `states` are what several of them use.

pub mod decoder;
pub mod draco;
pub mod encoder;
pub mod functions;
pub mod records;
pub mod source;
pub mod states;

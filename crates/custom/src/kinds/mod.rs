//! The kinds of custom devices, one file each; `codecs`, `records` and `states` are what several of them use.

pub mod codecs;
pub mod decoder;
pub mod draco;
pub mod encoder;
pub mod functions;
pub mod records;
pub mod source;
pub mod states;

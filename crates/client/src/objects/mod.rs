//! The mirror of the OpenCL objects that live at the servers.

pub(crate) mod buffer;
pub mod context;
pub mod device;
pub mod event;
pub(crate) mod home;
pub mod image;
pub mod kernel;
pub mod memory;
pub mod pipe;
pub mod program;
pub mod queue;
pub mod sampler;

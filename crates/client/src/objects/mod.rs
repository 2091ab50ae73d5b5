//! The mirror of the OpenCL objects that live at the servers.

pub(crate) mod access;
pub(crate) mod at_client;
pub(crate) mod buffer;
pub mod context;
pub mod device;
pub mod device_queue;
pub mod event;
pub(crate) mod event_ref;
pub(crate) mod home;
pub mod image;
pub mod kernel;
pub(crate) mod kind;
pub(crate) mod mappings;
pub mod memory;
pub(crate) mod part;
pub mod pipe;
pub mod program;
pub(crate) mod progress;
pub mod queue;
pub mod sampler;
pub(crate) mod svm;
pub(crate) mod ways;

//! The base that everything else stands on. It knows neither links nor OpenCL objects.

pub(crate) mod callbacks;
pub mod host;
pub(crate) mod ids;
pub mod log;
pub(crate) mod modelled;
pub(crate) mod program;
pub mod region;
pub mod stats;
pub(crate) mod status;
pub(crate) mod sync;
pub use ropeway_transport::threads;

//! Devices that are not processors: streams, codecs, functions that an operator offers.
//!
//! They make up an OpenCL platform of their own inside the worker ([`platform`]), whose objects begin with a dispatch table
//! like those of any driver. So the worker calls them as it calls a driver, and queues, events, wait lists, profiling and
//! the moving of buffers between servers are the same for all devices.
//!
//! ```text
//!   platform   OpenCL's functions and objects: the only unsafe code
//!   engine     commands, their order and their ends
//!   kinds      one file for each kind of device
//!   kind       what a kind of device is: its kernels, and how one runs
//!   file       which devices there are: the operator's FILE.toml
//! ```
//!
//! Queries answer as OpenCL 3.0 says for devices of CL_DEVICE_TYPE_CUSTOM: no compiler, no images, no shared virtual
//! memory; built-in kernels, buffers in host memory, queues of both kinds with profiling.

mod engine;
pub mod file;
pub mod kind;
pub mod kinds;
pub mod memory;
pub mod platform;

pub use ropeway_codec::QUIET as QUIET_CODECS;

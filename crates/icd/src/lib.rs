//! `libropeway.so`: the OpenCL driver that an ICD loader finds. The C boundary and nothing else: handles, argument
//! checks as the OpenCL 3.0 API specification words them, info queries. What the calls mean is in `ropeway-client`.
//!
//! | where | what |
//! |---|---|
//! | `api` | the functions, grouped by object; above each check, the specification's condition |
//! | `dispatch`, `exports` | how a loader finds them |
//! | `handle` | what `cl_context`, `cl_mem` and so on point to |
//! | `sync` | locks and atomics of `handle`, which tests replace |
//! | `objects` | what a handle stands for |
//! | `registry` | the platforms and servers of the process |
//! | `info` | answers to queries |
//! | `host` | the application's memory |
//! | `guard` | panics, calls in forked children, tracing |
//! | `fork` | what forked children must not keep |
//! | `exit_statistics` | what is printed when the process ends |
//! | `capabilities` | what of a native device is offered through Ropeway |
#![allow(non_snake_case)]

mod api;
mod capabilities;
#[cfg(test)]
mod compatibility;
mod dispatch;
mod exit_statistics;
mod exports;
mod fork;
mod guard;
mod handle;
mod host;
mod info;
mod objects;
mod registry;
mod sync;

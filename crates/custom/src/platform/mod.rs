//! The platform as OpenCL's functions: handles, checks, queries.
//!
//! Only the worker calls these functions, through the dispatch table that every object begins with or through [`table`]. It gives
//! handles that it holds and memory of the sizes that it says; what a client sends it has checked. So handles are held against null and no more.
#![allow(unsafe_code, non_snake_case)]

mod commands;
mod context;
mod device;
mod event;
mod handle;
mod info;
mod kernel;
mod memory;
mod program;
mod queue;
mod rect;
mod root;
mod table;
mod transfers;
mod unsupported;

pub use context::call_off;
pub use table::{by_name, offer, table};

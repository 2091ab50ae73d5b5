//! Programs: their contents, how they are built, and how their kernels are described.

pub mod build;
pub mod cache;
mod names;

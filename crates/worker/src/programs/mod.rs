//! Programs: their contents, how they are built, and what is told of their kernels.

pub mod build;
pub mod cache;
mod names;

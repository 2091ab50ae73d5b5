//! A step as it is enqueued.

pub mod command;
pub mod command_buffer;
mod direct;
pub mod image;
pub mod mapping;
pub mod native_kernel;
pub mod semaphore;
pub mod svm;
pub mod transfer;

//! Safe wrappers of the machine's OpenCL: the worker's only unsafe code.
//!
//! Each type owns one reference of its native object and gives it back when dropped. What could make the native
//! implementation read or write outside its memory is checked here or in the session that calls: sizes of buffers
//! before offsets are passed on, lifetimes of host memory by the types that hold it.
#![allow(unsafe_code)]

mod addresses;
mod api;
mod bands;
mod commands;
pub mod custom;
mod device_queue;
mod ending;
mod event;
pub mod failing;
#[cfg(test)]
mod failing_tests;
mod frees;
mod host_copy;
mod image;
mod in_place;
mod info;
mod kept;
mod kernel;
mod kernel_extra;
mod lasting;
mod mapping;
mod memory;
#[cfg(all(test, feature = "model"))]
mod model;
mod outstanding;
mod part;
mod pinned;
mod pinned_range;
mod place;
mod platform;
mod pre_enqueue;
pub mod process;
mod program;
mod queue;
mod ring;
pub mod running;
mod sampler;
mod scattered;
mod shared_numbers;
mod shared_pages;
mod shared_storage;
mod slots;
mod staging;
mod subdevice;
mod svm;
mod svm_allocation;
mod user_event;
mod waiting;
mod window;

pub use bands::{ImageReader, ImageWriter};
pub use device_queue::DeviceQueue;
pub use event::Event;
pub use image::Material;
pub use in_place::{uses_memory_in_place, uses_svm_in_place};
pub use kernel::Kernel;
pub use mapping::Mapping;
pub use memory::Memory;
pub use part::{Part, Ranges};
pub use pinned::PinnedPool;
pub use pinned_range::{PinnedCopy, PinnedRange, Queues};
pub use place::Place;
pub use platform::{Context, Device, ErrorSink, Platform, platforms};
pub use pre_enqueue::AwaitedWrite;
pub use program::Program;
pub use queue::{Queue, Waits};
pub use ring::Ring;
pub use sampler::Sampler;
pub use scattered::Scattered;
pub use shared_numbers::SharedNumbers;
pub use shared_storage::SharedStorage;
pub use slots::Slots;
pub use staging::{Arenas, StagedRead, Staging};
pub use subdevice::SubDevice;
pub use svm::{Svm, avoid};
pub use user_event::UserEvent;
pub use window::Window;

use ropeway_protocol::types::Status;

/// Turns an OpenCL status into a result.
fn check(status: i32) -> Result<(), Status> {
    if status == ropeway_abi::CL_SUCCESS { Ok(()) } else { Err(status) }
}

//! The session's objects, as several threads share them.
//!
//! An object that could not be made natively is kept with the error status, so that every use of it fails with the same
//! status.

mod beside;
pub mod command_buffer;
pub mod contents;
mod context;
mod event;
mod kernel;
mod memory;
mod program;
mod queue;
pub mod semaphore;

pub use beside::Beside;
pub use context::{Context, Direction};
pub use event::{Cell, Cells, OwedRead};
pub use kernel::{Held, Kernel};
pub use memory::{Memory, MemoryKind};
pub use program::{Program, ProgramState};
pub use queue::{DeviceQueue, Queue};

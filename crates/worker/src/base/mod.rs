//! What every part of the worker stands on, and what knows none of them.

pub mod budget;
pub mod drivers;
pub mod error;
pub mod lock;
pub mod log;
pub mod order;

//! The base that every part of the worker uses, and that depends on none of them.

pub mod alarm;
pub mod allowance;
pub mod budget;
pub mod drivers;
pub mod error;
pub mod lock;
pub mod log;
pub mod modelled;
pub mod order;

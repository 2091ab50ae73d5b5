//! `ropeway broker`: lends devices of servers to clients.
//!
//! | where | what |
//! |---|---|
//! | [`core`] | what is lent to whom, and what next: decisions without I/O and without a clock |
#![forbid(unsafe_code)]

pub mod core;

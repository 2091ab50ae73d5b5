//! `ropeway broker`: lends devices of servers to clients.
//!
//! | where | what |
//! |---|---|
//! | [`core`] | what is lent to whom, and what next: decisions without I/O and without a clock |
//! | [`service`] | the program around it: connections, signatures, the disk |
//! | [`store`] | what is written down, so that nothing is lent twice after a crash |
#![deny(unsafe_code)]

pub mod core;
pub mod service;
pub mod store;

//! What clients, servers and brokers say to each other about devices that are lent. Nothing is here of how a broker
//! decides.
//!
//! | where | what |
//! |---|---|
//! | [`property`] | what a device says of itself: the answers to clGetDeviceInfo, by name |
//! | [`place`] | where a device is, as a request names it |
//! | [`want`] | what a client asks for: devices by count and properties, as people write it |
//! | [`grant`] | what a lease gives its holder; the broker signs it, servers read it |
//! | [`messages`] | requests, replies and notices, as they go over a connection |
//! | [`host_file`] | the file by which programs know the servers of a lease |
#![forbid(unsafe_code)]

pub mod connection;
pub mod grant;
pub mod host_file;
pub mod messages;
pub mod place;
pub mod property;
pub mod want;

//! How calls and commands end.

pub use ropeway_protocol::types::Status;

/// The status of a lost server: its commands end with it, and calls that need the server return it.
///
/// CL_DEVICE_NOT_AVAILABLE.
pub const SERVER_LOST: Status = ropeway_abi::CL_DEVICE_NOT_AVAILABLE;

/// The result of what can end with an OpenCL error code.
pub type Result<T> = std::result::Result<T, Status>;

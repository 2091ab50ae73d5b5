//! How calls and commands end.

pub use ropeway_protocol::types::Status;

/// What a lost server leaves behind: commands on it end with this, and calls that need it return it.
///
/// CL_DEVICE_NOT_AVAILABLE.
pub const SERVER_LOST: Status = ropeway_abi::CL_DEVICE_NOT_AVAILABLE;

/// The result of what can end with an OpenCL error code.
pub type Result<T> = std::result::Result<T, Status>;

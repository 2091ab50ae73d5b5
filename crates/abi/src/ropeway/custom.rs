//! The extension cl_ropeway_custom_devices: how commands of custom devices end that do not end well
//! (`include/CL/cl_ext_ropeway.h`).

use opencl_sys::cl_int;

/// The stream is at its end: there is no further chunk.
pub const CL_STREAM_END_ROPEWAY: cl_int = -52581;
/// The bytes are not what they should be: another format, broken or truncated.
pub const CL_STREAM_INVALID_ROPEWAY: cl_int = -52582;
/// The stream's source has failed.
pub const CL_STREAM_LOST_ROPEWAY: cl_int = -52583;
/// A buffer is too small for what belongs into it. Nothing was written behind its end; the command can be enqueued again
/// with a larger one.
pub const CL_BUFFER_TOO_SMALL_ROPEWAY: cl_int = -52584;
/// A frame or a point cloud is larger than the device takes.
pub const CL_FRAME_TOO_LARGE_ROPEWAY: cl_int = -52585;
/// The server's machine lacks a library that the kernel needs.
pub const CL_LIBRARY_MISSING_ROPEWAY: cl_int = -52586;
/// The operator's function has returned an error.
pub const CL_FUNCTION_FAILED_ROPEWAY: cl_int = -52587;
/// The program has released the context and its queues while the command waited for its stream.
pub const CL_COMMAND_CANCELLED_ROPEWAY: cl_int = -52588;

//! cl_ropeway_collectives 1.0.0: collective operations on buffers of a context's devices.
//! docs/extensions/cl_ropeway_collectives.md describes it.

mod arguments;
mod combine;
mod move_data;

use ropeway_abi::cl_version;

use crate::capabilities;

/// The extension's name.
pub const NAME: &str = "cl_ropeway_collectives";

/// Its version.
pub const VERSION: cl_version = capabilities::version(1, 0, 0);

super::functions! {
    move_data::clEnqueueBroadcastBufferROPEWAY,
    move_data::clEnqueueScatterBufferROPEWAY,
    move_data::clEnqueueGatherBufferROPEWAY,
    move_data::clEnqueueAllGatherBufferROPEWAY,
    move_data::clEnqueueAllToAllBufferROPEWAY,
    combine::clEnqueueReduceBufferROPEWAY,
    combine::clEnqueueAllReduceBufferROPEWAY,
    combine::clEnqueueReduceScatterBufferROPEWAY,
    combine::clEnqueueScanBufferROPEWAY,
}

//! Command buffers (cl_khr_command_buffer 0.9.8): the server makes them of ordinary commands, so every device that can
//! clone kernels has them, whatever its own implementation offers.

mod image;
mod memory;
mod object;
mod record;

use ropeway_abi::{
    CL_COMMAND_BUFFER_CAPABILITY_KERNEL_PRINTF_KHR, CL_DEVICE_COMMAND_BUFFER_CAPABILITIES_KHR,
    CL_DEVICE_COMMAND_BUFFER_REQUIRED_QUEUE_PROPERTIES_KHR, CL_DEVICE_COMMAND_BUFFER_SUPPORTED_QUEUE_PROPERTIES_KHR,
    CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, CL_QUEUE_PROFILING_ENABLE, cl_device_info, cl_version,
};

use crate::capabilities;
use crate::objects::Device;

/// The extension's name.
pub const NAME: &str = "cl_khr_command_buffer";

/// Its version.
pub const VERSION: cl_version = capabilities::version(0, 9, 8);

/// Whether a device has it.
pub fn supports(device: &Device) -> bool {
    // The server takes a kernel's arguments at the time of recording with clCloneKernel, of OpenCL 2.1.
    device.limits.empty_ranges()
}

/// The answer to one of its queries of a device; `None` for other queries and other devices.
pub fn device_info(device: &Device, name: cl_device_info) -> Option<u64> {
    let answer = match name {
        CL_DEVICE_COMMAND_BUFFER_CAPABILITIES_KHR => CL_COMMAND_BUFFER_CAPABILITY_KERNEL_PRINTF_KHR,
        CL_DEVICE_COMMAND_BUFFER_SUPPORTED_QUEUE_PROPERTIES_KHR => {
            device.limits.queue_properties & (CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_PROFILING_ENABLE)
        }
        CL_DEVICE_COMMAND_BUFFER_REQUIRED_QUEUE_PROPERTIES_KHR => 0,
        _ => return None,
    };
    supports(device).then_some(answer)
}

super::functions! {
    object::clCreateCommandBufferKHR,
    object::clFinalizeCommandBufferKHR,
    object::clRetainCommandBufferKHR,
    object::clReleaseCommandBufferKHR,
    object::clEnqueueCommandBufferKHR,
    object::clGetCommandBufferInfoKHR,
    record::clCommandBarrierWithWaitListKHR,
    record::clCommandNDRangeKernelKHR,
    memory::clCommandCopyBufferKHR,
    memory::clCommandCopyBufferRectKHR,
    image::clCommandCopyBufferToImageKHR,
    image::clCommandCopyImageKHR,
    image::clCommandCopyImageToBufferKHR,
    memory::clCommandFillBufferKHR,
    image::clCommandFillImageKHR,
    memory::clCommandSVMMemcpyKHR,
    memory::clCommandSVMMemFillKHR,
}

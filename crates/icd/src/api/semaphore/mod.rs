//! Semaphores (cl_khr_semaphore 1.0.0): the server makes them of events, so every device has them, whatever its own
//! implementation offers.

mod command;
mod object;

use ropeway_abi::{CL_SEMAPHORE_TYPE_BINARY_KHR, cl_semaphore_type_khr, cl_version};

use crate::capabilities;

/// The extension's name.
pub const NAME: &str = "cl_khr_semaphore";

/// Its version.
pub const VERSION: cl_version = capabilities::version(1, 0, 0);

/// The types of semaphores that there are, of every platform and device.
pub const TYPES: [cl_semaphore_type_khr; 1] = [CL_SEMAPHORE_TYPE_BINARY_KHR];

super::functions! {
    object::clCreateSemaphoreWithPropertiesKHR,
    object::clRetainSemaphoreKHR,
    object::clReleaseSemaphoreKHR,
    object::clGetSemaphoreInfoKHR,
    object::clGetSemaphoreHandleForTypeKHR,
    command::clEnqueueSignalSemaphoresKHR,
    command::clEnqueueWaitSemaphoresKHR,
}

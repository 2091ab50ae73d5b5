//! Command queues on the device, to which kernels enqueue kernels.

use std::sync::Arc;

use ropeway_abi::CL_INVALID_QUEUE_PROPERTIES;
use ropeway_protocol::ids::DeviceQueueId;
use ropeway_protocol::messages::{CreateDeviceQueue, ReleaseDeviceQueue, SetDefaultDeviceQueue};

use crate::base::ids::new_id;
use crate::base::status::Result;
use crate::objects::context::Context;
use crate::objects::device::Device;
use crate::objects::home::Home;

/// A command queue on the device. It belongs to a context with one home: kernels enqueued there may use any memory.
#[derive(Debug)]
pub struct DeviceQueue {
    id: u64,
    context: Arc<Context>,
    properties: u64,
    size: u32,
}

impl DeviceQueue {
    /// Makes a queue on one of the context's devices; `properties` is CL_QUEUE_PROPERTIES, `size` CL_QUEUE_SIZE in
    /// bytes, if one is given. The server is asked, as the device bounds both how many there are and how large they
    /// are.
    ///
    /// # Errors
    /// CL_INVALID_QUEUE_PROPERTIES in a context with several homes, what the native call returned,
    /// [`crate::SERVER_LOST`].
    pub fn new(context: &Arc<Context>, device: &Device, properties: u64, size: Option<u32>) -> Result<Arc<Self>> {
        let home = context.needs_one_home("queues on the device").map_err(|_| CL_INVALID_QUEUE_PROPERTIES)?;
        let id = new_id();
        let queue = DeviceQueueId(home.name(id));
        let create = CreateDeviceQueue { queue, context: home.context(), device: device.index(), properties, size };
        let size = home.connection().call(&create)?;
        Ok(Arc::new(Self { id, context: Arc::clone(context), properties, size }))
    }

    /// Makes it the queue that kernels on its device get from `get_default_queue` (clSetDefaultDeviceCommandQueue).
    ///
    /// # Errors
    /// The status of the native call, or [`crate::SERVER_LOST`].
    pub fn make_default(&self) -> Result<()> {
        let home = self.home();
        home.connection().call(&SetDefaultDeviceQueue { queue: self.id(home) })
    }

    /// CL_QUEUE_PROPERTIES.
    pub fn properties(&self) -> u64 {
        self.properties
    }

    /// CL_QUEUE_SIZE, in bytes.
    pub fn size(&self) -> u32 {
        self.size
    }

    fn home(&self) -> &Home {
        self.context.first_home()
    }

    /// Its name in a home.
    pub(crate) fn id(&self, home: &Home) -> DeviceQueueId {
        DeviceQueueId(home.name(self.id))
    }

    /// Its name in this process.
    pub(crate) fn name(&self) -> u64 {
        self.id
    }
}

impl Drop for DeviceQueue {
    fn drop(&mut self) {
        let home = self.home();
        // A lost server has dropped it already.
        let _ = home.connection().post(&ReleaseDeviceQueue { queue: self.id(home) });
    }
}

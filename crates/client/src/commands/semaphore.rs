//! Semaphores (cl_khr_semaphore).

use std::sync::Arc;

use ropeway_abi::{CL_COMMAND_SEMAPHORE_SIGNAL_KHR, CL_COMMAND_SEMAPHORE_WAIT_KHR};
use ropeway_protocol::ids::SemaphoreId;
use ropeway_protocol::messages::{
    CreateSemaphore, ReleaseSemaphore, SemaphorePayload, SignalSemaphores, WaitSemaphores,
};

use crate::base::ids::new_id;
use crate::base::status::Result;
use crate::commands::command::{Enqueued, Order};
use crate::objects::context::Context;
use crate::objects::device::Device;
use crate::objects::home::Home;
use crate::objects::queue::Queue;

/// A binary semaphore.
pub struct Semaphore {
    id: SemaphoreId,
    context: Arc<Context>,
    /// The number of the home that has it.
    home: usize,
}

impl std::fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.id)
    }
}

impl Semaphore {
    /// Makes one that is not signaled, for queues of a device.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn new(context: &Arc<Context>, device: &Device) -> Result<Self> {
        let home = context.home_of(device)?;
        let id = SemaphoreId(home.name(new_id()));
        home.connection().post(&CreateSemaphore { semaphore: id, context: home.context() })?;
        Ok(Self { id, context: Arc::clone(context), home: home.number() })
    }

    fn home(&self) -> &Home {
        &self.context.homes()[self.home]
    }

    /// CL_SEMAPHORE_PAYLOAD_KHR: 1 when it is signaled, 0 when it is not. Asks the server.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn payload(&self) -> Result<u64> {
        self.home().connection().call(&SemaphorePayload { semaphore: self.id })
    }
}

impl Queue {
    /// Signals semaphores (clEnqueueSignalSemaphoresKHR).
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn enqueue_signal(self: &Arc<Self>, semaphores: &[&Semaphore], order: Order<'_>) -> Result<Enqueued> {
        let semaphores = semaphores.iter().map(|semaphore| semaphore.id).collect();
        self.enqueue(order, CL_COMMAND_SEMAPHORE_SIGNAL_KHR, &[], |command| SignalSemaphores { command, semaphores })
    }

    /// Waits for semaphores (clEnqueueWaitSemaphoresKHR).
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn enqueue_semaphore_wait(self: &Arc<Self>, semaphores: &[&Semaphore], order: Order<'_>) -> Result<Enqueued> {
        let semaphores = semaphores.iter().map(|semaphore| semaphore.id).collect();
        self.enqueue(order, CL_COMMAND_SEMAPHORE_WAIT_KHR, &[], |command| WaitSemaphores { command, semaphores })
    }
}

impl Drop for Semaphore {
    fn drop(&mut self) {
        // A lost server has dropped it already.
        let _ = self.home().connection().post(&ReleaseSemaphore { semaphore: self.id });
    }
}

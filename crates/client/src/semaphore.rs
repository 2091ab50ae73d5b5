//! Semaphores (cl_khr_semaphore).

use std::sync::Arc;

use ropeway_abi::{CL_COMMAND_SEMAPHORE_SIGNAL_KHR, CL_COMMAND_SEMAPHORE_WAIT_KHR};
use ropeway_protocol::ids::SemaphoreId;
use ropeway_protocol::messages::{
    CreateSemaphore, ReleaseSemaphore, SemaphorePayload, SignalSemaphores, WaitSemaphores,
};

use crate::Result;
use crate::command::{Enqueued, Order};
use crate::context::Context;
use crate::queue::Queue;

/// A binary semaphore.
pub struct Semaphore {
    id: SemaphoreId,
    context: Arc<Context>,
}

impl std::fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.id)
    }
}

impl Semaphore {
    /// Makes one that is not signaled.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn new(context: &Arc<Context>) -> Result<Self> {
        let id = SemaphoreId(context.connection().new_id());
        context.connection().post(&CreateSemaphore { semaphore: id, context: context.id() })?;
        Ok(Self { id, context: Arc::clone(context) })
    }

    /// CL_SEMAPHORE_PAYLOAD_KHR: 1 when it is signaled, 0 when it is not. Asks the server.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn payload(&self) -> Result<u64> {
        self.context.connection().call(&SemaphorePayload { semaphore: self.id })
    }
}

impl Queue {
    /// Signals semaphores (clEnqueueSignalSemaphoresKHR).
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn enqueue_signal(self: &Arc<Self>, semaphores: &[&Semaphore], order: Order<'_>) -> Result<Enqueued> {
        let semaphores = semaphores.iter().map(|semaphore| semaphore.id).collect();
        self.enqueue(order, CL_COMMAND_SEMAPHORE_SIGNAL_KHR, |command| SignalSemaphores { command, semaphores })
    }

    /// Waits for semaphores (clEnqueueWaitSemaphoresKHR).
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn enqueue_semaphore_wait(self: &Arc<Self>, semaphores: &[&Semaphore], order: Order<'_>) -> Result<Enqueued> {
        let semaphores = semaphores.iter().map(|semaphore| semaphore.id).collect();
        self.enqueue(order, CL_COMMAND_SEMAPHORE_WAIT_KHR, |command| WaitSemaphores { command, semaphores })
    }
}

impl Drop for Semaphore {
    fn drop(&mut self) {
        // A lost server has dropped it already.
        let _ = self.context.connection().post(&ReleaseSemaphore { semaphore: self.id });
    }
}

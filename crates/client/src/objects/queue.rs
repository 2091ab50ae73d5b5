//! Command queues.

use std::sync::Arc;

use ropeway_abi::{CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, CL_QUEUE_PROFILING_ENABLE};
use ropeway_protocol::ids::QueueId;
use ropeway_protocol::messages::{CreateQueue, Finish, Flush, ReleaseQueue};

use crate::base::ids::new_id;
use crate::base::modelled::atomic::{AtomicUsize, Ordering};
use crate::base::status::Result;
use crate::link::connection::Connection;
use crate::link::in_flight::LiveQueue;
use crate::objects::context::Context;
use crate::objects::device::Device;
use crate::objects::home::Home;
use crate::objects::progress::Progress;

/// A command queue.
pub struct Queue {
    id: QueueId,
    context: Arc<Context>,
    /// The number of its device's home.
    home: usize,
    device: Arc<Device>,
    properties: u64,
    /// Transfers of its commands that are not over.
    open_transfers: Arc<AtomicUsize>,
    /// How far its commands have come.
    progress: Arc<Progress>,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.id)
    }
}

impl Queue {
    /// Makes a queue for one of the context's devices; `properties` is CL_QUEUE_PROPERTIES.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn new(context: &Arc<Context>, device: &Arc<Device>, properties: u64) -> Result<Arc<Self>> {
        Self::with_hints(context, device, properties, 0, 0)
    }

    /// As [`Self::new`], with CL_QUEUE_PRIORITY_KHR and CL_QUEUE_THROTTLE_KHR, 0 for none.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn with_hints(
        context: &Arc<Context>,
        device: &Arc<Device>,
        properties: u64,
        priority: u32,
        throttle: u32,
    ) -> Result<Arc<Self>> {
        let home = context.home_of(device)?;
        let id = QueueId(home.name(new_id()));
        home.connection().post(&CreateQueue {
            queue: id,
            context: home.context(),
            device: device.index(),
            properties,
            priority,
            throttle,
        })?;
        let queue = Arc::new(Self {
            id,
            context: Arc::clone(context),
            home: home.number(),
            device: Arc::clone(device),
            properties,
            open_transfers: Arc::default(),
            progress: Arc::default(),
        });
        context.at_client().add_queue(&queue.progress);
        home.connection().add_queue(home.context(), id, queue.is_in_order())?;
        Ok(queue)
    }

    /// Its context.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Its device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// CL_QUEUE_PROPERTIES.
    pub fn properties(&self) -> u64 {
        self.properties
    }

    /// Whether its commands run in the order they were enqueued.
    pub fn is_in_order(&self) -> bool {
        self.properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE == 0
    }

    /// Whether its events have times.
    pub fn is_profiling(&self) -> bool {
        self.properties & CL_QUEUE_PROFILING_ENABLE != 0
    }

    pub(crate) fn id(&self) -> QueueId {
        self.id
    }

    /// The part of the queue that its connection keeps.
    pub(crate) fn live(&self) -> LiveQueue {
        LiveQueue { context: self.home().context(), queue: self.id, in_order: self.is_in_order() }
    }

    /// Where its commands run.
    pub(crate) fn home(&self) -> &Home {
        &self.context.homes()[self.home]
    }

    pub(crate) fn connection(&self) -> &Arc<Connection> {
        self.home().connection()
    }

    /// As [`Connection::wait`], where the wait may depend on commands of other homes.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub(crate) fn wait<R>(&self, over: impl FnMut() -> Option<R>) -> Result<R> {
        self.context.flush_others(self.home());
        self.connection().wait(over)
    }

    pub(crate) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    pub(crate) fn open_transfers(&self) -> &Arc<AtomicUsize> {
        &self.open_transfers
    }

    /// Hands all that was enqueued to the device (clFlush).
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn flush(&self) -> Result<()> {
        self.connection().post(&Flush { queue: self.id })?;
        // Commands for other servers, which this queue's commands need, were enqueued without the application's
        // knowledge.
        self.context.flush_from(self.home())
    }

    /// Waits until all that was enqueued has ended (clFinish). Asks the server only if it has not told of that already.
    ///
    /// # Errors
    /// The first error that a command without an event ended with, [`crate::SERVER_LOST`].
    pub fn finish(&self) -> Result<()> {
        let are_transfers_over = || self.open_transfers.load(Ordering::Acquire) == 0;
        if self.progress.is_settled() && are_transfers_over() && !self.connection().look_whether_lost() {
            return Ok(());
        }
        self.context.flush_others(self.home());
        let posted = self.progress.posted();
        let waited = self.connection().call(&Finish { queue: self.id })?;
        // Bytes of reads may still be on their way into the application's memory.
        self.connection().wait(|| are_transfers_over().then_some(()))?;
        if let (Some(posted), true) = (posted, waited.status >= 0) {
            self.progress.note_settled(posted);
        }
        if waited.status < 0 { Err(waited.status) } else { Ok(()) }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.connection().remove_queue(self.id);
        // A lost server has dropped it already. Releasing a queue flushes it (clReleaseCommandQueue).
        let _ = self.connection().post(&ReleaseQueue { queue: self.id });
    }
}

//! Shared virtual memory that is freed behind what still uses it.

use std::sync::Arc;

use ropeway_abi as cl;
use ropeway_protocol::types::Status;

use super::queue::{Queue, Waits};
use super::svm::Svm;
use super::svm_allocation::NativeQueue;

impl NativeQueue for Queue {
    fn raw(&self) -> cl::cl_command_queue {
        Queue::raw(self)
    }

    fn flush(&self) -> Result<(), Status> {
        Queue::flush(self)
    }
}

impl Queue {
    /// Has an allocation freed, once its last owner is gone, after everything that this in-order queue has been given
    /// by then, which includes the end of `waits`.
    pub fn free_behind(self: &Arc<Self>, svm: &Svm, waits: &Waits<'_>) {
        // If the queue takes no marker, the queue is lost, and its commands with it.
        let _ = self.marker(waits, false).and_then(|_| self.flush());
        svm.free_behind(Arc::clone(self) as Arc<dyn NativeQueue>);
    }
}

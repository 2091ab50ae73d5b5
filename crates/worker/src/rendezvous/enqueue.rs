//! How a large transfer is put into its queue; [`super::transfer`] carries it out.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ropeway_abi as cl;
use ropeway_protocol::types::{Command, Status};

use super::transfer::Rendezvous;
use crate::base::error::{End, unknown};
use crate::native::{UserEvent, Waits};
use crate::objects::Cell;
use crate::queue_states::{QueueStates, gather};

impl Rendezvous {
    /// Puts a marker before the transfer's place in its queue, and a barrier behind it. The inner error is the status
    /// of the native calls.
    ///
    /// # Errors
    /// The command names what does not exist.
    pub fn enqueue(&mut self, queue_states: &mut QueueStates, command: &Command) -> Result<Result<(), Status>, End> {
        let queue_state = queue_states.queues.get_mut(&command.queue).ok_or_else(|| unknown(command.queue))?;
        let mut waits = match gather(&queue_states.events, &command.waits, &queue_states.failures)? {
            Ok(waits) => waits,
            Err(status) => return Ok(Err(status)),
        };
        let in_order = queue_state.queue.in_order;
        if let (false, Some(barrier)) = (in_order, &queue_state.barrier) {
            // A marker with a wait list does not heed barriers, but the transfer must.
            waits.push(barrier);
        }
        let timed = queue_state.queue.profiling && command.event.is_some();
        let mut enqueue = || -> Result<(), Status> {
            self.memory()?.native.as_ref().map_err(|status| *status)?;
            let native = queue_state.queue.native.as_ref().map_err(|status| *status)?;
            let context = queue_state.queue.context.native.as_ref().map_err(|status| *status)?;
            let enqueued_at = match timed && !queue_state.queue.markers_timed.load(Ordering::Relaxed) {
                true => queue_state.queue.device.timer().unwrap_or(0),
                false => 0,
            };
            // Out of order, a command without a wait list waits for nothing, but a marker without one would wait for
            // all commands.
            let mut began = None;
            if in_order || !waits.is_empty() {
                self.may_begin = native.marker(&waits, true)?;
                began.clone_from(&self.may_begin);
            } else if timed {
                // Nothing waits for this marker; it only provides the profiling times.
                let now = UserEvent::new(context)?;
                now.set(cl::CL_COMPLETE)?;
                began = native.marker(&Waits::one(now.event()), true)?;
            }
            let barrier = UserEvent::new(context)?;
            let behind = Waits::one(barrier.event());
            let end = match in_order {
                true => native.barrier(&behind, true)?,
                false => native.marker(&behind, true)?,
            };
            self.barrier = Some(barrier.clone());
            if let Some(id) = command.event {
                let mut cell = Cell::new(Some(id), end, Some(queue_state.queue.clone()), None);
                cell.began = began;
                cell.enqueued_at = enqueued_at;
                self.cell = Some(Arc::new(cell));
            }
            // The marker must run for the transfer to begin.
            native.flush()
        };
        Ok(enqueue())
    }
}

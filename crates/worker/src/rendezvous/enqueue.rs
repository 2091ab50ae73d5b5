//! How a large transfer is put into its queue; [`super::transfer`] says what becomes of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ropeway_abi as cl;
use ropeway_protocol::types::{Command, Status};

use super::transfer::Gate;
use crate::base::error::{End, unknown};
use crate::lanes::{Lanes, gather};
use crate::native::{UserEvent, Waits};
use crate::objects::Cell;

impl Gate {
    /// Puts the marker before and the barrier behind the place of the transfer in its queue. The inner error is what the native calls returned.
    ///
    /// # Errors
    /// The command names what does not exist.
    pub fn enqueue(&mut self, lanes: &mut Lanes, command: &Command) -> Result<Result<(), Status>, End> {
        let failures = lanes.may_have_failed();
        let lane = lanes.queues.get_mut(&command.queue).ok_or_else(|| unknown(command.queue))?;
        let mut waits = match gather(&lanes.events, &command.waits, failures)? {
            Ok(waits) => waits,
            Err(status) => return Ok(Err(status)),
        };
        let in_order = lane.queue.in_order;
        if let (false, Some(barrier)) = (in_order, &lane.barrier) {
            // A marker with a wait list does not heed barriers, the transfer must.
            waits.push(barrier);
        }
        let timed = lane.queue.profiling && command.event.is_some();
        let mut enqueue = || -> Result<(), Status> {
            self.memory()?.native.as_ref().map_err(|status| *status)?;
            let native = lane.queue.native.as_ref().map_err(|status| *status)?;
            let context = lane.queue.context.native.as_ref().map_err(|status| *status)?;
            let enqueued_at = match timed && !lane.queue.markers_timed.load(Ordering::Relaxed) {
                true => lane.queue.device.timer().unwrap_or(0),
                false => 0,
            };
            // Out of order, a command without a wait list waits for nothing, but a marker would wait for all.
            let mut began = None;
            if in_order || !waits.is_empty() {
                self.may_begin = native.marker(&waits, true)?;
                began.clone_from(&self.may_begin);
            } else if timed {
                // Nothing waits for this one; it is there for its times.
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
                let mut cell = Cell::new(Some(id), end, Some(lane.queue.clone()), None);
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

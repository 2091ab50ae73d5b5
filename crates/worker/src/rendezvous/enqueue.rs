//! How a large transfer is put into its queue; [`crate::rendezvous::transfer`] says what becomes of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ropeway_abi as cl;
use ropeway_protocol::Tail;
use ropeway_protocol::ids::{MemoryId, TransferId};
use ropeway_protocol::image::ImagePart;
use ropeway_protocol::messages::{TransferData, TransferFailed};
use ropeway_protocol::types::{BufferRect, Command, Status};

use super::transfer::Gate;
use crate::base::error::End;
use crate::base::error::unknown;
use crate::native::{Part, UserEvent, Waits};
use crate::objects::contents::Contents;
use crate::objects::{Cell, Direction, Memory};
use crate::session::job::Job;
use crate::session::{Deferred, Incoming, Session, gather};

impl Session {
    /// Enqueues a gated transfer of part of a memory object, which the caller has found to be in it.
    ///
    /// # Errors
    /// Something named does not exist.
    pub fn gate(
        &mut self,
        command: &Command,
        transfer: TransferId,
        direction: Direction,
        place: (Arc<Memory>, Part),
    ) -> Result<(), End> {
        self.gate_of(command, transfer, direction, place, None)
    }

    /// As [`Session::gate`]; to the client no more goes than `contents` says.
    ///
    /// # Errors
    /// As [`Session::gate`].
    pub fn gate_of(
        &mut self,
        command: &Command,
        transfer: TransferId,
        direction: Direction,
        (memory, part): (Arc<Memory>, Part),
        contents: Option<Contents>,
    ) -> Result<(), End> {
        let total = self.objects();
        let mut gate = Gate::new(transfer, direction, memory, part);
        gate.contents = contents;
        let queue = self.lanes.lane(command.queue)?.queue.clone();
        let outcome = self.enqueue_gate(command, &mut gate)?;
        if let Err(status) = outcome {
            self.common.client.outgoing.leave(&TransferFailed { transfer, status });
            return self.lanes.fail(total, command.event, status, &queue);
        }
        if let (Some(id), Some(cell)) = (command.event, &gate.cell) {
            queue.push(cell.clone());
            Session::claim(total, &mut self.lanes.events, id, cell.clone())?;
        }
        self.lanes.touch(&queue);
        let gate = Arc::new(gate);
        if direction == Direction::In {
            // Of those that come to nothing no bytes come, with which they would go.
            if self.incoming.len() == self.incoming.capacity() {
                self.incoming.retain(|_, incoming| !incoming.gate.has_failed());
            }
            let incoming = Incoming { gate: gate.clone(), received: 0, initial: None };
            Session::claim(total, &mut self.incoming, transfer, incoming)?;
        }
        if gate.may_begin.as_ref().is_none_or(|event| event.ended()) {
            self.demote(|_| false);
            self.common.unasked.fetch_add(1, Ordering::AcqRel);
            self.job = Some(Job::Begin(gate));
        } else {
            self.defer(Deferred::Gate(gate));
        }
        Ok(())
    }

    /// The marker before and the barrier behind the place of the transfer in its queue.
    fn enqueue_gate(&mut self, command: &Command, gate: &mut Gate) -> Result<Result<(), Status>, End> {
        let failures = self.lanes.may_have_failed();
        let lane = self.lanes.queues.get_mut(&command.queue).ok_or_else(|| unknown(command.queue))?;
        let mut waits = match gather(&self.lanes.events, &command.waits, failures)? {
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
            gate.memory()?.native.as_ref().map_err(|status| *status)?;
            let native = lane.queue.native.as_ref().map_err(|status| *status)?;
            let context = lane.queue.context.native.as_ref().map_err(|status| *status)?;
            let enqueued_at = match timed && !lane.queue.markers_timed.load(Ordering::Relaxed) {
                true => lane.queue.device.timer().unwrap_or(0),
                false => 0,
            };
            // Out of order, a command without a wait list waits for nothing, but a marker would wait for all.
            let mut began = None;
            if in_order || !waits.is_empty() {
                gate.may_begin = native.marker(&waits, true)?;
                began.clone_from(&gate.may_begin);
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
            gate.barrier = Some(barrier.clone());
            if let Some(id) = command.event {
                let mut cell = Cell::new(Some(id), end, Some(lane.queue.clone()), None);
                cell.began = began;
                cell.enqueued_at = enqueued_at;
                gate.cell = Some(Arc::new(cell));
            }
            // The marker must run for the transfer to begin.
            native.flush()
        };
        Ok(enqueue())
    }

    /// A buffer of which the range is part.
    ///
    /// # Errors
    /// There is no such object, it is not a buffer, or the range leaves it.
    pub fn buffer_range(&self, id: MemoryId, offset: u64, size: u64) -> Result<Arc<Memory>, End> {
        let buffer = self.memory(id)?;
        let whole = buffer.buffer_size().ok_or_else(|| End::refused(format_args!("{id} is not a buffer")))?;
        match offset.checked_add(size) {
            Some(end) if end <= whole => Ok(buffer.clone()),
            _ => Err(End::refused(format_args!("{size} bytes at {offset} are not within {id} of {whole} bytes"))),
        }
    }

    /// A buffer and part of it, bytes that lie together.
    ///
    /// # Errors
    /// As [`Session::buffer_range`].
    pub fn buffer_bytes(&self, id: MemoryId, offset: u64, size: u64) -> Result<(Arc<Memory>, Part), End> {
        Ok((self.buffer_range(id, offset, size)?, Part::Bytes { offset, size }))
    }

    /// A buffer and part of it, a region.
    ///
    /// # Errors
    /// There is no such buffer, or the region is none or leaves it.
    pub fn buffer_rect(&self, id: MemoryId, rect: BufferRect) -> Result<(Arc<Memory>, Part), End> {
        let bounds = rect.bounds().ok_or_else(|| End::refused(format_args!("{rect:?} is no region of {id}")))?;
        Ok((self.buffer_range(id, bounds.0, bounds.1)?, Part::Rect(rect)))
    }

    /// An image and part of it.
    ///
    /// # Errors
    /// There is no such object, it is not an image, or the part leaves it.
    pub fn image_part(&self, id: MemoryId, part: ImagePart) -> Result<(Arc<Memory>, Part), End> {
        let memory = self.memory(id)?;
        let like = memory.image().ok_or_else(|| End::refused(format_args!("{id} is not an image")))?;
        match like.region_bytes(part.region) {
            Some(size) if like.holds(&part) => Ok((memory.clone(), Part::Image { part, size })),
            _ => Err(End::refused(format_args!("{part:?} is not within {id} of {:?} elements", like.extent))),
        }
    }

    /// Takes the bytes of a transfer that is under way; says which transfer is complete with them.
    ///
    /// # Errors
    /// The transfer does not exist, the bytes are not its next ones, or the link broke.
    pub fn transfer_data(&mut self, m: TransferData, tail: &mut dyn Tail) -> Result<(), End> {
        let TransferData { transfer, offset } = m;
        let incoming = self.incoming.get_mut(&transfer).ok_or_else(|| unknown(transfer))?;
        let len = tail.remaining() as u64;
        if offset != incoming.received || len == 0 || len > incoming.gate.size - offset {
            return Err(End::refused(format_args!("{len} bytes at {offset} are not what comes next of {transfer}")));
        }
        incoming.gate.receive(offset, tail)?;
        incoming.received += len;
        if incoming.received < incoming.gate.size {
            return Ok(());
        }
        let Some(incoming) = self.incoming.remove(&transfer) else { return Ok(()) };
        match incoming.initial {
            None => {
                self.demote(|_| false);
                self.job = Some(Job::Land(incoming.gate));
            }
            Some(id) => {
                // No event says when the buffer has its first contents: commands that follow must find them there.
                if let Err(status) = incoming.gate.settle()
                    && let Some(memory) = self.memory.get_mut(&id)
                {
                    let Memory { kind, charged, .. } = **memory;
                    *memory = Arc::new(Memory { native: Err(status), context: memory.context.clone(), kind, charged });
                }
            }
        }
        Ok(())
    }

    /// Prepares for the first contents of a memory object, which are about to come.
    ///
    /// # Errors
    /// The transfer's name is taken.
    pub fn await_contents(&mut self, id: MemoryId, memory: &Arc<Memory>, transfer: TransferId) -> Result<(), End> {
        let whole = memory.whole().filter(|whole| whole.size() != 0);
        let whole = whole.ok_or_else(|| End::refused(cl::CL_INVALID_BUFFER_SIZE))?;
        let gate = Gate::new(transfer, Direction::In, memory.clone(), whole);
        if let Err(status) = gate.open() {
            gate.discard(status);
        }
        let incoming = Incoming { gate: Arc::new(gate), received: 0, initial: Some(id) };
        Session::claim(self.objects(), &mut self.incoming, transfer, incoming)
    }
}

//! Command buffers.

use std::sync::Arc;

use ropeway_abi as cl;
use ropeway_protocol::image::ImagePart;
use ropeway_protocol::limits::MAX_OBJECTS;
use ropeway_protocol::messages::{CreateCommandBuffer, Record, ReleaseCommandBuffer, Replay};
use ropeway_protocol::recording::Recorded;
use ropeway_protocol::types::Status;

use crate::base::error::End;
use crate::base::error::unknown;
use crate::native::Waits;
use crate::objects::command_buffer::{Action, CommandBuffer, Replayed};
use crate::objects::{Cell, Queue};
use crate::queue_states::{claim, gather};
use crate::session::Session;
use crate::turns::Launch;

impl Session {
    /// Makes a command buffer.
    ///
    /// # Errors
    /// There is no such queue, or the name is taken.
    pub fn create_command_buffer(&mut self, m: CreateCommandBuffer) -> Result<(), End> {
        let total = self.objects();
        let queue = self.queue_states.queue_state(m.queue)?.queue.clone();
        let commands = CommandBuffer::new(queue, self.allow_object());
        claim(total, &mut self.command_buffers, m.commands, commands)
    }

    /// Drops a command buffer. Native implementations keep what its commands still use.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn release_command_buffer(&mut self, m: ReleaseCommandBuffer) -> Result<(), End> {
        let dropped = self.command_buffers.remove(&m.commands).ok_or_else(|| unknown(m.commands))?;
        self.recorded -= dropped.len();
        Ok(())
    }

    /// Records a command.
    ///
    /// # Errors
    /// Something that it names does not exist, or a range leaves its buffer.
    pub fn record(&mut self, m: Record<'_>) -> Result<(), End> {
        let action = match m.action {
            Recorded::Kernel { kernel, range } => {
                let kernel = self.kernels.get(&kernel).ok_or_else(|| unknown(kernel))?;
                Action::Kernel(Box::new(kernel.copy()), range)
            }
            Recorded::CopyBuffer { source, target, source_offset, target_offset, size } => {
                let source = self.buffer_range(source, source_offset, size)?;
                let target = self.buffer_range(target, target_offset, size)?;
                Action::Copy((source, source_offset), (target, target_offset), size)
            }
            Recorded::FillBuffer { buffer, pattern, offset, size } => {
                Action::Fill(self.buffer_range(buffer, offset, size)?, pattern.to_vec(), (offset, size))
            }
            Recorded::CopyBufferRect { source, target, source_rect: from, target_rect: to } => {
                let (source, _) = self.buffer_rect(source, from)?;
                let (target, _) = self.buffer_rect(target, to)?;
                if from.region != to.region {
                    return Err(End::refused("a copy between regions of different sizes"));
                }
                Action::CopyRect((source, from), (target, to))
            }
            Recorded::CopyImage { source, target, from, to, region } => {
                let (source, _) = self.image_part(source, ImagePart { origin: from, region })?;
                let (target, _) = self.image_part(target, ImagePart { origin: to, region })?;
                Action::CopyImage((source, from), (target, to), region)
            }
            Recorded::CopyImageToBuffer { source, part, target, offset } => {
                let (source, place) = self.image_part(source, part)?;
                let target = self.buffer_range(target, offset, place.size())?;
                Action::CopyImageToBuffer((source, part), (target, offset))
            }
            Recorded::CopyBufferToImage { source, offset, target, part } => {
                let (target, place) = self.image_part(target, part)?;
                let source = self.buffer_range(source, offset, place.size())?;
                Action::CopyBufferToImage((source, offset), (target, part))
            }
            Recorded::FillImage { image, part, color } => {
                Action::FillImage(self.image_part(image, part)?.0, part, color)
            }
            Recorded::Barrier => Action::Barrier,
        };
        if self.objects() >= MAX_OBJECTS {
            return Err(End::refused(format_args!("more than {MAX_OBJECTS} objects")));
        }
        let allowed = self.allow_object();
        let buffer = self.command_buffers.get_mut(&m.commands).ok_or_else(|| unknown(m.commands))?;
        buffer.usable = buffer.usable.and(allowed);
        if buffer.usable.is_err() {
            return Ok(());
        }
        if !buffer.record(action, &m.waits) {
            return Err(End::refused(format_args!("a command of {} waits for one that is not before it", m.commands)));
        }
        self.recorded += 1;
        Ok(())
    }

    /// Carries out a command buffer.
    ///
    /// # Errors
    /// Something named does not exist.
    pub fn replay(&mut self, m: Replay) -> Result<(), End> {
        let total = self.objects();
        let queue = self.queue_states.queue_state(m.command.queue)?.queue.clone();
        let allowed = self.common.limits.allow_event(total, m.command.event);
        let buffer = self.command_buffers.get_mut(&m.commands).ok_or_else(|| unknown(m.commands))?;
        let outcome = match gather(&self.queue_states.events, &m.command.waits, &self.queue_states.failures)? {
            Ok(_) if !Arc::ptr_eq(&queue.context, &buffer.queue.context) => Err(cl::CL_INVALID_CONTEXT),
            Ok(_) if allowed.is_err() => allowed.map(|()| Replayed::default()),
            Ok(waits) => replay(buffer, &queue, &waits, m.command.event.is_some()),
            Err(status) => Err(status),
        };
        self.queue_states.touch(&queue);
        match (m.command.event, outcome) {
            (Some(id), Ok(replayed)) => {
                let mut cell = Cell::new(Some(id), replayed.end, Some(queue.clone()), None);
                cell.first = replayed.first;
                let cell = Arc::new(cell);
                queue.push(cell.clone());
                claim(total, &mut self.queue_states.events, id, cell)
            }
            (None, Ok(_)) => {
                queue.line.turn();
                Ok(())
            }
            (event, Err(status)) => self.queue_states.fail(total, event, status, &queue),
        }
    }
}

/// Carries out a command buffer, where devices are shared by weight in a turn of the session.
fn replay(buffer: &mut CommandBuffer, queue: &Arc<Queue>, waits: &Waits<'_>, event: bool) -> Result<Replayed, Status> {
    let Some((turns, context)) = queue.in_turns()? else { return buffer.replay(queue, waits, event) };
    let mut replayed = Replayed::default();
    let kind = Launch { kind: std::ptr::from_ref(buffer).addr() as u64, ..queue.launch() };
    turns.launch(context, kind, |gate| {
        let mut all = Waits::none();
        all.push_all(waits);
        gate.into_iter().for_each(|gate| all.push(gate));
        replayed = buffer.replay(queue, &all, true)?;
        Ok(replayed.end.clone())
    })?;
    Ok(replayed)
}

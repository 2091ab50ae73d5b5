//! Command buffers: recorded once, replayed any number of times with one message each.
//!
//! Recording resolves all objects that a command needs, so that a replay looks nothing up. A replay uses ordinary
//! native commands, on any implementation: on an in-order queue one after the other; on an out-of-order queue with
//! native events in place of sync points.

use std::sync::Arc;

use ropeway_abi as cl;
use ropeway_protocol::image::ImagePart;
use ropeway_protocol::types::{BufferRect, NdRange, Status};

use super::kernel::Kernel;
use super::memory::Memory;
use super::queue::Queue;
use crate::native::{self, Event, Waits};

/// The action of one recorded command.
pub enum Action {
    /// Launches a kernel, which is this command's own.
    Kernel(Box<Kernel>, NdRange),
    /// Copies so many bytes between buffers, each from an offset.
    Copy((Arc<Memory>, u64), (Arc<Memory>, u64), u64),
    /// Fills a range (offset, size) of a buffer with a pattern.
    Fill(Arc<Memory>, Vec<u8>, (u64, u64)),
    /// Copies between regions of buffers.
    CopyRect((Arc<Memory>, BufferRect), (Arc<Memory>, BufferRect)),
    /// Copies a region between images, each from an origin.
    CopyImage((Arc<Memory>, [u64; 3]), (Arc<Memory>, [u64; 3]), [u64; 3]),
    /// Copies part of an image to a buffer.
    CopyImageToBuffer((Arc<Memory>, ImagePart), (Arc<Memory>, u64)),
    /// Copies from a buffer into part of an image.
    CopyBufferToImage((Arc<Memory>, u64), (Arc<Memory>, ImagePart)),
    /// Fills part of an image with a color.
    FillImage(Arc<Memory>, ImagePart, [u32; 4]),
    /// Holds back what is behind it.
    Barrier,
}

struct Recorded {
    action: Action,
    /// The wait list: earlier commands, by index.
    waits: Vec<usize>,
    /// Whether a later command waits for this one.
    waited_for: bool,
}

/// A command buffer.
pub struct CommandBuffer {
    /// The queue it was made for.
    pub queue: Arc<Queue>,
    /// Whether it and all that was recorded could be made.
    pub usable: Result<(), Status>,
    commands: Vec<Recorded>,
    /// The last barrier.
    barrier: Option<usize>,
    /// The last barrier that waits for all commands before it.
    all_ended_by: Option<usize>,
    /// The queue of the last replay, and its end event, if there is one.
    last: Option<(Arc<Queue>, Option<Event>)>,
}

/// The outcome of a replay.
#[derive(Default)]
pub struct Replayed {
    /// The first command's event, where its times are wanted.
    pub first: Option<Event>,
    /// The event that says when all commands have ended.
    pub end: Option<Event>,
}

impl CommandBuffer {
    /// An empty one, if it can be made.
    pub fn new(queue: Arc<Queue>, usable: Result<(), Status>) -> Self {
        Self { queue, usable, commands: Vec::new(), barrier: None, all_ended_by: None, last: None }
    }

    /// How many commands it holds.
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Adds a command. Returns false if it waits for a command that does not exist.
    pub fn record(&mut self, action: Action, waits: &[u32]) -> bool {
        let waits: Vec<_> = waits.iter().map(|&wait| wait as usize).collect();
        if waits.iter().any(|&wait| wait >= self.commands.len()) {
            return false;
        }
        let is_barrier = matches!(action, Action::Barrier);
        let all_before = is_barrier && waits.is_empty();
        let since = if all_before { self.all_ended_by.unwrap_or(0) } else { self.commands.len() };
        for at in waits.iter().copied().chain(since..self.commands.len()).chain(self.barrier) {
            if let Some(earlier) = self.commands.get_mut(at) {
                earlier.waited_for = true;
            }
        }
        if is_barrier {
            self.barrier = Some(self.commands.len());
        }
        if all_before {
            self.all_ended_by = self.barrier;
        }
        self.commands.push(Recorded { action, waits, waited_for: false });
        true
    }

    /// Carries everything out on `queue` once `waits` have ended; `event` is for an application that wants to know when
    /// it is done.
    ///
    /// # Errors
    /// The first error of a native call; what comes before that command is carried out all the same.
    pub fn replay(&mut self, queue: &Arc<Queue>, waits: &Waits<'_>, event: bool) -> Result<Replayed, Status> {
        self.usable?;
        let native = queue.native.as_ref().map_err(|status| *status)?;
        let before = self.last_elsewhere(queue)?;
        let mut outer = Waits::none();
        outer.push_all(waits);
        before.iter().for_each(|before| outer.push(before));
        let replayed = match queue.in_order {
            true => self.in_order(native, &outer, event, queue.profiling),
            false => self.out_of_order(native, &outer),
        }?;
        self.last = Some((queue.clone(), replayed.end.clone()));
        Ok(replayed)
    }

    /// Returns the event of the last replay if this replay must wait for it, that is, unless the queue's order ensures
    /// this already.
    fn last_elsewhere(&self, queue: &Arc<Queue>) -> Result<Option<Event>, Status> {
        match &self.last {
            None => Ok(None),
            Some((last, _)) if Arc::ptr_eq(last, queue) && queue.in_order => Ok(None),
            // A command that waits for a failed event fails too, or never ends (PoCL 3.1).
            Some((_, Some(end))) => Ok(Some(end.clone()).filter(|end| !end.ended())),
            Some((last, None)) => {
                let native = last.native.as_ref().map_err(|status| *status)?;
                let end = native.marker(&Waits::none(), true)?;
                native.flush()?;
                Ok(end)
            }
        }
    }

    fn in_order(
        &self,
        queue: &native::Queue,
        outer: &Waits<'_>,
        event: bool,
        profiling: bool,
    ) -> Result<Replayed, Status> {
        let none = Waits::none();
        let mut replayed = Replayed::default();
        let Some(final_one) = self.commands.len().checked_sub(1) else {
            replayed.end = queue.marker(outer, event)?;
            return Ok(replayed);
        };
        for (at, command) in self.commands.iter().enumerate() {
            let (is_first, is_final) = (at == 0, at == final_one);
            if !is_first && !is_final && matches!(command.action, Action::Barrier) {
                continue;
            }
            let wanted = event && (is_final || is_first && profiling);
            let made = command.action.enqueue(queue, if is_first { outer } else { &none }, wanted)?;
            if is_final {
                replayed.end = made;
            } else if is_first {
                replayed.first = made;
            }
        }
        Ok(replayed)
    }

    fn out_of_order(&self, queue: &native::Queue, outer: &Waits<'_>) -> Result<Replayed, Status> {
        let mut events: Vec<Event> = Vec::with_capacity(self.commands.len());
        let (mut barrier, mut all_ended_by) = (None, 0);
        for (at, command) in self.commands.iter().enumerate() {
            let mut waits = Waits::none();
            let is_barrier = matches!(command.action, Action::Barrier);
            // Commands recorded for an in-order queue keep their order.
            let all_before = is_barrier && command.waits.is_empty();
            let since = match (self.queue.in_order, all_before) {
                (true, _) => at.saturating_sub(1),
                (false, true) => all_ended_by,
                (false, false) => at,
            };
            let named = command.waits.iter().copied().chain(since..at).chain(barrier);
            named.filter_map(|index| events.get(index)).for_each(|event| waits.push(event));
            if waits.is_empty() {
                waits.push_all(outer);
            }
            let made = command.action.enqueue(queue, &waits, true)?;
            events.push(made.ok_or(cl::CL_OUT_OF_RESOURCES)?);
            if is_barrier {
                barrier = Some(at);
            }
            if all_before {
                all_ended_by = at;
            }
        }
        let mut waits = Waits::none();
        let in_order = self.queue.in_order;
        for (at, (command, event)) in self.commands.iter().zip(&events).enumerate() {
            if if in_order { at + 1 == events.len() } else { !command.waited_for } {
                waits.push(event);
            }
        }
        if waits.is_empty() {
            waits.push_all(outer);
        }
        let end = queue.marker(&waits, true)?;
        Ok(Replayed { first: events.into_iter().next(), end })
    }
}

impl Action {
    fn enqueue<'a>(&'a self, queue: &native::Queue, waits: &Waits<'_>, event: bool) -> Result<Option<Event>, Status> {
        let native = |memory: &'a Arc<Memory>| memory.native.as_deref().map_err(|status| *status);
        match self {
            Self::Kernel(kernel, range) => queue.kernel(kernel.launchable()?, range, waits, event),
            Self::Copy((source, from), (target, to), size) => {
                queue.copy((native(source)?, *from), (native(target)?, *to), *size, waits, event)
            }
            Self::Fill(buffer, pattern, range) => queue.fill(native(buffer)?, pattern, *range, waits, event),
            Self::CopyRect((source, from), (target, to)) => {
                queue.copy_rect((native(source)?, from), (native(target)?, to), waits, event)
            }
            Self::CopyImage((source, from), (target, to), region) => {
                queue.copy_image((native(source)?, *from), (native(target)?, *to), *region, waits, event)
            }
            Self::CopyImageToBuffer((source, part), (target, offset)) => {
                queue.copy_image_to_buffer((native(source)?, part), (native(target)?, *offset), waits, event)
            }
            Self::CopyBufferToImage((source, offset), (target, part)) => {
                queue.copy_buffer_to_image((native(source)?, *offset), (native(target)?, part), waits, event)
            }
            Self::FillImage(image, part, color) => queue.fill_image(native(image)?, part, *color, waits, event),
            Self::Barrier => queue.marker(waits, event),
        }
    }
}

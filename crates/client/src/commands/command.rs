//! Commands that move no bytes between program and server: kernels, copies, fills, markers and barriers.

use std::sync::Arc;

use ropeway_abi::{
    CL_COMMAND_BARRIER, CL_COMMAND_COPY_BUFFER, CL_COMMAND_COPY_BUFFER_RECT, CL_COMMAND_FILL_BUFFER, CL_COMMAND_MARKER,
    CL_COMMAND_MIGRATE_MEM_OBJECTS, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, CL_MIGRATE_MEM_OBJECT_HOST,
};
use ropeway_protocol::Post;
use ropeway_protocol::messages::{
    Barrier, CopyBuffer, CopyBufferRect, EnqueueKernel, FillBuffer, LaunchKernel, Marker, MigrateMemory,
    SuggestedLocalSize,
};
use ropeway_protocol::types::{BufferRect, Command, EventList, NdRange};

use crate::base::status::Result;
use crate::link::ordering::OrderingGuard;
use crate::link::replies::PendingReply;
use crate::objects::access::{Access, Span, Use};
use crate::objects::at_client::Written;
use crate::objects::event::Event;
use crate::objects::kernel::Kernel;
use crate::objects::memory::Memory;
use crate::objects::progress::Enqueuing;
use crate::objects::queue::Queue;
use crate::planning::prepare::Prepared;

/// The wait list of a command, and whether the application wants its event.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// Events that must have ended before.
    pub waits: &'a [&'a Event],
    /// Whether to make an event for it.
    pub wants_event: bool,
}

/// The event of a command, if the application wanted one.
pub type Enqueued = Option<Arc<Event>>;

/// A command that is about to be sent.
pub(crate) struct Ordered<'a> {
    /// The part of its message that all commands have.
    pub wire: Command,
    /// Its event, if the application wants it.
    pub event: Enqueued,
    /// Keeps the events that the command waits for from being released while this lives.
    pub guard: OrderingGuard<'a>,
    /// To be dropped when it is sent.
    pub enqueuing: Enqueuing,
    /// To be dropped as soon as it is sent: nothing else is planned before.
    pub prepared: Option<Prepared<'a>>,
}

impl Queue {
    /// Prepares a command that touches memory in these ways: as [`Queue::bare_order`], and waits for in-flight writes
    /// on other queues, whose events must not be released before the command is sent.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`]; those of [`Queue::prepare`].
    pub(crate) fn order(
        self: &Arc<Self>,
        order: Order<'_>,
        command: u32,
        awaits_data: bool,
        uses: &[Use<'_>],
    ) -> Result<Ordered<'_>> {
        self.order_writing(order, command, awaits_data, uses, Written::AsUsed)
    }

    /// As [`Queue::order`], for commands whose uses do not say all that they write.
    fn order_writing(
        self: &Arc<Self>,
        order: Order<'_>,
        command: u32,
        awaits_data: bool,
        uses: &[Use<'_>],
        written: Written<'_>,
    ) -> Result<Ordered<'_>> {
        if !self.context().spans_homes() {
            let (mut wire, event, enqueuing) = self.bare_order(order, command, awaits_data)?;
            self.note_written(uses, written, &enqueuing);
            let guard = self.connection().heed_early(self.live(), &mut wire.waits);
            return Ok(Ordered { wire, event, guard, enqueuing, prepared: None });
        }
        let enqueuing = self.progress().begin();
        self.note_written(uses, written, &enqueuing);
        order.waits.iter().for_each(|waited| waited.find_way_to(self.home()));
        let event = order.wants_event.then(|| Event::of_command(self, command, awaits_data));
        event.iter().for_each(|event| event.has_place(enqueuing.number()));
        let mut wire =
            Command { queue: self.id(), event: event.as_ref().map(|event| event.id()), waits: EventList::default() };
        let outcome = self.prepare(uses, command, &mut wire, &event).and_then(|prepared| {
            for waited in order.waits.iter().filter(|waited| !prepared.implies(waited)) {
                wire.waits.0.extend(waited.waited_for_in(self.home())?);
            }
            Ok(prepared)
        });
        let prepared = Some(outcome.inspect_err(|_| event.iter().for_each(|event| event.was_not_sent()))?);
        let guard = self.connection().heed_early(self.live(), &mut wire.waits);
        Ok(Ordered { wire, event, guard, enqueuing, prepared })
    }

    /// Takes away from the client what a command may write, which is not sent yet.
    fn note_written(&self, uses: &[Use<'_>], written: Written<'_>, enqueuing: &Enqueuing) {
        let at_client = self.context().at_client();
        if !at_client.is_used() {
            return;
        }
        match written {
            Written::AsUsed => {
                let writes = uses.iter().filter(|one| one.access != Access::Read).map(Use::of_storage);
                let ranges = writes.flat_map(|(storage, ranges, _)| ranges.into_iter().map(|r| (storage.name(), r)));
                at_client.written(ranges, enqueuing);
            }
            Written::Storages(all) => at_client.written(all.iter().map(|&name| (name, 0..u64::MAX)), enqueuing),
            Written::Anything => at_client.all_written(enqueuing),
        }
    }

    /// The wire's part that all commands have; `command` is the event's CL_COMMAND_*.
    fn bare_order(
        self: &Arc<Self>,
        order: Order<'_>,
        command: u32,
        awaits_data: bool,
    ) -> Result<(Command, Enqueued, Enqueuing)> {
        let enqueuing = self.progress().begin();
        let mut waits = EventList::default();
        for event in order.waits {
            event.find_way_to(self.home());
            waits.0.extend(event.waited_for_in(self.home())?);
        }
        let event = order.wants_event.then(|| Event::of_command(self, command, awaits_data));
        event.iter().for_each(|event| event.has_place(enqueuing.number()));
        Ok((Command { queue: self.id(), event: event.as_ref().map(|e| e.id()), waits }, event, enqueuing))
    }

    pub(crate) fn enqueue<P: Post>(
        self: &Arc<Self>,
        order: Order<'_>,
        command: u32,
        uses: &[Use<'_>],
        message: impl FnOnce(Command) -> P,
    ) -> Result<Enqueued> {
        self.enqueue_writing(order, command, (uses, Written::AsUsed), message)
    }

    /// As [`Queue::enqueue`], for commands whose uses do not say all that they write.
    pub(crate) fn enqueue_writing<P: Post>(
        self: &Arc<Self>,
        order: Order<'_>,
        command: u32,
        (uses, written): (&[Use<'_>], Written<'_>),
        message: impl FnOnce(Command) -> P,
    ) -> Result<Enqueued> {
        let ordered = self.order_writing(order, command, false, uses, written)?;
        let Ordered { wire, event, guard: _guard, enqueuing: _enqueuing, prepared: _prepared } = ordered;
        self.connection().post(&message(wire))?;
        Ok(event)
    }

    /// As [`Queue::enqueue`], for commands that wait for everything before them if their wait list is empty.
    fn enqueue_bare<P: Post>(
        self: &Arc<Self>,
        order: Order<'_>,
        command: u32,
        message: impl FnOnce(Command) -> P,
    ) -> Result<Enqueued> {
        let (mut wire, event, _enqueuing) = self.bare_order(order, command, false)?;
        if let (true, Some(waited)) = (wire.waits.0.is_empty(), order.waits.first()) {
            // Events of other homes that have ended need no wait; but an empty wait list would make the command wait
            // for everything before it.
            let named = waited.named_in(self.home());
            wire.waits.0.push(named.inspect_err(|_| event.iter().for_each(|event| event.was_not_sent()))?);
        }
        self.connection().post(&message(wire))?;
        Ok(event)
    }

    /// Launches a kernel; `command` is CL_COMMAND_NDRANGE_KERNEL or CL_COMMAND_TASK.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn enqueue_kernel(
        self: &Arc<Self>,
        kernel: &Kernel,
        range: NdRange,
        command: u32,
        order: Order<'_>,
    ) -> Result<Enqueued> {
        let held = kernel.ready_in(self.home())?;
        let kernel = kernel.id(self.home());
        let uses = (&*held.uses(), held.written());
        self.enqueue_writing(order, command, uses, |command| EnqueueKernel { command, kernel, range })
    }

    /// As [`Queue::enqueue_kernel`], for a launch with more work-items in a group than the device reports for the
    /// kernel; the device may accept it all the same, so this waits for the server's answer.
    ///
    /// # Errors
    /// The status of the native call, or [`crate::SERVER_LOST`].
    pub fn launch_kernel(
        self: &Arc<Self>,
        kernel: &Kernel,
        range: NdRange,
        command: u32,
        order: Order<'_>,
    ) -> Result<Enqueued> {
        let items = range.local.iter().flatten().take(usize::from(range.dims)).product();
        if kernel.takes(items) {
            return self.enqueue_kernel(kernel, range, command, order);
        }
        let held = kernel.ready_in(self.home())?;
        let uses = held.uses();
        let ordered = self.order_writing(order, command, false, &uses, held.written())?;
        let Ordered { wire, event, guard: _guard, enqueuing: _enqueuing, mut prepared } = ordered;
        let launched = self.connection().ask(&LaunchKernel { command: wire, kernel: kernel.id(self.home()), range });
        // Waiting for the answer holds up no other thread's commands.
        prepared.iter_mut().for_each(Prepared::was_posted);
        launched
            .and_then(PendingReply::wait)
            .inspect_err(|status| prepared.iter().for_each(|prepared| prepared.was_refused(*status)))?;
        kernel.note_taken(items);
        Ok(event)
    }

    /// The local size that the device would choose for a launch (clGetKernelSuggestedLocalWorkSizeKHR).
    ///
    /// # Errors
    /// The status of the native call, or [`crate::SERVER_LOST`].
    pub fn suggested_local_size(&self, kernel: &Kernel, range: NdRange) -> Result<[u64; 3]> {
        kernel.ready_in(self.home())?;
        self.connection().call(&SuggestedLocalSize { queue: self.id(), kernel: kernel.id(self.home()), range })
    }

    /// Copies `size` bytes between buffers (clEnqueueCopyBuffer).
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn enqueue_copy(
        self: &Arc<Self>,
        (source, source_offset): (&Memory, usize),
        (target, target_offset): (&Memory, usize),
        size: usize,
        order: Order<'_>,
    ) -> Result<Enqueued> {
        self.enqueue_copy_as((source, source_offset), (target, target_offset), size, order, CL_COMMAND_COPY_BUFFER)
    }

    /// As [`Queue::enqueue_copy`], for a command of another type.
    pub(crate) fn enqueue_copy_as(
        self: &Arc<Self>,
        (source, source_offset): (&Memory, usize),
        (target, target_offset): (&Memory, usize),
        size: usize,
        order: Order<'_>,
        command: u32,
    ) -> Result<Enqueued> {
        let uses = [
            Use::bytes(source, Access::Read, source_offset, size),
            Use::bytes(target, Access::Write, target_offset, size),
        ];
        self.enqueue(order, command, &uses, |command| CopyBuffer {
            command,
            source: source.id(self.home()),
            target: target.id(self.home()),
            source_offset: source_offset as u64,
            target_offset: target_offset as u64,
            size: size as u64,
        })
    }

    /// Copies between regions of buffers, which are of the same size (clEnqueueCopyBufferRect).
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn enqueue_copy_rect(
        self: &Arc<Self>,
        (source, source_rect): (&Memory, BufferRect),
        (target, target_rect): (&Memory, BufferRect),
        order: Order<'_>,
    ) -> Result<Enqueued> {
        let uses = [Use::rect(source, Access::Read, source_rect), Use::rect(target, Access::Write, target_rect)];
        self.enqueue(order, CL_COMMAND_COPY_BUFFER_RECT, &uses, |command| CopyBufferRect {
            command,
            source: source.id(self.home()),
            target: target.id(self.home()),
            source_rect,
            target_rect,
        })
    }

    /// Fills `size` bytes at `offset` with a pattern (clEnqueueFillBuffer).
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn enqueue_fill(
        self: &Arc<Self>,
        buffer: &Memory,
        pattern: &[u8],
        offset: usize,
        size: usize,
        order: Order<'_>,
    ) -> Result<Enqueued> {
        self.enqueue_fill_as(buffer, pattern, offset, size, order, CL_COMMAND_FILL_BUFFER)
    }

    /// As [`Queue::enqueue_fill`], for a command of another type.
    pub(crate) fn enqueue_fill_as(
        self: &Arc<Self>,
        buffer: &Memory,
        pattern: &[u8],
        offset: usize,
        size: usize,
        order: Order<'_>,
        command: u32,
    ) -> Result<Enqueued> {
        let uses = [Use::bytes(buffer, Access::Write, offset, size)];
        self.enqueue(order, command, &uses, |command| FillBuffer {
            command,
            buffer: buffer.id(self.home()),
            pattern,
            offset: offset as u64,
            size: size as u64,
        })
    }

    /// Moves memory objects to the queue's device, or to its host (clEnqueueMigrateMemObjects); `flags` is
    /// CL_MIGRATE_MEM_OBJECT_*.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn enqueue_migrate(self: &Arc<Self>, memory: &[&Memory], flags: u64, order: Order<'_>) -> Result<Enqueued> {
        let access = match flags {
            _ if flags & CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED != 0 => Some(Access::Discard),
            // The host gets what it needs when it reads.
            _ if flags & CL_MIGRATE_MEM_OBJECT_HOST != 0 => None,
            _ => Some(Access::Read),
        };
        let of_all = |access| memory.iter().map(move |&memory| Use { memory, access, span: Span::Whole });
        let uses: Vec<_> = access.into_iter().flat_map(of_all).collect();
        if self.context().spans_homes() {
            memory.iter().try_for_each(|memory| memory.ensure(self.home()))?;
        }
        let memory = memory.iter().map(|memory| memory.id(self.home())).collect();
        self.enqueue(order, CL_COMMAND_MIGRATE_MEM_OBJECTS, &uses, |command| MigrateMemory { command, memory, flags })
    }

    /// Enqueues a marker; without events to wait for it waits for all before it.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn enqueue_marker(self: &Arc<Self>, order: Order<'_>) -> Result<Enqueued> {
        self.enqueue_marker_as(order, CL_COMMAND_MARKER)
    }

    /// As [`Queue::enqueue_marker`], for a command that the server treats as a marker only.
    pub fn enqueue_marker_as(self: &Arc<Self>, order: Order<'_>, command: u32) -> Result<Enqueued> {
        self.enqueue_bare(order, command, |command| Marker { command })
    }

    /// Enqueues a barrier; without events to wait for it waits for all before it.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn enqueue_barrier(self: &Arc<Self>, order: Order<'_>) -> Result<Enqueued> {
        self.enqueue_bare(order, CL_COMMAND_BARRIER, |command| Barrier { command })
    }
}

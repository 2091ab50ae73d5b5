//! Command buffers (cl_khr_command_buffer).

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use ropeway_abi::{CL_COMMAND_COMMAND_BUFFER_KHR, CL_INVALID_OPERATION};
use ropeway_protocol::ids::CommandBufferId;
use ropeway_protocol::image::ImagePart;
use ropeway_protocol::messages::{CreateCommandBuffer, Record, ReleaseCommandBuffer, Replay};
use ropeway_protocol::recording::Recorded;
use ropeway_protocol::types::{BufferRect, NdRange};

use crate::base::ids::new_id;
use crate::base::status::Result;
use crate::base::sync::lock;
use crate::commands::command::{Enqueued, Order};
use crate::objects::access::{Access, Use};
use crate::objects::at_client::Written;
use crate::objects::home::Home;
use crate::objects::kernel::Kernel;
use crate::objects::memory::Memory;
use crate::objects::queue::Queue;
use crate::objects::svm::Region;

/// A command buffer. What it records lives at the server, which keeps hold of all that the commands use.
pub struct CommandBuffer {
    id: CommandBufferId,
    queue: Arc<Queue>,
    recording: Mutex<Recording>,
}

#[derive(Default)]
struct Recording {
    commands: u32,
    finalized: bool,
    /// The memory that a replay uses, and whether it writes there; only where there are several homes.
    uses: HashMap<u64, (Arc<Memory>, bool)>,
}

/// Memory that a command reads, or writes too.
type Touched<'a> = (&'a Memory, bool);

impl std::fmt::Debug for CommandBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.id)
    }
}

impl CommandBuffer {
    /// Makes one for commands on queues like `queue`.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn new(queue: &Arc<Queue>) -> Result<Self> {
        let id = CommandBufferId(queue.home().name(new_id()));
        queue.connection().post(&CreateCommandBuffer { commands: id, queue: queue.id() })?;
        Ok(Self { id, queue: Arc::clone(queue), recording: Mutex::default() })
    }

    /// How many commands were recorded; each is a sync point of its own, from 1 on.
    pub fn commands(&self) -> u32 {
        lock(&self.recording).commands
    }

    /// Whether it was finalized.
    pub fn is_finalized(&self) -> bool {
        lock(&self.recording).finalized
    }

    /// Ends the recording (clFinalizeCommandBufferKHR).
    ///
    /// # Errors
    /// CL_INVALID_OPERATION when that was done before.
    pub fn finalize(&self) -> Result<()> {
        if std::mem::replace(&mut lock(&self.recording).finalized, true) { Err(CL_INVALID_OPERATION) } else { Ok(()) }
    }

    /// Where it lives.
    fn home(&self) -> &Home {
        self.queue.home()
    }

    /// Records a command behind those of the sync points `waits`; gives its own sync point.
    ///
    /// # Errors
    /// CL_INVALID_OPERATION once it is finalized, [`crate::SERVER_LOST`].
    fn record(&self, waits: &[u32], action: Recorded<'_>, touched: &[Touched<'_>]) -> Result<u32> {
        // Under the lock, so that the client and the server count commands in the same order.
        let mut recording = lock(&self.recording);
        if recording.finalized {
            return Err(CL_INVALID_OPERATION);
        }
        if self.queue.context().spans_homes() {
            for (memory, writes) in touched {
                memory.ensure(self.home())?;
                let Some(held) = memory.hold() else { continue };
                recording.uses.entry(memory.name()).or_insert((held, false)).1 |= writes;
            }
        }
        let waits = waits.iter().map(|&point| point.saturating_sub(1)).collect();
        self.queue.connection().post(&Record { commands: self.id, waits, action })?;
        recording.commands += 1;
        Ok(recording.commands)
    }

    /// Records a launch of `kernel` with the arguments that it has now.
    ///
    /// # Errors
    /// As all that record: CL_INVALID_OPERATION once it is finalized, [`crate::SERVER_LOST`].
    pub fn record_kernel(&self, kernel: &Kernel, range: NdRange, waits: &[u32]) -> Result<u32> {
        let held = kernel.ready_in(self.home())?;
        let uses = held.uses();
        let touched: Vec<_> = uses.iter().map(|one| (one.memory, one.access != Access::Read)).collect();
        self.record(waits, Recorded::Kernel { kernel: kernel.id(self.home()), range }, &touched)
    }

    /// Records a copy of `size` bytes between buffers.
    ///
    /// # Errors
    /// As [`CommandBuffer::record_kernel`].
    pub fn record_copy(
        &self,
        (source, source_offset): (&Memory, usize),
        (target, target_offset): (&Memory, usize),
        size: usize,
        waits: &[u32],
    ) -> Result<u32> {
        let touched = [(source, false), (target, true)];
        let (source, target) = (source.id(self.home()), target.id(self.home()));
        let (source_offset, target_offset, size) = (source_offset as u64, target_offset as u64, size as u64);
        self.record(waits, Recorded::CopyBuffer { source, target, source_offset, target_offset, size }, &touched)
    }

    /// Records that `size` bytes at `offset` are filled with a pattern.
    ///
    /// # Errors
    /// As [`CommandBuffer::record_kernel`].
    pub fn record_fill(
        &self,
        buffer: &Memory,
        pattern: &[u8],
        offset: usize,
        size: usize,
        waits: &[u32],
    ) -> Result<u32> {
        let (offset, size) = (offset as u64, size as u64);
        self.record(
            waits,
            Recorded::FillBuffer { buffer: buffer.id(self.home()), pattern, offset, size },
            &[(buffer, true)],
        )
    }

    /// Records a copy between regions of buffers, which are of the same size.
    ///
    /// # Errors
    /// As [`CommandBuffer::record_kernel`].
    pub fn record_copy_rect(
        &self,
        (source, from): (&Memory, BufferRect),
        (target, to): (&Memory, BufferRect),
        waits: &[u32],
    ) -> Result<u32> {
        self.record(
            waits,
            Recorded::CopyBufferRect {
                source: source.id(self.home()),
                target: target.id(self.home()),
                source_rect: from,
                target_rect: to,
            },
            &[(source, false), (target, true)],
        )
    }

    /// Records a copy between images of the same format.
    ///
    /// # Errors
    /// As [`CommandBuffer::record_kernel`].
    pub fn record_copy_image(
        &self,
        (source, from): (&Memory, [u64; 3]),
        (target, to): (&Memory, [u64; 3]),
        region: [u64; 3],
        waits: &[u32],
    ) -> Result<u32> {
        self.record(
            waits,
            Recorded::CopyImage { source: source.id(self.home()), target: target.id(self.home()), from, to, region },
            &[(source, false), (target, true)],
        )
    }

    /// Records a copy of part of an image to a buffer.
    ///
    /// # Errors
    /// As [`CommandBuffer::record_kernel`].
    pub fn record_copy_image_to_buffer(
        &self,
        (source, part): (&Memory, ImagePart),
        (target, offset): (&Memory, usize),
        waits: &[u32],
    ) -> Result<u32> {
        let touched = [(source, false), (target, true)];
        let (source, target, offset) = (source.id(self.home()), target.id(self.home()), offset as u64);
        self.record(waits, Recorded::CopyImageToBuffer { source, part, target, offset }, &touched)
    }

    /// Records a copy from a buffer into part of an image.
    ///
    /// # Errors
    /// As [`CommandBuffer::record_kernel`].
    pub fn record_copy_buffer_to_image(
        &self,
        (source, offset): (&Memory, usize),
        (target, part): (&Memory, ImagePart),
        waits: &[u32],
    ) -> Result<u32> {
        let touched = [(source, false), (target, true)];
        let (source, target, offset) = (source.id(self.home()), target.id(self.home()), offset as u64);
        self.record(waits, Recorded::CopyBufferToImage { source, offset, target, part }, &touched)
    }

    /// Records that part of an image is filled with a color: four numbers of the kind that its format asks for.
    ///
    /// # Errors
    /// As [`CommandBuffer::record_kernel`].
    pub fn record_fill_image(&self, image: &Memory, part: ImagePart, color: [u32; 4], waits: &[u32]) -> Result<u32> {
        self.record(waits, Recorded::FillImage { image: image.id(self.home()), part, color }, &[(image, true)])
    }

    /// Records a copy within shared virtual memory.
    ///
    /// # Errors
    /// As [`CommandBuffer::record_kernel`].
    pub fn record_svm_copy(&self, source: &Region, target: &Region, size: usize, waits: &[u32]) -> Result<u32> {
        match size {
            0 => self.record_barrier(waits),
            _ => self.record_copy((source.memory(), source.offset()), (target.memory(), target.offset()), size, waits),
        }
    }

    /// Records that shared virtual memory is filled with a pattern.
    ///
    /// # Errors
    /// As [`CommandBuffer::record_kernel`].
    pub fn record_svm_fill(&self, region: &Region, pattern: &[u8], size: usize, waits: &[u32]) -> Result<u32> {
        match size {
            0 => self.record_barrier(waits),
            _ => self.record_fill(region.memory(), pattern, region.offset(), size, waits),
        }
    }

    /// Records a barrier; without sync points to wait for it waits for all before it.
    ///
    /// # Errors
    /// As [`CommandBuffer::record_kernel`].
    pub fn record_barrier(&self, waits: &[u32]) -> Result<u32> {
        self.record(waits, Recorded::Barrier, &[])
    }
}

impl Queue {
    /// Carries out what was recorded, with one message (clEnqueueCommandBufferKHR).
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn enqueue_commands(self: &Arc<Self>, commands: &CommandBuffer, order: Order<'_>) -> Result<Enqueued> {
        let held: Vec<_> = lock(&commands.recording).uses.values().cloned().collect();
        let uses: Vec<_> = held
            .iter()
            .map(|(memory, writes)| if *writes { Use::write_part(memory) } else { Use::read(memory) })
            .collect();
        // With one home it is not known what it uses.
        let written = if self.context().spans_homes() { Written::AsUsed } else { Written::Anything };
        let replay = |command| Replay { command, commands: commands.id };
        self.enqueue_writing(order, CL_COMMAND_COMMAND_BUFFER_KHR, (&uses, written), replay)
    }
}

impl Drop for CommandBuffer {
    fn drop(&mut self) {
        // A lost server has dropped it already.
        let _ = self.queue.connection().post(&ReleaseCommandBuffer { commands: self.id });
    }
}

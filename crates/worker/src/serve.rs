//! What each message does.

mod arguments;
mod buffers;
mod command_buffers;
mod contents;
mod devices;
mod events;
mod images;
mod kernels;
mod peers;
mod pipes;
mod programs;
mod queues;
mod semaphores;
mod svm;
mod transfers;

use ropeway_protocol::image::ImageFormat;
use ropeway_protocol::limits::MAX_TAIL;
use ropeway_protocol::messages::*;
use ropeway_protocol::types::{BinaryReply, BuildReply, SubDevices, Waited};
use ropeway_protocol::{CallId, Serve, Tail};

use crate::base::error::End;
use crate::base::error::unknown;
use crate::objects::Direction;
use crate::session::Session;
use crate::session::job::Job;

impl Serve for Session {
    type Error = End;

    fn create_context(&mut self, m: CreateContext) -> Result<(), End> {
        let total = self.objects();
        let made = self.warm.context(&self.common.client, m.context, m.platform, &m.devices);
        let context = made.ok_or_else(|| unknown(format_args!("a device of {}", m.context)))?;
        Self::claim(total, &mut self.contexts, m.context, context)
    }

    fn release_context(&mut self, m: ReleaseContext) -> Result<(), End> {
        self.contexts.remove(&m.context).map(drop).ok_or_else(|| unknown(m.context))
    }

    fn create_queue(&mut self, m: CreateQueue) -> Result<(), End> {
        self.make_queue(m)
    }

    fn release_queue(&mut self, m: ReleaseQueue) -> Result<(), End> {
        self.drop_queue(m)
    }

    fn flush(&mut self, m: Flush) -> Result<(), End> {
        self.flush_queue(m)
    }

    fn create_sub_devices(&mut self, m: CreateSubDevices, call: CallId<SubDevices>) -> Result<(), End> {
        self.divide_device(m, call)
    }

    fn release_sub_device(&mut self, m: ReleaseSubDevice) -> Result<(), End> {
        self.drop_sub_device(m)
    }

    fn get_device_info(&mut self, m: GetDeviceInfo, call: CallId<Vec<u8>>) -> Result<(), End> {
        self.ask_device(m, call)
    }

    fn create_buffer(&mut self, m: CreateBuffer, tail: &mut dyn Tail) -> Result<(), End> {
        self.make_buffer(m, tail)
    }

    fn release_memory(&mut self, m: ReleaseMemory) -> Result<(), End> {
        self.drop_memory(m)
    }

    fn create_program_with_source(&mut self, m: CreateProgramWithSource) -> Result<(), End> {
        self.program_from_source(m)
    }

    fn create_program_with_binary(&mut self, m: CreateProgramWithBinary, call: CallId<BinaryReply>) -> Result<(), End> {
        self.program_from_binaries(m, call)
    }

    fn put_content(&mut self, m: PutContent, tail: &mut dyn Tail) -> Result<(), End> {
        self.take_content(m, tail)
    }

    fn build_program(&mut self, m: BuildProgram<'_>, call: CallId<BuildReply>) -> Result<(), End> {
        self.build(m, call)
    }

    fn compile_program(&mut self, m: CompileProgram<'_>, call: CallId<BuildReply>) -> Result<(), End> {
        self.compile(m, call)
    }

    fn link_program(&mut self, m: LinkProgram<'_>, call: CallId<BuildReply>) -> Result<(), End> {
        self.link(m, call)
    }

    fn program_binary_size(&mut self, m: ProgramBinarySize, call: CallId<u64>) -> Result<(), End> {
        self.tell_binary_size(m, call)
    }

    fn program_binary(&mut self, m: ProgramBinary, call: CallId<u64>) -> Result<(), End> {
        self.send_program_binary(m, call)
    }

    fn release_program(&mut self, m: ReleaseProgram) -> Result<(), End> {
        self.programs.remove(&m.program).map(drop).ok_or_else(|| unknown(m.program))
    }

    fn create_kernel(&mut self, m: CreateKernel<'_>) -> Result<(), End> {
        self.make_kernel(m)
    }

    fn set_kernel_arg(&mut self, m: SetKernelArg<'_>) -> Result<(), End> {
        self.set_argument(m)
    }

    fn release_kernel(&mut self, m: ReleaseKernel) -> Result<(), End> {
        self.kernels.remove(&m.kernel).map(drop).ok_or_else(|| unknown(m.kernel))
    }

    fn create_program_with_il(&mut self, m: CreateProgramWithIl, call: CallId<BinaryReply>) -> Result<(), End> {
        self.program_from_il(m, call)
    }

    fn set_specialization_constant(&mut self, m: SetSpecializationConstant<'_>, call: CallId<()>) -> Result<(), End> {
        self.specialize(m, call)
    }

    fn create_program_with_built_in_kernels(
        &mut self,
        m: CreateProgramWithBuiltInKernels<'_>,
        call: CallId<BuildReply>,
    ) -> Result<(), End> {
        self.program_of_built_in_kernels(m, call)
    }

    fn clone_kernel(&mut self, m: CloneKernel) -> Result<(), End> {
        self.copy_kernel(m)
    }

    fn kernel_sub_group_info(&mut self, m: KernelSubGroupInfo, call: CallId<Vec<u64>>) -> Result<(), End> {
        self.ask_sub_groups(m, call)
    }

    fn suggested_local_size(&mut self, m: SuggestedLocalSize, call: CallId<[u64; 3]>) -> Result<(), End> {
        self.suggest_local_size(m, call)
    }

    fn launch_kernel(&mut self, m: LaunchKernel, call: CallId<()>) -> Result<(), End> {
        self.launch(m, call)
    }

    fn enqueue_kernel(&mut self, m: EnqueueKernel) -> Result<(), End> {
        let total = self.objects();
        let kernel = self.kernels.get(&m.kernel).ok_or_else(|| unknown(m.kernel))?;
        self.lanes.enqueue(total, &m.command, |lane, waits, event| {
            Ok(lane.native().and_then(|queue| queue.kernel(kernel.launchable()?, &m.range, waits, event)))
        })
    }

    fn transfer_data(&mut self, m: TransferData, tail: &mut dyn Tail) -> Result<(), End> {
        self.receive(m.transfer, m.offset, tail)
    }

    fn write_buffer(&mut self, m: WriteBuffer, tail: &mut dyn Tail) -> Result<(), End> {
        let place = self.buffer_bytes(m.buffer, m.offset, tail.remaining() as u64)?;
        self.write(&m.command, place, tail)
    }

    fn write_buffer_transfer(&mut self, m: WriteBufferTransfer) -> Result<(), End> {
        let place = self.buffer_bytes(m.buffer, m.offset, m.size)?;
        self.gate(&m.command, m.transfer, Direction::In, place)
    }

    fn read_buffer(&mut self, m: ReadBuffer) -> Result<(), End> {
        let place = self.buffer_bytes(m.buffer, m.offset, m.size)?;
        self.read(&m.command, m.transfer, place)
    }

    fn read_content(&mut self, m: ReadContent) -> Result<(), End> {
        self.read_contents(&m)
    }

    fn push_content(&mut self, m: PushContent) -> Result<(), End> {
        self.push_contents(m)
    }

    fn expect_content(&mut self, m: ExpectContent) -> Result<(), End> {
        self.expect_contents(m)
    }

    fn write_buffer_rect(&mut self, m: WriteBufferRect, tail: &mut dyn Tail) -> Result<(), End> {
        let place = self.buffer_rect(m.buffer, m.rect)?;
        self.write(&m.command, place, tail)
    }

    fn write_buffer_rect_transfer(&mut self, m: WriteBufferRectTransfer) -> Result<(), End> {
        let place = self.buffer_rect(m.buffer, m.rect)?;
        self.gate(&m.command, m.transfer, Direction::In, place)
    }

    fn read_buffer_rect(&mut self, m: ReadBufferRect) -> Result<(), End> {
        let place = self.buffer_rect(m.buffer, m.rect)?;
        self.read(&m.command, m.transfer, place)
    }

    fn create_sub_buffer(&mut self, m: CreateSubBuffer) -> Result<(), End> {
        self.make_sub_buffer(&m)
    }

    fn migrate_memory(&mut self, m: MigrateMemory) -> Result<(), End> {
        self.migrate(&m)
    }

    fn copy_buffer_rect(&mut self, m: CopyBufferRect) -> Result<(), End> {
        self.copy_rect(m)
    }

    fn copy_buffer(&mut self, m: CopyBuffer) -> Result<(), End> {
        self.copy(m)
    }

    fn fill_buffer(&mut self, m: FillBuffer<'_>) -> Result<(), End> {
        self.fill(m)
    }

    fn marker(&mut self, m: Marker) -> Result<(), End> {
        let total = self.objects();
        self.lanes.enqueue(total, &m.command, |lane, waits, event| {
            Ok(lane.native().and_then(|queue| queue.marker(waits, event)))
        })
    }

    fn barrier(&mut self, m: Barrier) -> Result<(), End> {
        self.enqueue_barrier(m)
    }

    fn create_user_event(&mut self, m: CreateUserEvent) -> Result<(), End> {
        self.make_user_event(m)
    }

    fn set_user_event_status(&mut self, m: SetUserEventStatus) -> Result<(), End> {
        self.set_user_event(m)
    }

    fn release_event(&mut self, m: ReleaseEvent) -> Result<(), End> {
        self.drop_event(m.event)
    }

    fn subscribe(&mut self, m: Subscribe) -> Result<(), End> {
        self.tell_end_of(m.event)
    }

    fn watch_progress(&mut self, m: WatchProgress) -> Result<(), End> {
        self.watch_progress_of(m.event)
    }

    fn device_timer(&mut self, m: DeviceTimer, call: CallId<u64>) -> Result<(), End> {
        self.ask_device_timer(m, call)
    }

    fn finish(&mut self, m: Finish, call: CallId<Waited>) -> Result<(), End> {
        self.finish_queue(m, call)
    }

    fn wait_for_events(&mut self, m: WaitForEvents, call: CallId<Waited>) -> Result<(), End> {
        self.wait_for_all(&m, call)
    }

    fn svm_alloc(&mut self, m: SvmAlloc, call: CallId<u64>) -> Result<(), End> {
        self.allocate_svm(&m, call)
    }

    fn create_svm_buffer(&mut self, m: CreateSvmBuffer) -> Result<(), End> {
        self.make_svm_buffer(&m)
    }

    fn create_pipe(&mut self, m: CreatePipe) -> Result<(), End> {
        self.make_pipe(&m)
    }

    fn set_kernel_svm_pointers(&mut self, m: SetKernelSvmPointers) -> Result<(), End> {
        self.tell_of_svm(&m)
    }

    fn create_image(&mut self, m: CreateImage, tail: &mut dyn Tail) -> Result<(), End> {
        self.make_image(m, tail)
    }

    fn memory_status(&mut self, m: MemoryStatus, call: CallId<()>) -> Result<(), End> {
        self.tell_memory_status(m, call)
    }

    fn write_image(&mut self, m: WriteImage, tail: &mut dyn Tail) -> Result<(), End> {
        let place = self.image_part(m.image, m.part)?;
        self.write(&m.command, place, tail)
    }

    fn write_image_transfer(&mut self, m: WriteImageTransfer) -> Result<(), End> {
        let place = self.image_part(m.image, m.part)?;
        self.gate(&m.command, m.transfer, Direction::In, place)
    }

    fn read_image(&mut self, m: ReadImage) -> Result<(), End> {
        let place = self.image_part(m.image, m.part)?;
        self.read(&m.command, m.transfer, place)
    }

    fn copy_image(&mut self, m: CopyImage) -> Result<(), End> {
        self.enqueue_copy_image(m)
    }

    fn copy_image_to_buffer(&mut self, m: CopyImageToBuffer) -> Result<(), End> {
        self.enqueue_copy_image_to_buffer(m)
    }

    fn copy_buffer_to_image(&mut self, m: CopyBufferToImage) -> Result<(), End> {
        self.enqueue_copy_buffer_to_image(m)
    }

    fn fill_image(&mut self, m: FillImage) -> Result<(), End> {
        self.enqueue_fill_image(m)
    }

    fn create_sampler(&mut self, m: CreateSampler) -> Result<(), End> {
        self.make_sampler(m)
    }

    fn sampler_status(&mut self, m: SamplerStatus, call: CallId<()>) -> Result<(), End> {
        self.tell_sampler_status(m, call)
    }

    fn release_sampler(&mut self, m: ReleaseSampler) -> Result<(), End> {
        self.drop_sampler(m)
    }

    fn image_formats(&mut self, m: ImageFormats, call: CallId<Vec<ImageFormat>>) -> Result<(), End> {
        self.list_image_formats(m, call)
    }

    fn create_command_buffer(&mut self, m: CreateCommandBuffer) -> Result<(), End> {
        self.make_command_buffer(&m)
    }

    fn release_command_buffer(&mut self, m: ReleaseCommandBuffer) -> Result<(), End> {
        self.drop_command_buffer(m.commands)
    }

    fn record(&mut self, m: Record<'_>) -> Result<(), End> {
        self.record_command(m)
    }

    fn replay(&mut self, m: Replay) -> Result<(), End> {
        self.replay_commands(&m)
    }

    fn create_semaphore(&mut self, m: CreateSemaphore) -> Result<(), End> {
        self.make_semaphore(&m)
    }

    fn release_semaphore(&mut self, m: ReleaseSemaphore) -> Result<(), End> {
        self.drop_semaphore(m.semaphore)
    }

    fn signal_semaphores(&mut self, m: SignalSemaphores) -> Result<(), End> {
        self.enqueue_signal(&m)
    }

    fn wait_semaphores(&mut self, m: WaitSemaphores) -> Result<(), End> {
        self.enqueue_semaphore_wait(&m)
    }

    fn semaphore_payload(&mut self, m: SemaphorePayload, call: CallId<u64>) -> Result<(), End> {
        self.tell_payload(m.semaphore, call)
    }

    fn open_peers(&mut self, m: OpenPeers) -> Result<(), End> {
        self.join_group(&m)
    }

    fn connect_peer(&mut self, m: ConnectPeer) -> Result<(), End> {
        self.dial_peer(m)
    }

    fn push(&mut self, m: Push) -> Result<(), End> {
        self.push_to_peer(m)
    }

    fn expect(&mut self, m: Expect) -> Result<(), End> {
        self.expect_push(m)
    }

    fn expect_signal(&mut self, m: ExpectSignal) -> Result<(), End> {
        self.expect_signal_of(&m)
    }

    fn signal_peer(&mut self, m: SignalPeer) -> Result<(), End> {
        self.signal_to_peer(&m)
    }

    fn traffic(&mut self, _: Traffic, call: CallId<[u64; 4]>) -> Result<(), End> {
        self.tell_traffic(call)
    }

    fn ping(&mut self, m: Ping, call: CallId<()>, _tail: &mut dyn Tail) -> Result<(), End> {
        if m.answer as usize > MAX_TAIL {
            return Err(End::refused(format_args!("a ping for {} bytes", m.answer)));
        }
        self.start(Job::Ping(m.answer as usize, call));
        Ok(())
    }

    fn goodbye(&mut self, _: Goodbye) -> Result<(), End> {
        Err(End::Goodbye)
    }
}

impl Session {
    /// Leaves `job` to be run next, which does not see to anything deferred.
    pub(crate) fn start(&mut self, job: Job) {
        self.demote(|_| false);
        self.job = Some(job);
    }
}

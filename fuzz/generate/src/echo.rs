//! Decodes frames and encodes them again.

use ropeway_protocol::codec::DecodeError;
use ropeway_protocol::messages::*;
use ropeway_protocol::{
    CallId, FRAME_HEADER_LEN, FrameHeader, Receive, Serve, ServePeer, Tail, TailError, dispatch, dispatch_peer,
    encode_call, encode_note, encode_post, limits, receive,
};

/// Both ends of the protocol: each message that it is given, it encodes again.
#[derive(Debug, Default)]
pub struct Echo {
    out: Vec<u8>,
}

/// Why a frame was not echoed.
#[derive(Debug, PartialEq, Eq)]
pub enum EchoError {
    /// The bytes end before the frame does.
    Short,
    /// The frame was refused.
    Refused(DecodeError),
}

impl From<DecodeError> for EchoError {
    fn from(error: DecodeError) -> Self {
        Self::Refused(error)
    }
}

impl From<TailError> for EchoError {
    fn from(_: TailError) -> Self {
        Self::Short
    }
}

impl Echo {
    /// Decodes the first frame of `bytes` as the server does and encodes it again; also returns the frame's length.
    ///
    /// # Errors
    /// [`EchoError::Refused`] for a frame that a server refuses.
    pub fn at_server(bytes: &[u8]) -> Result<(Vec<u8>, usize), EchoError> {
        let (header, body, mut tail, len) = split(bytes, limits::MAX_BODY_TO_SERVER)?;
        let mut echo = Self::default();
        dispatch(&mut echo, header, body, &mut tail)?;
        Ok((echo.out, len))
    }

    /// Decodes the first frame of `bytes`, a note, as the client does and encodes it again; also returns the frame's
    /// length.
    ///
    /// # Errors
    /// [`EchoError::Refused`] for a frame that a client refuses.
    pub fn at_client(bytes: &[u8]) -> Result<(Vec<u8>, usize), EchoError> {
        let (header, body, mut tail, len) = split(bytes, limits::MAX_BODY_TO_CLIENT)?;
        let mut echo = Self::default();
        receive(&mut echo, header, body, &mut tail)?;
        Ok((echo.out, len))
    }

    /// Decodes the first frame of `bytes` as a peer does and encodes it again; also returns the frame's length.
    ///
    /// # Errors
    /// [`EchoError::Refused`] for a frame that a peer refuses.
    pub fn at_peer(bytes: &[u8]) -> Result<(Vec<u8>, usize), EchoError> {
        let (header, body, mut tail, len) = split(bytes, limits::MAX_BODY_TO_SERVER)?;
        let mut echo = Self::default();
        dispatch_peer(&mut echo, header, body, &mut tail)?;
        Ok((echo.out, len))
    }
}

type Split<'a> = (FrameHeader, &'a [u8], &'a [u8], usize);

fn split(bytes: &[u8], max_body: usize) -> Result<Split<'_>, EchoError> {
    let (header, rest) = bytes.split_first_chunk::<FRAME_HEADER_LEN>().ok_or(EchoError::Short)?;
    let header = FrameHeader::from_bytes(header, max_body)?;
    let payload = rest.get(..header.payload()).ok_or(EchoError::Short)?;
    let (body, tail) = payload.split_at(header.body as usize);
    Ok((header, body, tail, FRAME_HEADER_LEN + payload.len()))
}

macro_rules! echo {
    ($encode:ident: $($method:ident $message:ident $(<$lt:lifetime>)? $(+ $tail:ident)?),* $(,)?) => {$(
        fn $method $(<$lt>)? (
            &mut self, message: $message $(<$lt>)? $(, $tail: &mut dyn Tail)?
        ) -> Result<(), EchoError> {
            let bulk: Vec<u8> = None $(.or(Some($tail.read_to_vec()?)))? .unwrap_or_default();
            $encode(&mut self.out, &message, bulk.len());
            self.out.extend_from_slice(&bulk);
            Ok(())
        }
    )*};
}

macro_rules! echo_calls {
    ($($method:ident $message:ident $(<$lt:lifetime>)? $(+ $tail:ident)? -> $reply:ty),* $(,)?) => {$(
        fn $method $(<$lt>)? (
            &mut self, message: $message $(<$lt>)?, call: CallId<$reply> $(, $tail: &mut dyn Tail)?
        ) -> Result<(), EchoError> {
            let bulk: Vec<u8> = None $(.or(Some($tail.read_to_vec()?)))? .unwrap_or_default();
            encode_call(&mut self.out, call.number(), &message, bulk.len());
            self.out.extend_from_slice(&bulk);
            Ok(())
        }
    )*};
}

impl Serve for Echo {
    type Error = EchoError;

    echo! { encode_post:
        create_context CreateContext,
        release_context ReleaseContext,
        create_queue CreateQueue,
        release_queue ReleaseQueue,
        flush Flush,
        release_sub_device ReleaseSubDevice,
        create_buffer CreateBuffer + tail,
        release_memory ReleaseMemory,
        create_program_with_source CreateProgramWithSource,
        put_content PutContent + tail,
        release_program ReleaseProgram,
        create_kernel CreateKernel<'a>,
        set_kernel_arg SetKernelArg<'a>,
        release_kernel ReleaseKernel,
        clone_kernel CloneKernel,
        enqueue_kernel EnqueueKernel,
        write_buffer WriteBuffer + tail,
        write_buffer_transfer WriteBufferTransfer,
        transfer_data TransferData + tail,
        read_buffer ReadBuffer,
        copy_buffer CopyBuffer,
        fill_buffer FillBuffer<'a>,
        write_buffer_rect WriteBufferRect + tail,
        write_buffer_rect_transfer WriteBufferRectTransfer,
        read_buffer_rect ReadBufferRect,
        copy_buffer_rect CopyBufferRect,
        migrate_memory MigrateMemory,
        create_sub_buffer CreateSubBuffer,
        marker Marker,
        barrier Barrier,
        create_user_event CreateUserEvent,
        set_user_event_status SetUserEventStatus,
        release_event ReleaseEvent,
        subscribe Subscribe,
        watch_progress WatchProgress,
        create_svm_buffer CreateSvmBuffer,
        set_kernel_svm_pointers SetKernelSvmPointers,
        create_pipe CreatePipe,
        create_sampler CreateSampler,
        release_sampler ReleaseSampler,
        create_image CreateImage + tail,
        write_image WriteImage + tail,
        write_image_transfer WriteImageTransfer,
        read_image ReadImage,
        copy_image CopyImage,
        copy_image_to_buffer CopyImageToBuffer,
        copy_buffer_to_image CopyBufferToImage,
        fill_image FillImage,
        create_command_buffer CreateCommandBuffer,
        release_command_buffer ReleaseCommandBuffer,
        record Record<'a>,
        replay Replay,
        create_semaphore CreateSemaphore,
        release_semaphore ReleaseSemaphore,
        signal_semaphores SignalSemaphores,
        wait_semaphores WaitSemaphores,
        open_peers OpenPeers,
        connect_peer ConnectPeer,
        push Push,
        expect Expect,
        expect_signal ExpectSignal,
        push_content PushContent,
        expect_content ExpectContent,
        read_content ReadContent,
        signal_peer SignalPeer,
        goodbye Goodbye,
    }

    echo_calls! {
        create_program_with_binary CreateProgramWithBinary -> ropeway_protocol::types::BinaryReply,
        build_program BuildProgram<'a> -> ropeway_protocol::types::BuildReply,
        compile_program CompileProgram<'a> -> ropeway_protocol::types::BuildReply,
        link_program LinkProgram<'a> -> ropeway_protocol::types::BuildReply,
        program_binary_size ProgramBinarySize -> u64,
        program_binary ProgramBinary -> u64,
        device_timer DeviceTimer -> u64,
        create_sub_devices CreateSubDevices -> ropeway_protocol::types::SubDevices,
        get_device_info GetDeviceInfo -> Vec<u8>,
        create_program_with_il CreateProgramWithIl -> ropeway_protocol::types::BinaryReply,
        set_specialization_constant SetSpecializationConstant<'a> -> (),
        create_program_with_built_in_kernels CreateProgramWithBuiltInKernels<'a> -> ropeway_protocol::types::BuildReply,
        kernel_sub_group_info KernelSubGroupInfo -> Vec<u64>,
        suggested_local_size SuggestedLocalSize -> [u64; 3],
        launch_kernel LaunchKernel -> (),
        finish Finish -> ropeway_protocol::types::Waited,
        wait_for_events WaitForEvents -> ropeway_protocol::types::Waited,
        svm_alloc SvmAlloc -> u64,
        memory_status MemoryStatus -> (),
        sampler_status SamplerStatus -> (),
        image_formats ImageFormats -> Vec<ropeway_protocol::image::ImageFormat>,
        semaphore_payload SemaphorePayload -> u64,
        traffic Traffic -> [u64; 4],
        ping Ping + tail -> (),
    }
}

impl Receive for Echo {
    type Error = EchoError;

    echo! { encode_note:
        completed Completed,
        transfer_ready TransferReady,
        read_data ReadData + tail,
        transfer_failed TransferFailed,
        output Output + tail,
        context_error ContextError,
        progressed Progressed,
        peer_state PeerState,
        read_ends ReadEnds,
        closing Closing,
    }
}

impl ServePeer for Echo {
    type Error = EchoError;

    echo! { encode_post:
        push_data PushData + tail,
        push_failed PushFailed,
        push_ends PushEnds,
        signal Signal,
    }
}

//! The message tables: each message of the protocol, declared once.
//!
//! A row reads
//!
//! ```text
//! /// What it does.
//! post 9 method_name: MessageName { field: Type, ... } + tail;
//! call 9 method_name: MessageName<'a> { field: &'a str } -> ReplyType;
//! command 9 method_name: MessageName { field: Type, ... } => recorded VariantName;
//! ```
//!
//! `post` has no reply, `call` has one, `note` goes from the server to the client. `command` is a post whose first
//! field is `command: Command`. `+ tail` lets bulk bytes follow. `=> recorded` makes the same fields, without
//! `command`, a variant of [`Recorded`], which command buffers consist of. The method is the message's handler in
//! [`Serve`] (worker), [`Receive`] (client) or [`ServePeer`] (between workers). Each table is a macro that passes all
//! its rows to another macro, which generates an item for each message. After a change here, run `make golden`, which
//! raises [`crate::VERSION`].

use crate::codec::{DecodeError, check_header, decode};
use crate::content::ContentHash;
use crate::frame::FrameHeader;
use crate::ids::{
    CommandBufferId, ContextId, DeviceQueueId, EventId, KernelId, MemoryId, ProgramId, QueueId, SamplerId, SemaphoreId,
    SessionId, TransferId,
};
use crate::image::{ImageDescription, ImageFormat, ImagePart, SamplerDescription};
use crate::recording::Recorded;
use crate::table::{Call, CallId, Described, Kind, Note, Post, Tail, messages};
use crate::types::{
    ArgValue, BinaryFor, BinaryReply, BufferRect, BuildReply, Command, Completions, EventList, InitialContents, Moved,
    NdRange, OutputStream, Status, SubDevices, Waited,
};

/// The messages that a client may send. `$with!` is given `$first` and then all rows.
#[macro_export]
macro_rules! client_messages {
    ($with:ident! { $($first:tt)* }) => { $with! { $($first)*

    // Contexts and queues.

    /// Makes a context of devices of one native platform.
    post 1 create_context: CreateContext { context: ContextId, platform: u32, devices: Vec<u32> };
    /// Drops a context.
    post 2 release_context: ReleaseContext { context: ContextId };
    /// Ends those commands of a context's custom devices that wait for something outside, such as a camera: the program has let the
    /// context and its queues go.
    post 13 call_off: CallOff { context: ContextId };
    /// Makes a command queue; `properties` is CL_QUEUE_PROPERTIES, the hints are 0 where none is given.
    post 3 create_queue: CreateQueue {
        queue: QueueId, context: ContextId, device: u32, properties: u64, priority: u32, throttle: u32,
    };
    /// Drops a command queue.
    post 4 release_queue: ReleaseQueue { queue: QueueId };
    /// Makes a command queue on the device, for kernels that enqueue kernels; `properties` is CL_QUEUE_PROPERTIES,
    /// `size` is CL_QUEUE_SIZE if given. The answer is the size that the queue got, in bytes.
    call 68 create_device_queue: CreateDeviceQueue {
        queue: DeviceQueueId, context: ContextId, device: u32, properties: u64, size: Option<u32>,
    } -> u32;
    /// Drops a command queue on the device.
    post 69 release_device_queue: ReleaseDeviceQueue { queue: DeviceQueueId };
    /// Makes a command queue on the device the default, which `get_default_queue` returns to kernels there
    /// (clSetDefaultDeviceCommandQueue).
    call 70 set_default_device_queue: SetDefaultDeviceQueue { queue: DeviceQueueId } -> ();
    /// Hands all that was enqueued to the device (clFlush).
    post 5 flush: Flush { queue: QueueId };

    // Devices.

    /// Divides a device according to `properties` (a list that ends with 0) (clCreateSubDevices); unless `make` is set,
    /// only returns how many parts that gives. The answer has the indices that name the new devices.
    call 6 create_sub_devices: CreateSubDevices {
        platform: u32, device: u32, properties: Vec<i64>, make: bool,
    } -> SubDevices;
    /// Drops a sub-device.
    post 7 release_sub_device: ReleaseSubDevice { platform: u32, device: u32 };
    /// Returns a property that the handshake did not include (clGetDeviceInfo).
    call 8 get_device_info: GetDeviceInfo { platform: u32, device: u32, name: u32 } -> Vec<u8>;

    // Memory.

    /// Makes a buffer of `size` bytes; `flags` are the native ones, without those about host memory.
    post 10 create_buffer: CreateBuffer {
        buffer: MemoryId, context: ContextId, flags: u64, size: u64, initial: InitialContents,
    } + tail;
    /// Drops a memory object of whatever kind.
    post 11 release_memory: ReleaseMemory { memory: MemoryId };
    /// Makes a sub-buffer: `size` bytes from `origin` on of another buffer; `flags` as for buffers.
    post 12 create_sub_buffer: CreateSubBuffer {
        memory: MemoryId, parent: MemoryId, flags: u64, origin: u64, size: u64,
    };

    // Programs and kernels.

    /// Makes a program of the source with this hash; the source itself is asked for when it is built.
    post 20 create_program_with_source: CreateProgramWithSource {
        program: ProgramId, context: ContextId, source: ContentHash,
    };
    /// Makes a program of binaries, or says which of them the server lacks.
    call 21 create_program_with_binary: CreateProgramWithBinary {
        program: ProgramId, context: ContextId, binaries: Vec<BinaryFor>,
    } -> BinaryReply;
    /// A piece of a source or binary that the server asked for, from `offset` in it; `total` is the length of the
    /// whole.
    post 22 put_content: PutContent { hash: ContentHash, total: u64, offset: u64 } + tail;
    /// Builds a program and returns the outcome for these devices, or says which contents the server lacks. The first
    /// `named` devices are those that the application named for the native call; 0 means that it named none, and so
    /// all.
    call 23 build_program: BuildProgram<'a> {
        program: ProgramId, devices: Vec<u32>, named: u32, options: &'a str,
    } -> BuildReply;
    /// The length in bytes of a built program's binary for one device; 0 where there is none.
    call 36 program_binary_size: ProgramBinarySize { program: ProgramId, device: u32 } -> u64;
    /// The binary of a built program for one device. It is sent in `ReadData` notes of `transfer`; the answer is its
    /// length in bytes.
    call 24 program_binary: ProgramBinary { program: ProgramId, device: u32, transfer: TransferId } -> u64;
    /// Drops a program.
    post 25 release_program: ReleaseProgram { program: ProgramId };
    /// Makes a kernel of a built program.
    post 26 create_kernel: CreateKernel<'a> { kernel: KernelId, program: ProgramId, name: &'a str };
    /// Sets one argument.
    post 27 set_kernel_arg: SetKernelArg<'a> { kernel: KernelId, index: u32, #[serde(borrow)] value: ArgValue<'a> };
    /// Compiles a program's source, to be linked later, or says which contents the server lacks (clCompileProgram).
    call 29 compile_program: CompileProgram<'a> {
        program: ProgramId, devices: Vec<u32>, named: u32, options: &'a str,
    } -> BuildReply;
    /// Makes a program of compiled ones (clLinkProgram).
    call 30 link_program: LinkProgram<'a> {
        program: ProgramId, context: ContextId, devices: Vec<u32>, named: u32, inputs: Vec<ProgramId>, options: &'a str,
    } -> BuildReply;
    /// Drops a kernel.
    post 28 release_kernel: ReleaseKernel { kernel: KernelId };
    /// Makes a program of the intermediate language with this hash, or says that the server lacks it.
    call 31 create_program_with_il: CreateProgramWithIl {
        program: ProgramId, context: ContextId, il: ContentHash,
    } -> BinaryReply;
    /// Sets a specialization constant of a program that was made of intermediate language.
    call 32 set_specialization_constant: SetSpecializationConstant<'a> {
        program: ProgramId, id: u32, value: &'a [u8],
    } -> ();
    /// Makes a program of kernels that the devices have built in; `names` has semicolons between them.
    call 33 create_program_with_built_in_kernels: CreateProgramWithBuiltInKernels<'a> {
        program: ProgramId, context: ContextId, devices: Vec<u32>, names: &'a str,
    } -> BuildReply;
    /// Makes a copy of a kernel, its arguments included.
    post 34 clone_kernel: CloneKernel { kernel: KernelId, source: KernelId };
    /// clGetKernelSubGroupInfo: at most `room` values of the answer, which may depend on `input`.
    call 35 kernel_sub_group_info: KernelSubGroupInfo {
        kernel: KernelId, device: u32, name: u32, input: Vec<u64>, room: u32,
    } -> Vec<u64>;
    /// The local size that the device would choose for a launch (clGetKernelSuggestedLocalWorkSizeKHR).
    call 37 suggested_local_size: SuggestedLocalSize { queue: QueueId, kernel: KernelId, range: NdRange } -> [u64; 3];
    /// Launches a kernel as [`EnqueueKernel`] does, where the client cannot tell whether the device will take it.
    call 38 launch_kernel: LaunchKernel { command: Command, kernel: KernelId, range: NdRange } -> ();

    // Commands.

    /// Launches a kernel.
    command 40 enqueue_kernel: EnqueueKernel { kernel: KernelId, range: NdRange } => recorded Kernel;
    /// Writes the tail into a buffer at `offset` (eager: at most `limits::MAX_EAGER` bytes).
    command 41 write_buffer: WriteBuffer { buffer: MemoryId, offset: u64 } + tail;
    /// Writes `size` bytes into a buffer at `offset`; the client sends them once the server asks with `TransferReady`.
    command 42 write_buffer_transfer: WriteBufferTransfer {
        buffer: MemoryId, offset: u64, size: u64, transfer: TransferId,
    };
    /// Bytes of a transfer to the server, from `offset` in it. They come in order.
    post 43 transfer_data: TransferData { transfer: TransferId, offset: u64 } + tail;
    /// The client has copied bytes of a transfer as the first `TransferInPlace` for it has asked that it has not answered so.
    post 49 transfer_copied: TransferCopied { transfer: TransferId };
    /// Where a buffer, which is no part of another, begins in the arena of the memory that both ends share. The device uses
    /// it there: what the client writes, while no command uses the buffer, is in it. `CL_INVALID_OPERATION` if it is
    /// elsewhere.
    call 39 locate_buffer: LocateBuffer { buffer: MemoryId } -> u64;
    /// Reads `size` bytes of a buffer at `offset`; they come in `ReadData` notes.
    command 44 read_buffer: ReadBuffer {
        buffer: MemoryId, offset: u64, size: u64, transfer: TransferId,
    };
    /// Where a context's slots ([`crate::slots`]) begin in the arena of the memory that both ends share. `CL_INVALID_OPERATION` if it
    /// has none.
    call 55 open_slots: OpenSlots { context: ContextId } -> u64;
    /// Writes the first `size` bytes of a slot into a buffer at `offset`. The slot is the server's until it clears its number.
    command 56 write_slot: WriteSlot { buffer: MemoryId, offset: u64, size: u64, slot: u32 };
    /// Reads `size` bytes of a buffer at `offset` into a slot; `SlotRead` says that they are there. The slot is the server's as for
    /// `WriteSlot`.
    command 57 read_slot: ReadSlot { buffer: MemoryId, offset: u64, size: u64, slot: u32, transfer: TransferId };
    /// Copies between buffers.
    command 45 copy_buffer: CopyBuffer {
        source: MemoryId, target: MemoryId, source_offset: u64, target_offset: u64, size: u64,
    } => recorded CopyBuffer;
    /// Fills part of a buffer with a pattern of 1 to 128 bytes.
    command 46 fill_buffer: FillBuffer<'a> {
        buffer: MemoryId, pattern: &'a [u8], offset: u64, size: u64,
    } => recorded FillBuffer;
    /// A marker; with an empty wait list, it waits for all commands before it.
    command 47 marker: Marker {};
    /// A barrier.
    command 48 barrier: Barrier {};
    /// Writes the tail into a rectangular region of a buffer (eager: at most `limits::MAX_EAGER` bytes).
    command 50 write_buffer_rect: WriteBufferRect { buffer: MemoryId, rect: BufferRect } + tail;
    /// Writes a rectangular region of a buffer; the client sends its bytes once the server asks with `TransferReady`.
    command 51 write_buffer_rect_transfer: WriteBufferRectTransfer {
        buffer: MemoryId, rect: BufferRect, transfer: TransferId,
    };
    /// Reads a rectangular region of a buffer; its bytes come in `ReadData` notes.
    command 52 read_buffer_rect: ReadBufferRect {
        buffer: MemoryId, rect: BufferRect, transfer: TransferId,
    };
    /// Copies between rectangular regions of buffers, which are of the same size.
    command 53 copy_buffer_rect: CopyBufferRect {
        source: MemoryId, target: MemoryId, source_rect: BufferRect, target_rect: BufferRect,
    } => recorded CopyBufferRect;
    /// Moves memory objects to the queue's device or to its host; `flags` is CL_MIGRATE_MEM_OBJECT_*.
    command 54 migrate_memory: MigrateMemory { memory: Vec<MemoryId>, flags: u64 };

    // Events.

    /// Makes a user event.
    post 60 create_user_event: CreateUserEvent { event: EventId, context: ContextId };
    /// Sets a user event's status: 0 or an error.
    post 61 set_user_event_status: SetUserEventStatus { event: EventId, status: Status };
    /// The client no longer wants to hear of this event.
    post 62 release_event: ReleaseEvent { event: EventId };
    /// Asks for a `Completed` note as soon as the event has ended.
    post 63 subscribe: Subscribe { event: EventId };
    /// Asks for `Progressed` notes when the event's command is submitted and when it runs.
    post 66 watch_progress: WatchProgress { event: EventId };
    /// The time that a device's clock shows (clGetDeviceAndHostTimer), in nanoseconds.
    call 67 device_timer: DeviceTimer { platform: u32, device: u32 } -> u64;
    /// Waits until a queue is empty (clFinish).
    call 64 finish: Finish { queue: QueueId } -> Waited;
    /// Waits for all of these events (clWaitForEvents).
    call 65 wait_for_events: WaitForEvents { events: EventList } -> Waited;

    // Shared virtual memory. Once allocated, it counts as a buffer in all commands and in `ReleaseMemory`.

    /// Allocates shared virtual memory (clSVMAlloc). The answer is its address: a multiple of `page` and of
    /// `alignment`; nothing else uses the bytes from its end to the next multiple of `page`. The client uses the same
    /// addresses. If they are occupied on the client, it keeps the allocation and makes another `attempt`, listing what
    /// is `taken` on its side: pairs of first address and length. Where `LocateBuffer` says that it is in the arena, up to
    /// the end of its last page, the client may put that in the place of its own pages.
    call 130 svm_alloc: SvmAlloc {
        memory: MemoryId, context: ContextId, flags: u64, size: u64, alignment: u32, page: u32, attempt: u32,
        taken: Vec<(u64, u64)>,
    } -> u64;
    /// Makes a buffer whose storage is `size` bytes of shared virtual memory at `offset` (clCreateBuffer with
    /// CL_MEM_USE_HOST_PTR).
    post 131 create_svm_buffer: CreateSvmBuffer {
        memory: MemoryId, svm: MemoryId, flags: u64, offset: u64, size: u64,
    };
    /// Says which shared virtual memory a kernel uses beyond its arguments (CL_KERNEL_EXEC_INFO_SVM_PTRS): each address
    /// as an allocation and an offset in it.
    post 132 set_kernel_svm_pointers: SetKernelSvmPointers { kernel: KernelId, pointers: Vec<(MemoryId, u64)> };

    // Images and samplers.

    /// Makes a sampler.
    post 100 create_sampler: CreateSampler { sampler: SamplerId, context: ContextId, like: SamplerDescription };
    /// Drops a sampler.
    post 101 release_sampler: ReleaseSampler { sampler: SamplerId };
    /// Whether a sampler could be made.
    call 112 sampler_status: SamplerStatus { sampler: SamplerId } -> ();
    /// The supported formats for images of a type (CL_MEM_OBJECT_IMAGE…) with these flags (clGetSupportedImageFormats).
    call 102 image_formats: ImageFormats { context: ContextId, flags: u64, image_type: u32 } -> Vec<ImageFormat>;
    /// Makes an image in memory of its own, or in that of a buffer or another image; `flags` are the native ones,
    /// without those about host memory.
    post 103 create_image: CreateImage {
        image: MemoryId, context: ContextId, flags: u64, like: ImageDescription, of: Option<MemoryId>,
        initial: InitialContents,
    } + tail;
    /// Whether a memory object could be made.
    call 104 memory_status: MemoryStatus { memory: MemoryId } -> ();
    /// Writes the tail, the packed bytes of all elements, into part of an image (eager: at most `limits::MAX_EAGER`
    /// bytes).
    command 105 write_image: WriteImage { image: MemoryId, part: ImagePart } + tail;
    /// Writes part of an image; the client sends its bytes once the server asks with `TransferReady`.
    command 106 write_image_transfer: WriteImageTransfer {
        image: MemoryId, part: ImagePart, transfer: TransferId,
    };
    /// Reads part of an image; the packed bytes of its elements come in `ReadData` notes.
    command 107 read_image: ReadImage { image: MemoryId, part: ImagePart, transfer: TransferId };
    /// Copies between images of the same format.
    command 108 copy_image: CopyImage {
        source: MemoryId, target: MemoryId, from: [u64; 3], to: [u64; 3], region: [u64; 3],
    } => recorded CopyImage;
    /// Copies part of an image to a buffer, packed.
    command 109 copy_image_to_buffer: CopyImageToBuffer {
        source: MemoryId, part: ImagePart, target: MemoryId, offset: u64,
    } => recorded CopyImageToBuffer;
    /// Copies packed elements from a buffer into part of an image.
    command 110 copy_buffer_to_image: CopyBufferToImage {
        source: MemoryId, offset: u64, target: MemoryId, part: ImagePart,
    } => recorded CopyBufferToImage;
    /// Fills part of an image with a color: four numbers of 32 bits, of the kind that its format asks for.
    command 111 fill_image: FillImage { image: MemoryId, part: ImagePart, color: [u32; 4] } => recorded FillImage;

    // Command buffers.

    /// Makes a command buffer, whose commands are for queues like this one.
    post 150 create_command_buffer: CreateCommandBuffer { commands: CommandBufferId, queue: QueueId };
    /// Drops a command buffer, and with it all that it records.
    post 151 release_command_buffer: ReleaseCommandBuffer { commands: CommandBufferId };
    /// Adds a command that runs once the commands in `waits` have ended, each given by its position in the order of
    /// recording.
    post 152 record: Record<'a> { commands: CommandBufferId, waits: Vec<u32>, #[serde(borrow)] action: Recorded<'a> };
    /// Carries out all that was recorded.
    command 153 replay: Replay { commands: CommandBufferId };

    // Semaphores.

    /// Makes a binary semaphore, which is not signaled.
    post 170 create_semaphore: CreateSemaphore { semaphore: SemaphoreId, context: ContextId };
    /// Drops a semaphore.
    post 171 release_semaphore: ReleaseSemaphore { semaphore: SemaphoreId };
    /// Signals semaphores.
    command 172 signal_semaphores: SignalSemaphores { semaphores: Vec<SemaphoreId> };
    /// Waits until semaphores are signaled, and resets them.
    command 173 wait_semaphores: WaitSemaphores { semaphores: Vec<SemaphoreId> };
    /// Answers whether a semaphore is signaled (1) or not (0).
    call 174 semaphore_payload: SemaphorePayload { semaphore: SemaphoreId } -> u64;

    // Pipes.

    /// Makes a pipe of at most `max_packets` packets of `packet_size` bytes.
    post 133 create_pipe: CreatePipe { memory: MemoryId, context: ContextId, flags: u64, packet_size: u32, max_packets: u32 };

    // Other sessions of the same client: peers.

    /// Makes this session a member of a group: whoever proves that it knows the secret may be its peer. Sent once,
    /// before all other messages about peers.
    post 190 open_peers: OpenPeers { secret: [u8; 32] };
    /// Connects to another session, at the first of its server's addresses that answers. `PeerState` reports the
    /// outcome.
    post 191 connect_peer: ConnectPeer { peer: SessionId, addresses: Vec<String> };
    /// Sends part of a memory object to a peer once the events in `after` have ended; the peer has been told to expect
    /// it. `event` ends when all is sent.
    post 192 push: Push {
        memory: MemoryId, what: Moved, after: EventList, event: Option<EventId>, peer: SessionId, transfer: TransferId,
    };
    /// Receives what a peer pushes into part of a memory object; `event` is a new one, which ends when all has come.
    /// `queue` is the queue whose next command waits for it, given only if no command before that one waits for
    /// anything after it.
    post 193 expect: Expect {
        memory: MemoryId, what: Moved, event: EventId, peer: SessionId, transfer: TransferId, queue: Option<QueueId>,
    };
    /// Makes an event that ends, with the same status, when a peer signals it.
    post 194 expect_signal: ExpectSignal { event: EventId, context: ContextId, peer: SessionId };
    /// Signals a peer's event `remote` as soon as `event` has ended.
    post 195 signal_peer: SignalPeer { event: EventId, peer: SessionId, remote: EventId };
    /// The client has lost this peer: this session treats it as lost, too, whatever it knows of the peer itself.
    /// Everything expected from the peer fails.
    post 197 lose_peer: LosePeer { peer: SessionId };
    /// Bytes that this session has received from its client and sent to it, received from its peers and sent to them.
    call 196 traffic: Traffic {} -> [u64; 4];

    // Contents of which only the first bytes are meaningful: the first 8 bytes of another buffer, `content`, say how
    // many, and are read when the command's turn has come.

    /// As `Push` for ranges, but sends no more than the meaningful bytes; the peer was told with `ExpectContent`.
    /// `PushEnds` says where they end.
    post 210 push_content: PushContent {
        memory: MemoryId, ranges: Vec<(u64, u64)>, content: MemoryId, after: EventList, peer: SessionId, transfer: TransferId,
    };
    /// As `Expect` for ranges, of which possibly only the first bytes come.
    post 211 expect_content: ExpectContent {
        memory: MemoryId, ranges: Vec<(u64, u64)>, event: EventId, peer: SessionId, transfer: TransferId,
    };
    /// As `ReadBuffer`, but sends no more than the meaningful bytes; `ReadEnds` follows if that is not all.
    command 212 read_content: ReadContent {
        buffer: MemoryId, offset: u64, size: u64, content: MemoryId, transfer: TransferId,
    };

    // The link.

    /// Answered at once, with a tail of as many bytes as asked for: measures latency and bandwidth.
    call 80 ping: Ping { answer: u32 } + tail -> ();
    /// The client ends the session deliberately.
    post 81 goodbye: Goodbye {};
    } };
}

/// The messages that a server may send unasked. `$with!` is given `$first` and then all rows.
#[macro_export]
macro_rules! server_notes {
    ($with:ident! { $($first:tt)* }) => { $with! { $($first)*

    /// Commands have ended.
    note 1 completed: Completed { completions: Completions };
    /// The server has space for this transfer's bytes: send them.
    note 2 transfer_ready: TransferReady { transfer: TransferId };
    /// This transfer's bytes from `offset` on, `size` of them, are or belong at `at` in the arena of the memory that both
    /// ends share: the client copies them from there or to there, and then says so with `TransferCopied`. They come in order.
    note 10 transfer_in_place: TransferInPlace { transfer: TransferId, offset: u64, at: u64, size: u64 };
    /// All bytes of a read are in the slot that it named.
    note 11 slot_read: SlotRead { transfer: TransferId };
    /// Bytes of a transfer to the client, from `offset` in it. They come in order; the transfer is over with its last
    /// byte.
    note 3 read_data: ReadData { transfer: TransferId, offset: u64 } + tail;
    /// A transfer, in either direction, failed: its command ended with this status.
    note 4 transfer_failed: TransferFailed { transfer: TransferId, status: Status };
    /// Output of kernels or of the native implementation.
    note 5 output: Output { stream: OutputStream } + tail;
    /// A text that the native implementation gave to its context's callback (pfn_notify of clCreateContext).
    note 6 context_error: ContextError { context: ContextId, text: String };
    /// A command has advanced, but not ended: CL_SUBMITTED or CL_RUNNING.
    note 66 progressed: Progressed { event: EventId, status: Status };
    /// Whether a peer can be reached. Sent once for each `ConnectPeer`, and again when a connection is lost; `text`
    /// tells a person why it cannot.
    note 8 peer_state: PeerState { peer: SessionId, connected: bool, text: String };
    /// A read ends after `size` bytes; no more will come.
    note 213 read_ends: ReadEnds { transfer: TransferId, size: u64 };
    /// Something that a person should know about the session, which goes on: one sentence.
    note 9 notice: Notice { text: String };
    /// The server ends the session, and why: one sentence for a person.
    note 7 closing: Closing { reason: String };
    } };
}

/// The messages that sessions of one client send to each other. `$with!` is given `$first` and then all rows.
#[macro_export]
macro_rules! peer_messages {
    ($with:ident! { $($first:tt)* }) => { $with! { $($first)*

    /// Bytes of a push, from `offset` in it. A piece of ranges has `limits::CHUNK` bytes, except for the last one, and
    /// begins at a multiple of that; the pieces come in any order, by any of the connections between two sessions.
    /// Pieces of an image are no longer than that, and come in order.
    post 1 push_data: PushData { transfer: TransferId, offset: u64 } + tail;
    /// As `push_data`, of ranges: these `size` bytes are at `at` in the arena of the memory that both ends share, in the
    /// half and at the beginning of a slot of the sender's, who leaves them there until `push_taken`.
    post 7 push_in_place: PushInPlace { transfer: TransferId, offset: u64, at: u64, size: u64 };
    /// The bytes at `at` in the arena have been taken, or are not wanted: the receiver may use the slot again.
    post 8 push_taken: PushTaken { at: u64 };
    /// A push failed: something that it had to wait for ended with this status.
    post 2 push_failed: PushFailed { transfer: TransferId, status: Status };
    /// A push whose length was not certain in advance has `size` bytes.
    post 4 push_ends: PushEnds { transfer: TransferId, size: u64 };
    /// An event of the receiver's has ended.
    post 3 signal: Signal { event: EventId, status: Status };
    /// The sender has handled so many bytes of whole messages that came by this connection 0, from its very beginning
    /// on, however often it was made again. These messages themselves do not count. One is the first message on a
    /// connection that is made again.
    post 5 received: Received { bytes: u64 };
    /// The sender reads no more of a connection for bulk data, the one that the session called `stream` which made it:
    /// the receiver of this message, if `yours`. It has handled so many bytes of whole messages that came by it.
    post 6 ended: Ended { stream: u64, yours: bool, bytes: u64 };
    } };
}

client_messages! { messages! {
    /// The server's side: a handler for each message that a client may send.
    trait Serve;
    /// Decodes one frame from a client and hands it to its handler.
    ///
    /// # Errors
    /// A [`DecodeError`] for a frame that is not well formed, or what the handler returned.
    fn dispatch;
    /// The messages that a client may send, in the order of declaration.
    const MESSAGES;
} }

server_notes! { messages! {
    /// The client's side: a handler for each note that a server may send.
    trait Receive;
    /// Decodes one note from a server and hands it to its handler. Replies are the caller's business.
    ///
    /// # Errors
    /// A [`DecodeError`] for a frame that is not well formed, or what the handler returned.
    fn receive;
    /// The notes that a server may send unasked, in the order of declaration.
    const NOTES;
} }

peer_messages! { messages! {
    /// A peer's side: a handler for each message that sessions of one client send to each other.
    trait ServePeer;
    /// Decodes one frame from a peer and hands it to its handler.
    ///
    /// # Errors
    /// A [`DecodeError`] for a frame that is not well formed, or what the handler returned.
    fn dispatch_peer;
    /// The messages that a peer may send, in the order of declaration.
    const PEER_MESSAGES;
} }

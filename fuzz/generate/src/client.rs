//! A client that knows what it has: its frames name objects that exist and ranges that fit, as a real client's do, so
//! that a session gets further than its first random number.

use std::collections::HashMap;

use ropeway_protocol::ids::{ContextId, EventId, KernelId, MemoryId, QueueId, TransferId};
use ropeway_protocol::limits::MAX_EAGER;
use ropeway_protocol::messages::*;
use ropeway_protocol::types::{ArgValue, Command, EventList, InitialContents, NdRange};
use ropeway_protocol::{Call, Post, encode_call, encode_post};

use crate::session::BUFFER;
use crate::{Entropy, MESSAGES};

/// Most events that are held at one time; the oldest is released then.
const HELD: usize = 24;

/// The client's objects, and its messages so far.
pub struct Client<'a, 'de> {
    entropy: &'a mut Entropy<'de>,
    out: Vec<u8>,
    /// Frames to send when the server asks for them.
    transfers: HashMap<TransferId, Vec<u8>>,
    /// Buffers with their sizes.
    buffers: Vec<(MemoryId, u64)>,
    /// Events of commands and of the user.
    events: Vec<EventId>,
    /// User events that have no status yet.
    undecided: Vec<EventId>,
    last_id: u64,
    last_call: u32,
}

impl<'a, 'de> Client<'a, 'de> {
    /// One that has said what [`crate::session::opening`] and [`crate::session::kernels`] say.
    pub fn new(entropy: &'a mut Entropy<'de>) -> Self {
        let buffers = (1..=3).map(|id| (MemoryId(id), BUFFER)).collect();
        let (events, undecided) = (Vec::new(), Vec::new());
        Self {
            entropy,
            out: Vec::new(),
            transfers: HashMap::new(),
            buffers,
            events,
            undecided,
            last_id: 100,
            last_call: 100,
        }
    }

    /// Makes moves until the entropy is used up. Gives what is said unasked, and what is said when a transfer is ready.
    pub fn run(mut self) -> (Vec<u8>, HashMap<TransferId, Vec<u8>>) {
        while !self.entropy.is_empty() {
            self.step();
        }
        // Nothing waits for ever, so that what was enqueued is carried out.
        while let Some(event) = self.undecided.pop() {
            self.post(&SetUserEventStatus { event, status: 0 }, &[]);
        }
        (self.out, self.transfers)
    }

    fn post<P: Post>(&mut self, post: &P, tail: &[u8]) {
        encode_post(&mut self.out, post, tail.len());
        self.out.extend_from_slice(tail);
    }

    fn call<C: Call>(&mut self, call: &C) {
        self.last_call += 1;
        encode_call(&mut self.out, self.last_call, call, 0);
    }

    fn id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// A number below `end`, which is not 0.
    fn below(&mut self, end: u64) -> u64 {
        (u64::from(self.entropy.byte()) << 8 | u64::from(self.entropy.byte())) % end
    }

    fn one_of<T: Copy>(&mut self, list: &[T]) -> Option<T> {
        if list.is_empty() { None } else { list.get(self.below(list.len() as u64) as usize).copied() }
    }

    fn queue(&mut self) -> QueueId {
        QueueId(1 + self.below(2))
    }

    fn waits(&mut self) -> EventList {
        let count = match self.entropy.byte() {
            0..160 => 0,
            160..240 => 1,
            _ => 3,
        };
        let events = self.events.clone();
        (0..count).filter_map(|_| self.one_of(&events)).collect()
    }

    fn command(&mut self) -> Command {
        if self.events.len() > HELD {
            let event = self.events.remove(0);
            // A status set later must not find it gone.
            if self.undecided.contains(&event) {
                self.events.push(event);
            } else {
                self.post(&ReleaseEvent { event }, &[]);
            }
        }
        let (queue, waits) = (self.queue(), self.waits());
        let event = (self.entropy.byte() % 2 == 1).then(|| EventId(self.id()));
        self.events.extend(event);
        Command { queue, event, waits }
    }

    /// A buffer, and an offset and a size that fit into it.
    fn range(&mut self) -> Option<(MemoryId, u64, u64)> {
        let buffers = self.buffers.clone();
        let (buffer, size) = self.one_of(&buffers)?;
        let offset = self.below(size);
        Some((buffer, offset, 1 + self.below(size - offset)))
    }

    fn bytes(&mut self, len: u64) -> Vec<u8> {
        vec![self.entropy.byte(); usize::try_from(len).unwrap_or(0)]
    }

    /// The frames that carry `bytes` of a transfer.
    fn data(&mut self, transfer: TransferId, bytes: &[u8]) -> Vec<u8> {
        let piece = 1 + self.below(60_000) as usize + bytes.len() / 8;
        let (mut out, mut offset) = (Vec::new(), 0);
        for piece in bytes.chunks(piece) {
            encode_post(&mut out, &TransferData { transfer, offset }, piece.len());
            out.extend_from_slice(piece);
            offset += piece.len() as u64;
        }
        out
    }

    fn step(&mut self) {
        match self.entropy.byte() {
            0..20 => self.create_buffer(),
            20..25 => {
                // The first three stay, for the kernels.
                if self.buffers.len() > 3 {
                    let (buffer, _) = self.buffers.swap_remove(3);
                    self.post(&ReleaseMemory { memory: buffer }, &[]);
                }
            }
            25..65 => self.write(),
            65..100 => self.read(),
            100..115 => self.copy(),
            115..130 => self.fill(),
            130..155 => self.launch(),
            155..165 => {
                let command = self.command();
                self.post(&Marker { command }, &[]);
            }
            165..170 => {
                let command = self.command();
                self.post(&Barrier { command }, &[]);
            }
            170..180 => {
                let event = EventId(self.id());
                self.events.push(event);
                self.undecided.push(event);
                self.post(&CreateUserEvent { event, context: ContextId(1) }, &[]);
            }
            180..192 => {
                if let Some(event) = self.undecided.pop() {
                    // PoCL 3.1 aborts its process when a user event that commands wait for fails.
                    self.post(&SetUserEventStatus { event, status: 0 }, &[]);
                }
            }
            192..205 => {
                let events = self.events.clone();
                if let Some(event) = self.one_of(&events) {
                    self.post(&Subscribe { event }, &[]);
                }
            }
            205..215 => {
                let queue = self.queue();
                self.post(&Flush { queue }, &[]);
            }
            215..230 => {
                let queue = self.queue();
                self.call(&Finish { queue });
            }
            230..238 => {
                let events = self.waits();
                if events != EventList::default() {
                    self.call(&WaitForEvents { events });
                }
            }
            238..245 => self.call(&Ping { answer: 100 }),
            245..255 => self.kernels(),
            // Seldom, something that nobody expects: it ends most sessions.
            255 if self.entropy.byte() > 32 => {}
            _ => {
                let pick = usize::from(self.entropy.byte()) % MESSAGES.len();
                MESSAGES[pick].frame(self.entropy, &mut self.out);
            }
        }
    }

    fn create_buffer(&mut self) {
        let large = self.entropy.byte() > 240;
        let size = 1 + if large { 40 * self.below(30_000) } else { self.below(5000) };
        let (buffer, context, flags) = (MemoryId(self.id()), ContextId(1), 1);
        let bytes = self.bytes(size);
        match self.entropy.byte() % 4 {
            // Shared virtual memory is one, too, but for kernels: they do not look where it ends.
            3 => {
                let (alignment, attempt) = (1 << self.below(9), self.below(3) as u32);
                // Where programs have something, which is below 2^47.
                let taken = vec![(self.below(1 << 15) << 32, self.below(1 << 16) << 12)];
                self.call(&SvmAlloc { memory: buffer, context, flags, size, alignment, page: 4096, attempt, taken });
            }
            0 => {
                let initial = InitialContents::Undefined;
                self.post(&CreateBuffer { buffer, context, flags, size, initial }, &[]);
            }
            1 if bytes.len() <= MAX_EAGER => {
                self.post(&CreateBuffer { buffer, context, flags, size, initial: InitialContents::Tail }, &bytes);
            }
            _ => {
                let transfer = TransferId(self.id());
                let initial = InitialContents::Transfer(transfer);
                self.post(&CreateBuffer { buffer, context, flags, size, initial }, &[]);
                let data = self.data(transfer, &bytes);
                self.out.extend_from_slice(&data);
            }
        }
        self.buffers.push((buffer, size));
    }

    fn write(&mut self) {
        let Some((buffer, offset, size)) = self.range() else { return };
        let (command, bytes) = (self.command(), self.bytes(size));
        if bytes.len() <= MAX_EAGER && self.entropy.byte() < 160 {
            self.post(&WriteBuffer { command, buffer, offset }, &bytes);
        } else {
            let transfer = TransferId(self.id());
            self.post(&WriteBufferTransfer { command, buffer, offset, size, transfer }, &[]);
            let data = self.data(transfer, &bytes);
            self.transfers.insert(transfer, data);
        }
    }

    fn read(&mut self) {
        let Some((buffer, offset, size)) = self.range() else { return };
        let (command, transfer) = (self.command(), TransferId(self.id()));
        self.post(&ReadBuffer { command, buffer, offset, size, transfer }, &[]);
    }

    fn copy(&mut self) {
        let (Some((source, source_offset, a)), Some((target, target_offset, b))) = (self.range(), self.range()) else {
            return;
        };
        let command = self.command();
        self.post(&CopyBuffer { command, source, target, source_offset, target_offset, size: a.min(b) }, &[]);
    }

    fn fill(&mut self) {
        let Some((buffer, offset, size)) = self.range() else { return };
        let command = self.command();
        let pattern = [self.entropy.byte(); 16];
        let len = 1 << self.below(5);
        let (offset, size) = (offset / len * len, size / len * len);
        self.post(&FillBuffer { command, buffer, pattern: &pattern[..len as usize], offset, size }, &[]);
    }

    fn launch(&mut self) {
        let kernel = KernelId(1 + self.below(3));
        let value = match self.entropy.byte() % 8 {
            0 => ArgValue::Memory(None),
            1 => ArgValue::Local(self.below(4096)),
            2 => ArgValue::Bytes(&[1, 2, 3, 4]),
            _ => ArgValue::Memory(Some(MemoryId(1 + self.below(3)))),
        };
        let index = self.below(3) as u32;
        self.post(&SetKernelArg { kernel, index, value }, &[]);
        let command = self.command();
        let dims = 1 + self.below(3) as u8;
        let mut global = [0; 3];
        global[..usize::from(dims)].fill(1 + self.below(8));
        self.post(&EnqueueKernel { command, kernel, range: NdRange { dims, offset: None, global, local: None } }, &[]);
    }

    fn kernels(&mut self) {
        let (kernel, program) = (KernelId(self.id()), ropeway_protocol::ids::ProgramId(1));
        self.post(&CreateKernel { kernel, program, name: "scale" }, &[]);
        self.post(&ReleaseKernel { kernel }, &[]);
    }
}

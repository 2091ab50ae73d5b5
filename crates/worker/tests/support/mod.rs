//! A worker in a process of its own, and a minimal client that talks to it.
#![allow(dead_code, reason = "each test file uses its part of it")]

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::IoSlice;
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ropeway_protocol::handshake::{Hello, PREAMBLE_LEN, Preamble, Purpose, Welcome, decode_welcome};
use ropeway_protocol::ids::{ContextId, EventId, KernelId, MemoryId, ProgramId, QueueId, TransferId};
use ropeway_protocol::messages::*;
use ropeway_protocol::types::{self, *};
use ropeway_protocol::{
    Call, DecodeError, FRAME_HEADER_LEN, FrameHeader, Post, Receive, Tail, TailError, content::ContentHash, decode,
    encode_call, encode_post, limits, receive,
};
use ropeway_transport::{Arena, Link, Room, Sender, SharedFiles, Side};
use ropeway_worker::{WorkerOptions, handoff, run};

/// The environment variable that tells the test program to be a worker, and with which options.
const WORKER: &str = "ROPEWAY_TEST_WORKER";

/// The limit of staged bytes for a worker that was started with "staged".
pub const STAGED: usize = 64 << 20;

/// The body of the test that is the worker process when started as one; see [`Worker::start`].
pub fn be_worker() {
    let Ok(how) = std::env::var(WORKER) else { return };
    let control = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let options = WorkerOptions {
        cache_folder: None,
        memory_quota: how.contains("quota").then_some(64 << 20),
        staged_bytes: if how.contains("staged") { STAGED } else { limits::MAX_STAGED },
        host: "testhost".into(),
        force_pinned: how.contains("pinned"),
        ..WorkerOptions::default()
    };
    std::process::exit(run(control, options).into());
}

/// A warm worker without a client.
pub struct Worker {
    pub process: Child,
    control: OwnedFd,
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Worker {
    /// Starts this test program once more, as a worker; it has a test `worker_process` that calls [`be_worker`].
    pub fn start(how: &str) -> Self {
        let (control, theirs) = handoff::pair().unwrap();
        let process = Command::new(std::env::current_exe().unwrap())
            .args(["worker_process", "--exact", "--nocapture"])
            .env(WORKER, format!("worker {how}"))
            .stdin(theirs)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        handoff::await_ready(control.as_fd()).unwrap();
        Self { process, control }
    }

    /// The numbers of its threads.
    pub fn threads(&self) -> Vec<u32> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.process.id())).unwrap();
        let mut threads: Vec<_> =
            tasks.map(|task| task.unwrap().file_name().into_string().unwrap().parse().unwrap()).collect();
        threads.sort_unstable();
        threads
    }

    /// How often each of its threads of this name has gone to sleep.
    pub fn sleeps(&self, name: &str) -> Vec<u64> {
        let folder = format!("/proc/{}/task", self.process.id());
        let about = |thread: u32, file: &str| std::fs::read_to_string(format!("{folder}/{thread}/{file}")).unwrap();
        let named = self.threads().into_iter().filter(|thread| about(*thread, "comm").trim() == name);
        let count = |thread| {
            let status = about(thread, "status");
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            line.unwrap().trim().parse().unwrap()
        };
        named.map(count).collect()
    }

    /// Gives it a client over a local socket.
    pub fn connect(&self) -> Client {
        let (ours, theirs) = UnixStream::pair().unwrap();
        self.hand_over(ours.into(), theirs.into())
    }

    /// Gives it a client that shares memory with it; the file is that memory.
    pub fn connect_sharing(&self) -> (Client, File) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut ours, mut theirs) = (Link::from_fd(ours.into()).unwrap(), Link::from_fd(theirs.into()).unwrap());
        ours.offer_memory(b"h", Room::WithArena).unwrap();
        assert_eq!(theirs.try_recv_hello(&mut [0]).unwrap(), 1);
        let memory = theirs.memory().unwrap().0[0].try_clone_to_owned().unwrap();
        let client = self.serve(ours, &theirs);
        assert!(client.link.shares_memory());
        (client, memory.into())
    }

    /// Gives it a client that passes `file` as memory to share.
    pub fn connect_passing(&self, file: OwnedFd) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let SharedFiles { memory, bells: [server, client] } = SharedFiles::around(file).unwrap();
        let link = Link::from_fd(theirs.into()).unwrap();
        self.send(&link.with_memory([memory, server, client], Side::Passed).unwrap());
        ours
    }

    /// Gives it a client over loopback TCP.
    pub fn connect_tcp(&self) -> Client {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (theirs, _) = listener.accept().unwrap();
        self.hand_over(ours.into(), theirs.into())
    }

    fn hand_over(&self, ours: OwnedFd, theirs: OwnedFd) -> Client {
        self.serve(Link::from_fd(ours).unwrap(), &Link::from_fd(theirs).unwrap())
    }

    fn send(&self, link: &Link) {
        let hello = Hello {
            features: 0,
            purpose: Purpose::Commands,
            release: "0.0.0".into(),
            program: "test".into(),
            pid: std::process::id(),
            credential: vec![],
            devices: Vec::new(),
        };
        handoff::send(self.control.as_fd(), link, (&hello, &handoff::Allowance::default()), handoff::Files::default())
            .unwrap();
    }

    fn serve(&self, link: Link, theirs: &Link) -> Client {
        self.send(theirs);
        let mut head = [0; PREAMBLE_LEN];
        link.recv_exact(&mut head).unwrap();
        let preamble = Preamble::from_bytes(&head).unwrap();
        let mut body = vec![0; preamble.len as usize];
        link.recv_exact(&mut body).unwrap();
        let welcome = decode_welcome(preamble, &body).unwrap();
        let link = link.take_up_memory().unwrap();
        Client { link, welcome, out: vec![], input: vec![], at: 0, calls: 0, notes: Notes::default() }
    }

    /// Waits until the process has ended, and says whether it did so in time.
    pub fn ended_within(&mut self, limit: Duration) -> bool {
        let start = std::time::Instant::now();
        while start.elapsed() < limit {
            if self.process.try_wait().unwrap().is_some() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }
}

/// Notes that the worker sent unasked.
#[derive(Default)]
pub struct Notes {
    pub done: HashMap<EventId, EventDone>,
    pub ready: Vec<TransferId>,
    /// What is to be copied of transfers.
    pub lent: HashMap<TransferId, VecDeque<TransferInPlace>>,
    /// Reads whose bytes are in their slots.
    pub slots_read: Vec<TransferId>,
    pub data: HashMap<TransferId, Vec<u8>>,
    pub failed: HashMap<TransferId, Status>,
    /// Memory for one transfer's bytes, and how many of them have arrived.
    pub into: Option<(TransferId, Vec<u8>)>,
    pub into_filled: usize,
    pub printed: String,
    pub context_errors: Vec<String>,
    pub peers: Vec<PeerState>,
    pub notices: Vec<String>,
    pub closing: Option<String>,
}

#[derive(Debug)]
pub enum Wrong {
    Decode(DecodeError),
    Tail,
}

impl From<DecodeError> for Wrong {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

impl From<TailError> for Wrong {
    fn from(_: TailError) -> Self {
        Self::Tail
    }
}

impl Receive for Notes {
    type Error = Wrong;

    fn completed(&mut self, m: Completed) -> Result<(), Wrong> {
        self.note_done(&m.completions);
        Ok(())
    }
    fn progressed(&mut self, _: Progressed) -> Result<(), Wrong> {
        Ok(())
    }
    fn transfer_ready(&mut self, m: TransferReady) -> Result<(), Wrong> {
        self.ready.push(m.transfer);
        Ok(())
    }
    fn transfer_in_place(&mut self, m: TransferInPlace) -> Result<(), Wrong> {
        self.lent.entry(m.transfer).or_default().push_back(m);
        Ok(())
    }
    fn slot_read(&mut self, m: SlotRead) -> Result<(), Wrong> {
        self.slots_read.push(m.transfer);
        Ok(())
    }
    fn read_data(&mut self, m: ReadData, tail: &mut dyn Tail) -> Result<(), Wrong> {
        if let Some((_, into)) = self.into.as_mut().filter(|(transfer, _)| *transfer == m.transfer) {
            let start = m.offset as usize;
            let end = start + tail.remaining();
            self.into_filled += tail.remaining();
            return Ok(tail.read_exact(&mut into[start..end])?);
        }
        let data = self.data.entry(m.transfer).or_default();
        assert_eq!(data.len() as u64, m.offset, "pieces come in order");
        let start = data.len();
        data.resize(start + tail.remaining(), 0);
        Ok(tail.read_exact(&mut data[start..])?)
    }
    fn transfer_failed(&mut self, m: TransferFailed) -> Result<(), Wrong> {
        self.failed.insert(m.transfer, m.status);
        Ok(())
    }
    fn output(&mut self, _: Output, tail: &mut dyn Tail) -> Result<(), Wrong> {
        self.printed.push_str(&String::from_utf8(tail.read_to_vec()?).unwrap());
        Ok(())
    }
    fn context_error(&mut self, m: ContextError) -> Result<(), Wrong> {
        self.context_errors.push(m.text);
        Ok(())
    }
    fn read_ends(&mut self, _: ReadEnds) -> Result<(), Wrong> {
        Ok(())
    }

    fn peer_state(&mut self, m: PeerState) -> Result<(), Wrong> {
        self.peers.push(m);
        Ok(())
    }
    fn notice(&mut self, m: Notice) -> Result<(), Wrong> {
        self.notices.push(m.text);
        Ok(())
    }
    fn closing(&mut self, m: Closing) -> Result<(), Wrong> {
        self.closing = Some(m.reason);
        Ok(())
    }
}

impl Notes {
    fn note_done(&mut self, completions: &Completions) {
        for done in &completions.done {
            assert!(self.done.insert(done.event, *done).is_none(), "{} was told twice", done.event);
        }
    }
}

/// A client.
pub struct Client {
    pub link: Link,
    pub welcome: Welcome,
    out: Vec<u8>,
    input: Vec<u8>,
    at: usize,
    calls: u32,
    pub notes: Notes,
}

struct LinkTail<'a>(&'a Link, usize, &'a [u8]);

impl Tail for LinkTail<'_> {
    fn remaining(&self) -> usize {
        self.1 + self.2.len()
    }
    fn read_exact(&mut self, into: &mut [u8]) -> Result<(), TailError> {
        let near = into.len().min(self.2.len());
        self.2.read_exact(&mut into[..near]).map_err(|_| TailError)?;
        self.1 = self.1.checked_sub(into.len() - near).ok_or(TailError)?;
        self.0.recv_exact(&mut into[near..]).map_err(|_| TailError)
    }
}

impl Client {
    pub fn post<P: Post>(&mut self, post: &P) -> &mut Self {
        encode_post(&mut self.out, post, 0);
        self
    }

    pub fn post_tail<P: Post>(&mut self, post: &P, tail: &[u8]) -> &mut Self {
        encode_post(&mut self.out, post, tail.len());
        self.out.extend_from_slice(tail);
        self
    }

    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.out.extend_from_slice(bytes);
        self
    }

    pub fn send(&mut self) {
        // If the worker has closed the connection, the next read shows it.
        let _ = self.link.send_all(&mut [IoSlice::new(&self.out)]);
        self.out.clear();
    }

    /// Sends a frame at once, without copying its tail.
    pub fn send_tail<P: Post>(&mut self, post: &P, tail: &[u8]) {
        encode_post(&mut self.out, post, tail.len());
        self.link.send_all(&mut [IoSlice::new(&self.out), IoSlice::new(tail)]).unwrap();
        self.out.clear();
    }

    pub fn call<C: Call>(&mut self, call: &C) -> Result<C::Reply, Status> {
        self.calls += 1;
        encode_call(&mut self.out, self.calls, call, 0);
        self.send();
        loop {
            if let Some((number, body)) = self.frame().expect("the worker answers") {
                assert_eq!(number, self.calls);
                return decode(&body).unwrap();
            }
        }
    }

    /// Sends a call, and leaves the answer to [`Client::answers`]. Gives its number.
    pub fn ask<C: Call>(&mut self, call: &C) -> u32 {
        self.calls += 1;
        encode_call(&mut self.out, self.calls, call, 0);
        self.calls
    }

    /// Reads the answers to these calls, in whatever order they come, and gives them in the order of the calls.
    pub fn answers<R: serde::de::DeserializeOwned>(&mut self, calls: &[u32]) -> Vec<Result<R, Status>> {
        self.send();
        let mut answers = HashMap::new();
        while answers.len() < calls.len() {
            if let Some((number, body)) = self.frame().expect("the worker answers") {
                assert!(calls.contains(&number), "an answer to {number}, which nobody waits for");
                assert!(answers.insert(number, decode(&body).unwrap()).is_none(), "{number} is answered twice");
            }
        }
        calls.iter().map(|number| answers.remove(number).unwrap()).collect()
    }

    /// Reads frames until `enough` returns true.
    pub fn until(&mut self, enough: impl Fn(&Notes) -> bool) {
        self.send();
        while !enough(&self.notes) {
            assert!(self.frame().expect("the worker goes on").is_none(), "a reply that nobody waits for");
        }
    }

    /// Reads until the reply to the call of this number.
    pub fn until_reply(&mut self, call: u32) {
        self.send();
        while !matches!(self.frame().expect("the worker answers"), Some((number, _)) if number == call) {}
    }

    /// Reads until the worker closes the connection.
    pub fn until_closed(&mut self) {
        self.send();
        while self.frame().is_ok() {}
    }

    /// Reads a frame; a reply is returned, a note taken in.
    fn frame(&mut self) -> Result<Option<(u32, Vec<u8>)>, std::io::Error> {
        let eof = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        let (header, body_end) = loop {
            let buffered = &self.input[self.at..];
            if let Some(head) = buffered.first_chunk::<FRAME_HEADER_LEN>() {
                let header = FrameHeader::from_bytes(head, limits::MAX_BODY_TO_CLIENT).unwrap();
                let end = FRAME_HEADER_LEN + header.body as usize;
                if buffered.len() >= end {
                    break (header, end);
                }
            }
            self.input.drain(..self.at);
            self.at = 0;
            let start = self.input.len();
            self.input.resize(start + 4096, 0);
            let n = self.link.recv(&mut self.input[start..])?;
            self.input.truncate(start + n);
            if n == 0 {
                return Err(eof());
            }
        };
        let frame = &self.input[self.at..];
        let body = &frame[FRAME_HEADER_LEN..body_end];
        let tail_end = (body_end + header.tail as usize).min(frame.len());
        let near = &frame[body_end..tail_end];
        let mut tail = LinkTail(&self.link, header.tail as usize - near.len(), near);
        self.at += tail_end;
        if header.opcode == ropeway_protocol::frame::REPLY {
            tail.read_to_vec().map_err(|_| eof())?;
            return Ok(Some((header.call, body.to_vec())));
        }
        match receive(&mut self.notes, header, body, &mut tail) {
            Ok(()) => Ok(None),
            Err(Wrong::Tail) => Err(eof()),
            Err(error) => panic!("{error:?}"),
        }
    }

    /// clFinish.
    pub fn finish(&mut self, queue: u64) -> Status {
        let waited = self.call(&Finish { queue: QueueId(queue) }).unwrap();
        self.notes.note_done(&waited.completions);
        waited.status
    }

    /// clWaitForEvents.
    pub fn wait(&mut self, events: &[u64]) -> Status {
        let events = events.iter().map(|e| EventId(*e)).collect();
        let waited = self.call(&WaitForEvents { events }).unwrap();
        self.notes.note_done(&waited.completions);
        waited.status
    }

    /// Context 1 of the first device, and queue 1.
    pub fn begin(&mut self, properties: u64) -> &mut Self {
        let context = ContextId(1);
        self.post(&CreateContext { context, platform: 0, devices: vec![0] });
        self.post(&CreateQueue { queue: QueueId(1), context, device: 0, properties, priority: 0, throttle: 0 })
    }

    pub fn buffer(&mut self, id: u64, size: u64) -> &mut Self {
        let (buffer, context) = (MemoryId(id), ContextId(1));
        self.post(&CreateBuffer { buffer, context, flags: 1, size, initial: InitialContents::Undefined })
    }

    /// Builds program `id`, sending the source when asked for it.
    pub fn build(&mut self, id: u64, source: &str) -> Built {
        let program = ProgramId(id);
        let hash = ContentHash::of(source.as_bytes());
        self.post(&CreateProgramWithSource { program, context: ContextId(1), source: hash });
        let build = BuildProgram { program, devices: vec![0], named: 1, options: "" };
        match self.call(&build).unwrap() {
            BuildReply::Built(built) => built,
            BuildReply::NeedContent(missing) => {
                assert_eq!(missing, [hash]);
                let content = source.as_bytes();
                self.post_tail(&PutContent { hash, total: content.len() as u64, offset: 0 }, content);
                match self.call(&build).unwrap() {
                    BuildReply::Built(built) => built,
                    BuildReply::NeedContent(_) => panic!("it was sent"),
                }
            }
        }
    }

    pub fn kernel(&mut self, id: u64, program: u64, name: &str) -> &mut Self {
        self.post(&CreateKernel { kernel: KernelId(id), program: ProgramId(program), name })
    }

    pub fn arg(&mut self, kernel: u64, index: u32, value: ArgValue<'_>) -> &mut Self {
        self.post(&SetKernelArg { kernel: KernelId(kernel), index, value })
    }

    pub fn launch(&mut self, command: types::Command, kernel: u64, items: u64) -> &mut Self {
        let range = NdRange { dims: 1, offset: None, global: [items, 0, 0], local: None };
        self.post(&EnqueueKernel { command, kernel: KernelId(kernel), range })
    }

    /// A blocking read.
    pub fn read(&mut self, queue: u64, buffer: u64, offset: u64, size: u64, transfer: u64) -> Vec<u8> {
        let (command, transfer) = (on(queue), TransferId(transfer));
        self.post(&ReadBuffer { command, buffer: MemoryId(buffer), offset, size, transfer });
        self.until(|notes| {
            notes.data.get(&transfer).is_some_and(|data| data.len() as u64 == size)
                || notes.failed.contains_key(&transfer)
                || notes.lent.contains_key(&transfer)
        });
        if !self.notes.lent.contains_key(&transfer) {
            return self.notes.data.remove(&transfer).unwrap_or_default();
        }
        let mut bytes = vec![0; size as usize];
        self.copy_lent(transfer, |arena, at, range| assert!(arena.copy_out(at, &mut bytes[range])), size);
        bytes
    }

    /// Sends all of a transfer's bytes.
    pub fn send_data(&mut self, transfer: u64, data: &[u8]) {
        let transfer = TransferId(transfer);
        let mut offset = 0;
        for piece in data.chunks(limits::CHUNK) {
            self.send_tail(&TransferData { transfer, offset }, piece);
            offset += piece.len() as u64;
        }
    }

    /// A large write; returns when its bytes are sent.
    pub fn write_large(&mut self, command: types::Command, buffer: u64, transfer: u64, data: &[u8]) {
        let (buffer, size) = (MemoryId(buffer), data.len() as u64);
        self.post(&WriteBufferTransfer { command, buffer, offset: 0, size, transfer: TransferId(transfer) });
        let id = TransferId(transfer);
        self.until(|notes| notes.ready.contains(&id) || notes.lent.contains_key(&id));
        if !self.notes.lent.contains_key(&id) {
            return self.send_data(transfer, data);
        }
        self.copy_lent(id, |arena, at, range| assert!(arena.copy_in(at, &data[range])), size);
    }

    /// Copies all `size` bytes of a transfer, piece by piece as they are lent.
    pub fn copy_lent(&mut self, transfer: TransferId, mut copy: impl FnMut(&Arena, u64, Range<usize>), size: u64) {
        let mut done = 0;
        while done < size {
            self.until(|notes| notes.lent.get(&transfer).is_some_and(|lent| !lent.is_empty()));
            let piece = self.notes.lent.get_mut(&transfer).unwrap().pop_front().unwrap();
            assert_eq!(piece.offset, done, "pieces come in order");
            done += piece.size;
            copy(self.link.arena().unwrap(), piece.at, piece.offset as usize..done as usize);
            self.post(&TransferCopied { transfer });
            self.send();
        }
        self.notes.lent.remove(&transfer);
    }
}

/// A command without event and wait list.
pub fn on(queue: u64) -> types::Command {
    command(queue, None, &[])
}

/// A command.
pub fn command(queue: u64, event: Option<u64>, waits: &[u64]) -> types::Command {
    let waits = waits.iter().map(|e| EventId(*e)).collect();
    types::Command { queue: QueueId(queue), event: event.map(EventId), waits }
}

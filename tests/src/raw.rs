//! A client of a few lines that speaks the protocol itself: for what no OpenCL program can be made to send.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use ropeway_protocol::content::ContentHash;
use ropeway_protocol::frame::REPLY;
use ropeway_protocol::handshake::{
    HandshakeError, Hello, Joined, Opening, PREAMBLE_LEN, Preamble, Purpose, Welcome, decode_joined, decode_welcome,
    encode_opening, peer_proof,
};
use ropeway_protocol::ids::{ContextId, EventId, KernelId, MemoryId, ProgramId, QueueId, SessionId, TransferId};
use ropeway_protocol::messages::*;
use ropeway_protocol::types::{
    ArgValue, BuildReply, Command, Completions, EventDone, InitialContents, NdRange, Status,
};
use ropeway_protocol::{
    Call, DecodeError, FRAME_HEADER_LEN, FrameHeader, Post, Receive, Tail, decode, encode_call, encode_post, limits,
    receive,
};

/// The longest time that a session may take for an answer.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Notes that the server has sent unasked.
#[derive(Default)]
pub struct Notes {
    /// Events that have ended.
    pub done: HashMap<EventId, EventDone>,
    /// Bytes that were read.
    pub data: HashMap<TransferId, Vec<u8>>,
    /// Notes about peers.
    pub peers: Vec<PeerState>,
    /// How many notes there were.
    pub count: usize,
    /// Why the session has ended.
    pub closing: Option<String>,
}

impl Notes {
    fn add(&mut self, completions: &Completions) {
        self.done.extend(completions.done.iter().map(|done| (done.event, *done)));
    }
}

impl Receive for Notes {
    type Error = DecodeError;

    fn completed(&mut self, m: Completed) -> Result<(), DecodeError> {
        self.add(&m.completions);
        Ok(())
    }
    fn progressed(&mut self, _: Progressed) -> Result<(), DecodeError> {
        Ok(())
    }
    fn transfer_ready(&mut self, _: TransferReady) -> Result<(), DecodeError> {
        Ok(())
    }
    fn transfer_in_place(&mut self, m: TransferInPlace) -> Result<(), DecodeError> {
        panic!("{} is to be copied, and no memory is shared", m.transfer);
    }
    fn slot_read(&mut self, m: SlotRead) -> Result<(), DecodeError> {
        panic!("{} is in a slot, and no memory is shared", m.transfer);
    }
    fn read_data(&mut self, m: ReadData, tail: &mut dyn Tail) -> Result<(), DecodeError> {
        let bytes = tail.read_to_vec().map_err(|_| DecodeError::Body)?;
        self.data.entry(m.transfer).or_default().extend(bytes);
        Ok(())
    }
    fn transfer_failed(&mut self, m: TransferFailed) -> Result<(), DecodeError> {
        panic!("{} failed with {}", m.transfer, m.status);
    }
    fn output(&mut self, _: Output, _: &mut dyn Tail) -> Result<(), DecodeError> {
        Ok(())
    }
    fn context_error(&mut self, _: ContextError) -> Result<(), DecodeError> {
        Ok(())
    }
    fn read_ends(&mut self, _: ReadEnds) -> Result<(), DecodeError> {
        Ok(())
    }

    fn peer_state(&mut self, m: PeerState) -> Result<(), DecodeError> {
        self.peers.push(m);
        Ok(())
    }
    fn notice(&mut self, _: Notice) -> Result<(), DecodeError> {
        Ok(())
    }
    fn closing(&mut self, m: Closing) -> Result<(), DecodeError> {
        self.closing = Some(m.reason);
        Ok(())
    }
}

/// A session.
pub struct Client {
    stream: TcpStream,
    /// The server's welcome.
    pub welcome: Welcome,
    /// And since.
    pub notes: Notes,
    out: Vec<u8>,
    calls: u32,
    address: String,
}

/// A client's first bytes, in plain text.
pub fn hello(purpose: Purpose) -> Vec<u8> {
    hello_with(purpose, 0)
}

/// The same, with these features.
pub fn hello_with(purpose: Purpose, features: u64) -> Vec<u8> {
    let (release, program) = ("0".into(), "raw".into());
    encode_opening(
        Opening::Hello,
        &Hello { features, purpose, release, program, pid: 1, credential: Vec::new(), devices: Vec::new() },
    )
}

fn connect(address: &str, hello: &[u8]) -> std::io::Result<(TcpStream, Preamble, Vec<u8>)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(hello)?;
    let (preamble, body) = opening(&mut stream)?;
    Ok((stream, preamble, body))
}

/// What a server answers to a hello, once it does more than have its client wait.
///
/// # Errors
/// The connection has ended.
///
/// # Panics
/// When it is no answer of a server.
pub fn opening(stream: &mut TcpStream) -> std::io::Result<(Preamble, Vec<u8>)> {
    loop {
        let mut head = [0; PREAMBLE_LEN];
        stream.read_exact(&mut head)?;
        let preamble = Preamble::from_bytes(&head).expect("a server answers");
        let mut body = vec![0; preamble.len as usize];
        stream.read_exact(&mut body)?;
        if preamble.opening != Opening::Waiting {
            return Ok((preamble, body));
        }
    }
}

/// Connects to session `to` as peer `from`, with the proof that goes with `secret`.
///
/// # Errors
/// The server, or the session, has refused.
pub fn join(
    address: &str,
    (from, to): (SessionId, SessionId),
    secret: &[u8; 32],
    link: u8,
) -> Result<TcpStream, HandshakeError> {
    let proof = peer_proof(secret, from, to, link);
    let (stream, Joined { proof }) = knock(address, peer_purpose((from, to), link, proof))?;
    assert_eq!(proof, peer_proof(secret, to, from, link), "the session proves that it knows the secret, too");
    Ok(stream)
}

/// As [`join`], but makes a broken connection 0 again, which [`join`] has made.
///
/// # Errors
/// As [`join`].
pub fn resume(
    address: &str,
    (from, session): (SessionId, SessionId),
    secret: &[u8; 32],
) -> Result<TcpStream, HandshakeError> {
    let proof = peer_proof(secret, from, session, 0);
    let purpose = Purpose::Peer { session, from, link: 0, stream: STREAM, resumes: true, proof };
    Ok(knock(address, purpose)?.0)
}

/// The name that [`join`] gives to all connections.
const STREAM: u64 = 1;

/// The purpose of a new connection between sessions.
pub fn peer_purpose((from, session): (SessionId, SessionId), link: u8, proof: [u8; 32]) -> Purpose {
    Purpose::Peer { session, from, link, stream: STREAM, resumes: false, proof }
}

/// Connects for this purpose, which is a peer's.
///
/// # Errors
/// The server, or the session, has refused.
pub fn knock(address: &str, purpose: Purpose) -> Result<(TcpStream, Joined), HandshakeError> {
    let (stream, preamble, body) = connect(address, &hello(purpose)).map_err(|_| HandshakeError::Malformed)?;
    Ok((stream, decode_joined(preamble, &body)?))
}

/// Connects for this purpose, and sends these bytes without waiting for an answer. Gives all that comes back until the
/// connection ends.
pub fn blurt(address: &str, purpose: Purpose, bytes: &[u8]) -> Vec<u8> {
    let mut answer = Vec::new();
    let mut talk = || {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(&[&hello(purpose), bytes].concat())?;
        stream.read_to_end(&mut answer)
    };
    // A connection that is ended with bytes unread ends with an error.
    let ended = talk();
    assert!(!ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock), "the connection is not ended");
    answer
}

/// A message as it travels.
pub fn frame<P: Post>(message: &P, tail: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_post(&mut bytes, message, tail.len());
    bytes.extend_from_slice(tail);
    bytes
}

/// A command on a queue that waits for these events and has this one.
pub fn command(queue: u64, waits: &[u64], event: Option<u64>) -> Command {
    let waits = waits.iter().map(|id| EventId(*id)).collect();
    Command { queue: QueueId(queue), event: event.map(EventId), waits }
}

impl Client {
    /// A new session of the server at `host:port`.
    pub fn connect(address: &str) -> Self {
        Self::connect_with(address, 0)
    }

    /// The same, of a client that offers these features.
    pub fn connect_with(address: &str, features: u64) -> Self {
        let hello = hello_with(Purpose::Commands, features);
        let (stream, preamble, body) = connect(address, &hello).expect("a server answers");
        let welcome = decode_welcome(preamble, &body).expect("it serves");
        let (notes, out) = Default::default();
        Self { stream, welcome, notes, out, calls: 0, address: address.to_owned() }
    }

    /// The session's name.
    pub fn id(&self) -> SessionId {
        self.welcome.session
    }

    /// Where its server is.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Adds a message to those that are sent next.
    pub fn post<P: Post>(&mut self, message: &P) -> &mut Self {
        encode_post(&mut self.out, message, 0);
        self
    }

    /// Adds a message with a tail.
    pub fn post_tail<P: Post>(&mut self, message: &P, tail: &[u8]) -> &mut Self {
        encode_post(&mut self.out, message, tail.len());
        self.out.extend_from_slice(tail);
        self
    }

    /// Sends what was added.
    pub fn send(&mut self) -> &mut Self {
        // A session that has ended is noticed where it is read.
        let _ = self.stream.write_all(&self.out);
        self.out.clear();
        self
    }

    /// Asks, and waits for the answer.
    pub fn call<C: Call>(&mut self, call: &C) -> Result<C::Reply, Status> {
        self.calls += 1;
        encode_call(&mut self.out, self.calls, call, 0);
        self.send();
        loop {
            if let Some(body) = self.read_frame().expect("the session goes on") {
                return decode(&body).expect("an answer of its kind");
            }
        }
    }

    /// Reads frames until `enough` returns true.
    pub fn until(&mut self, what: &str, enough: impl Fn(&Notes) -> bool) -> &mut Self {
        self.send();
        let begin = Instant::now();
        while !enough(&self.notes) {
            assert!(begin.elapsed() < PATIENCE, "waited in vain for {what}");
            let frame = self.read_frame();
            assert!(frame.unwrap_or_else(|error| panic!("waiting for {what}: {error}")).is_none());
        }
        self
    }

    /// Reads until the session ends, and says why.
    pub fn until_closed(&mut self) -> Option<String> {
        self.send();
        while self.read_frame().is_ok() {}
        self.notes.closing.take()
    }

    fn read_frame(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let mut head = [0; FRAME_HEADER_LEN];
        self.stream.read_exact(&mut head)?;
        let header = FrameHeader::from_bytes(&head, limits::MAX_BODY_TO_CLIENT).expect("a frame");
        let mut payload = vec![0; header.payload()];
        self.stream.read_exact(&mut payload)?;
        let (body, mut tail) = payload.split_at(header.body as usize);
        if header.opcode == REPLY {
            return Ok(Some(body.to_vec()));
        }
        self.notes.count += 1;
        receive(&mut self.notes, header, body, &mut tail).expect("a note");
        Ok(None)
    }

    /// Context 1 of the first device, and an out-of-order queue 1.
    pub fn begin(&mut self) -> &mut Self {
        let context = ContextId(1);
        self.post(&CreateContext { context, platform: 0, devices: vec![0] });
        self.post(&CreateQueue { queue: QueueId(1), context, device: 0, properties: 1, priority: 0, throttle: 0 })
    }

    /// A buffer with these contents.
    pub fn buffer(&mut self, id: u64, contents: &[u8]) -> &mut Self {
        let (buffer, context, size) = (MemoryId(id), ContextId(1), contents.len() as u64);
        self.post(&CreateBuffer { buffer, context, flags: 1, size, initial: InitialContents::Undefined });
        for (index, piece) in contents.chunks(limits::MAX_EAGER).enumerate() {
            let offset = (index * limits::MAX_EAGER) as u64;
            self.post_tail(&WriteBuffer { command: command(1, &[], None), buffer, offset }, piece);
        }
        let waited = self.call(&Finish { queue: QueueId(1) }).expect("it can be made");
        self.notes.add(&waited.completions);
        self
    }

    /// All of a buffer, once these events have ended.
    pub fn read(&mut self, buffer: u64, size: usize, waits: &[u64]) -> Vec<u8> {
        let transfer = TransferId(1 << 40 | buffer);
        let (command, buffer) = (command(1, waits, None), MemoryId(buffer));
        self.post(&ReadBuffer { command, buffer, offset: 0, size: size as u64, transfer });
        self.until("data", |notes| notes.data.get(&transfer).is_some_and(|data| data.len() == size));
        self.notes.data.remove(&transfer).unwrap_or_default()
    }

    /// Kernel `id`, of this source's program, with a buffer as its first argument.
    pub fn kernel(&mut self, id: u64, source: &str, name: &str, buffer: u64) -> &mut Self {
        let (program, hash) = (ProgramId(id), ContentHash::of(source.as_bytes()));
        self.post(&CreateProgramWithSource { program, context: ContextId(1), source: hash });
        let build = BuildProgram { program, devices: vec![0], named: 1, options: "" };
        if let BuildReply::NeedContent(_) = self.call(&build).expect("a build") {
            let total = source.len() as u64;
            self.post_tail(&PutContent { hash, total, offset: 0 }, source.as_bytes());
            self.call(&build).expect("a build");
        }
        let kernel = KernelId(id);
        self.post(&CreateKernel { kernel, program, name });
        self.post(&SetKernelArg { kernel, index: 0, value: ArgValue::Memory(Some(MemoryId(buffer))) })
    }

    /// A launch of one work-item.
    pub fn launch(&mut self, kernel: u64, waits: &[u64], event: Option<u64>) -> &mut Self {
        let range = NdRange { dims: 1, offset: None, global: [1, 0, 0], local: None };
        self.post(&EnqueueKernel { command: command(1, waits, event), kernel: KernelId(kernel), range })
    }

    /// Waits until an event has ended; its status.
    pub fn end_of(&mut self, event: u64) -> Status {
        let event = EventId(event);
        self.post(&Subscribe { event });
        self.until("an event's end", |notes| notes.done.contains_key(&event));
        self.notes.done.get(&event).map_or(i32::MIN, |done| done.status)
    }
}

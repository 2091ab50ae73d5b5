//! Servers that speak the protocol but have no OpenCL.
#![allow(dead_code, reason = "each test program uses some of it")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use ropeway_client::command::Order;
use ropeway_client::config::{Config, Presentation};
use ropeway_client::context::Context;
use ropeway_client::host::{HostTarget, addresses};
use ropeway_client::log;
use ropeway_client::queue::Queue;
use ropeway_client::servers::System;
use ropeway_protocol::encode_note;
use ropeway_protocol::frame::{FRAME_HEADER_LEN, FrameHeader, REPLY};
use ropeway_protocol::handshake::{DeviceInfo, Opening, PREAMBLE_LEN, PlatformInfo, Preamble, Welcome, encode_opening};
use ropeway_protocol::ids::SessionId;
use ropeway_protocol::limits::MAX_BODY_TO_SERVER;
use ropeway_protocol::types::{Completions, EventDone, Waited};

/// One message from the client.
pub struct Frame {
    pub header: FrameHeader,
    pub body: Vec<u8>,
    pub tail: Vec<u8>,
}

/// The server's end of a link.
pub struct Peer(pub TcpStream);

impl Peer {
    /// The next message; `None` when the client is gone.
    pub fn next(&mut self) -> Option<Frame> {
        let mut header = [0; FRAME_HEADER_LEN];
        self.0.read_exact(&mut header).ok()?;
        let header = FrameHeader::from_bytes(&header, MAX_BODY_TO_SERVER).unwrap();
        let (mut body, mut tail) = (vec![0; header.body as usize], vec![0; header.tail as usize]);
        self.0.read_exact(&mut body).ok()?;
        self.0.read_exact(&mut tail).ok()?;
        Some(Frame { header, body, tail })
    }

    /// Answers a wait.
    pub fn waited(&mut self, call: u32, done: Vec<EventDone>) {
        let reply: Result<Waited, i32> = Ok(Waited { status: 0, completions: Completions { done } });
        let body = to_bytes(&reply);
        let header = FrameHeader { opcode: REPLY, call, body: body.len() as u32, tail: 0 };
        self.0.write_all(&header.to_bytes()).unwrap();
        self.0.write_all(&body).unwrap();
    }

    /// Tells the client something.
    pub fn note<N: ropeway_protocol::Note>(&mut self, note: &N, tail: &[u8]) {
        let mut out = Vec::new();
        encode_note(&mut out, note, tail.len());
        out.extend_from_slice(tail);
        self.0.write_all(&out).unwrap();
    }
}

/// The body of a value, by way of a note's encoder, which is the only public one.
pub fn to_bytes<T: serde::Serialize>(value: &T) -> Vec<u8> {
    let mut out = encode_opening(Opening::Welcome, value);
    out.drain(..PREAMBLE_LEN);
    out
}

/// The behaviour of a stand-in server in its session.
pub type Serve = Box<dyn FnOnce(Peer) + Send>;

/// Connects to stand-in servers.
pub struct Connected {
    pub system: Arc<System>,
    /// A context of the only device of each server, in their order.
    pub context: Arc<Context>,
    /// A queue of each device.
    pub queues: Vec<Arc<Queue>>,
    pub servers: Vec<JoinHandle<()>>,
}

/// One server for each of `sessions`.
pub fn connect_all(sessions: Vec<Serve>) -> Connected {
    log::set_level(log::Level::Off);
    let start = |(at, serve): (usize, Serve)| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (address.to_string().parse().unwrap(), std::thread::spawn(move || greet(&listener, at as u64 + 1, serve)))
    };
    let (addresses, servers) = sessions.into_iter().enumerate().map(start).unzip();
    let config = Config {
        servers: addresses,
        presentation: Presentation::One,
        connect_timeout: Duration::from_secs(5),
        ..Config::default()
    };
    let system = System::connect(&config);
    let context = Context::new(system.platforms()[0].devices(), None).unwrap();
    let queues = context.devices().iter().map(|device| Queue::new(&context, device, 0).unwrap()).collect();
    Connected { system, context, queues, servers }
}

/// Welcomes a client to a session of this name.
fn greet(listener: &TcpListener, session: u64, serve: Serve) {
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_nodelay(true).unwrap();
    let mut preamble = [0; PREAMBLE_LEN];
    stream.read_exact(&mut preamble).unwrap();
    let preamble = Preamble::from_bytes(&preamble).unwrap();
    stream.read_exact(&mut vec![0; preamble.len as usize]).unwrap();
    let device = DeviceInfo { properties: vec![] };
    let welcome = Welcome {
        features: 0,
        session: SessionId(session),
        release: "test".into(),
        host: "here".into(),
        little_endian: true,
        peer_address: None,
        peer_key: None,
        lanes_secret: [0; 32],
        platforms: vec![PlatformInfo { properties: vec![], devices: vec![device] }],
    };
    stream.write_all(&encode_opening(Opening::Welcome, &welcome)).unwrap();
    serve(Peer(stream));
}

/// A server whose session is `serve`, and a queue of its one device.
pub fn connect(serve: impl FnOnce(Peer) + Send + 'static) -> (Arc<Context>, Arc<Queue>, JoinHandle<()>) {
    let mut connected = connect_all(vec![Box::new(serve)]);
    (connected.context, connected.queues.remove(0), connected.servers.remove(0))
}

pub const ALONE: Order<'static> = Order { waits: &[], wants_event: false };
pub const WITH_EVENT: Order<'static> = Order { waits: &[], wants_event: true };

/// Memory that a test looks at afterwards.
pub struct Shared(Arc<Mutex<Vec<u8>>>, Vec<u8>);

impl HostTarget for Shared {
    fn size(&self) -> usize {
        self.1.len()
    }

    fn span(&self) -> std::ops::Range<usize> {
        addresses(&self.1)
    }

    fn run(&mut self, at: usize) -> &mut [u8] {
        self.1.get_mut(at..).unwrap_or_default()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        *self.0.lock().unwrap() = std::mem::take(&mut self.1);
    }
}

/// Memory to read into, and where its bytes are once nobody writes them any more.
pub fn target(len: usize) -> (Arc<Mutex<Vec<u8>>>, Box<Shared>) {
    let bytes = Arc::new(Mutex::new(Vec::new()));
    (Arc::clone(&bytes), Box::new(Shared(bytes, vec![0; len])))
}

//! Bytes at the server's port that no client of ours would send: that connection ends, nothing else is touched.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use ropeway_protocol::frame::FrameHeader;
use ropeway_protocol::handshake::{Hello, MAGIC, Opening, PREAMBLE_LEN, Preamble, Purpose, encode_opening};
use ropeway_protocol::ids::{ContextId, EventId, MemoryId, QueueId};
use ropeway_protocol::messages::{
    CreateBuffer, CreateContext, CreateQueue, CreateUserEvent, Finish, Marker, Ping, ReleaseMemory,
};
use ropeway_protocol::types::{Command, InitialContents};
use ropeway_protocol::{VERSION, encode_call, encode_post};
use ropeway_tests::places::c_program;
use ropeway_tests::program::{Program, Running};
use ropeway_tests::server::Server;
use ropeway_tests::{fake, process};

/// More than the handshake's limit of five seconds.
const PATIENCE: Duration = Duration::from_secs(12);

/// A server with a session that computes before and after the attack.
struct Victim {
    server: Server,
    session: Running,
    computed: u32,
    memory: u64,
}

impl Victim {
    fn new() -> Self {
        let server = Server::start();
        let mut session = Program::remote(c_program("held"), server.url()).start();
        assert_eq!(session.line(), "ready");
        let memory = process::resident(server.pid());
        let mut this = Self { server, session, computed: 0, memory };
        this.is_unharmed();
        this
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.server.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// The other session computes as before, new ones come in, and the server's memory has not grown.
    fn is_unharmed(&mut self) {
        self.computed += 1;
        self.session.say("");
        assert_eq!(self.session.line(), self.computed.to_string());
        Program::remote(c_program("vector_add"), self.server.url()).run().success();
        let grown = process::resident(self.server.pid()).saturating_sub(self.memory);
        assert!(grown < 4 << 20, "the server's memory grew by {grown} bytes");
    }
}

/// Waits until the server ends the connection.
fn expect_end(stream: &mut TcpStream) {
    let begin = Instant::now();
    let mut bytes = [0; 65536];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => return,
            Err(error) => panic!("the connection still stands after {:?}: {error}", begin.elapsed()),
        }
    }
}

/// Sends bytes; the server may end the connection at any of them.
fn send(stream: &mut TcpStream, bytes: &[u8]) {
    let _ = stream.write_all(bytes);
}

fn hello() -> Vec<u8> {
    let hello = Hello {
        features: 0,
        purpose: Purpose::Commands,
        release: "0".into(),
        program: "hostile".into(),
        pid: 1,
        credential: Vec::new(),
        devices: Vec::new(),
    };
    encode_opening(Opening::Hello, &hello)
}

/// A session of our own making, up to and including the server's welcome.
fn session(victim: &Victim) -> TcpStream {
    let mut stream = victim.connect();
    stream.write_all(&hello()).unwrap();
    loop {
        let mut preamble = [0; PREAMBLE_LEN];
        stream.read_exact(&mut preamble).unwrap();
        let preamble = Preamble::from_bytes(&preamble).unwrap();
        stream.read_exact(&mut vec![0; preamble.len as usize]).unwrap();
        if preamble.opening != Opening::Waiting {
            assert_eq!(preamble.opening, Opening::Welcome);
            return stream;
        }
    }
}

#[test]
fn random_bytes() {
    let mut victim = Victim::new();
    for seed in 0..20 {
        let mut stream = victim.connect();
        send(&mut stream, &fake::noise(1 + 977 * usize::try_from(seed).unwrap(), seed));
        let _ = stream.shutdown(Shutdown::Write);
        expect_end(&mut stream);
    }
    victim.is_unharmed();
    victim.server.expect_log("connection dropped");
}

#[test]
fn another_protocol() {
    let mut victim = Victim::new();
    let mut stream = victim.connect();
    send(&mut stream, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    expect_end(&mut stream);
    victim.is_unharmed();
}

#[test]
fn a_handshake_of_unlimited_length() {
    let mut victim = Victim::new();
    let mut preamble = Preamble { version: VERSION, opening: Opening::Hello, len: 0 }.to_bytes();
    preamble[12..].fill(0xff);
    let mut stream = victim.connect();
    send(&mut stream, &preamble);
    expect_end(&mut stream);
    victim.is_unharmed();
}

#[test]
fn a_handshake_that_never_ends() {
    let mut victim = Victim::new();
    let hello = hello();
    let stages = [&MAGIC[..3], &hello[..PREAMBLE_LEN], &hello[..hello.len() - 1], &[]];
    let mut streams: Vec<_> = stages
        .iter()
        .map(|stage| {
            let mut stream = victim.connect();
            send(&mut stream, stage);
            stream
        })
        .collect();
    // Others are served meanwhile.
    victim.is_unharmed();
    streams.iter_mut().for_each(expect_end);
    victim.is_unharmed();
    victim.server.expect_log("its handshake was not done in time");
}

#[test]
fn a_handshake_of_another_version_is_refused_in_words() {
    let mut victim = Victim::new();
    let mut hello = hello();
    hello[8..10].copy_from_slice(&(VERSION + 1).to_le_bytes());
    let mut stream = victim.connect();
    send(&mut stream, &hello);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(String::from_utf8_lossy(&answer).contains("version"), "{answer:?}");
    victim.is_unharmed();
}

#[test]
fn frames_that_are_wrong() {
    let unknown_opcode = FrameHeader { opcode: 60_000, call: 0, body: 4, tail: 0 };
    let long_body = FrameHeader { opcode: 10, call: 0, body: u32::MAX, tail: 0 };
    let long_tail = FrameHeader { opcode: 10, call: 0, body: 16, tail: u32::MAX };
    let garbled_body = FrameHeader { opcode: 40, call: 0, body: 64, tail: 0 };
    let mut unknown_flags = FrameHeader { opcode: 1, call: 0, body: 0, tail: 0 }.to_bytes();
    unknown_flags[2] = 0xff;
    let mut unknown_queue = Vec::new();
    encode_call(&mut unknown_queue, 1, &Finish { queue: QueueId(u64::MAX) }, 0);
    let mut huge_buffer = Vec::new();
    let message = CreateBuffer {
        buffer: MemoryId(1),
        context: ContextId(77),
        flags: 0,
        size: 1 << 60,
        initial: InitialContents::Undefined,
    };
    encode_post(&mut huge_buffer, &message, 0);
    let attacks = [
        ("unknown opcode", unknown_opcode.to_bytes().to_vec()),
        ("body of 4 GiB", long_body.to_bytes().to_vec()),
        ("tail of 4 GiB", long_tail.to_bytes().to_vec()),
        ("garbled body", [&garbled_body.to_bytes()[..], &fake::noise(64, 3)].concat()),
        ("unknown flags", unknown_flags.to_vec()),
        ("unknown queue", unknown_queue),
        ("buffer of 2^60 bytes in no context", huge_buffer),
        ("noise", fake::noise(10_000, 5)),
    ];
    let mut victim = Victim::new();
    for (name, bytes) in attacks {
        eprintln!("{name}");
        let mut stream = session(&victim);
        send(&mut stream, &bytes);
        let _ = stream.shutdown(Shutdown::Write);
        expect_end(&mut stream);
        victim.is_unharmed();
    }
}

/// While a call waits, other threads of the worker would take in the frame again that ends the session, and end it again.
#[test]
fn a_frame_that_is_wrong_ends_the_session_once() {
    let mut victim = Victim::new();
    let mut stream = session(&victim);
    let (context, queue, event) = (ContextId(1), QueueId(1), EventId(1));
    let mut bytes = Vec::new();
    encode_post(&mut bytes, &CreateContext { context, platform: 0, devices: vec![0] }, 0);
    encode_post(&mut bytes, &CreateQueue { queue, context, device: 0, properties: 0, priority: 0, throttle: 0 }, 0);
    encode_post(&mut bytes, &CreateUserEvent { event, context }, 0);
    let waits = [event].into_iter().collect();
    encode_post(&mut bytes, &Marker { command: Command { queue, event: None, waits } }, 0);
    // It is told the reason for its end behind this, for which it has to read.
    for call in 1..=16 {
        encode_call(&mut bytes, call, &Ping { answer: 1 << 20 }, 0);
    }
    encode_call(&mut bytes, 100, &Finish { queue }, 0);
    for unknown in 1000..1030 {
        encode_post(&mut bytes, &ReleaseMemory { memory: MemoryId(unknown) }, 0);
    }
    send(&mut stream, &bytes);
    victim.server.expect_log("MemoryId(1000) does not exist");
    expect_end(&mut stream);
    let log = victim.server.log();
    let ends: Vec<_> = log.lines().filter(|line| line.contains("of hostile") && line.contains(" ends: ")).collect();
    assert_eq!(ends.len(), 1, "{ends:#?}");
    victim.is_unharmed();
}

#[test]
fn frames_that_break_off() {
    let mut frame = Vec::new();
    encode_call(&mut frame, 1, &Finish { queue: QueueId(1) }, 0);
    let mut victim = Victim::new();
    for len in [1, 8, frame.len() - 1] {
        let mut stream = session(&victim);
        send(&mut stream, &frame[..len]);
        let _ = stream.shutdown(Shutdown::Write);
        expect_end(&mut stream);
    }
    victim.is_unharmed();
}

#[test]
fn many_connections_at_once() {
    let mut victim = Victim::new();
    let streams: Vec<_> = (0..300).map(|_| victim.connect()).collect();
    victim.is_unharmed();
    drop(streams);
    victim.is_unharmed();
}

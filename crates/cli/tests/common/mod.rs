//! A real server, and clients that speak its protocol by hand.
#![allow(dead_code, reason = "each test binary uses its part of this")]

use std::fs;
use std::io::{BufRead, BufReader, IoSlice, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ropeway_protocol::handshake::{
    HandshakeError, Hello, Opening, PREAMBLE_LEN, Preamble, Purpose, Welcome, decode_welcome, encode_opening,
};
use ropeway_protocol::messages::Ping;
use ropeway_protocol::{FRAME_HEADER_LEN, FrameHeader, encode_call, frame, limits};
use ropeway_transport::{Endpoint, Link, Sender};
use rustix::process::{Pid, Signal, kill_process};

/// The longest wait in these tests.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// `ropeway serve` on a free port, ended with the test.
pub struct Server {
    pub child: Child,
    pub endpoint: Endpoint,
    log: Arc<Mutex<String>>,
    cache: PathBuf,
}

impl Server {
    /// Starts one and waits until workers are warm.
    pub fn start(args: &[&str]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let cache = std::env::temp_dir().join(format!("ropeway-test-{}-{number}", std::process::id()));
        let mut child = Command::new(env!("CARGO_BIN_EXE_ropeway"))
            .args(["serve", "--listen", "tcp://127.0.0.1:0", "--program-cache"])
            .arg(&cache)
            .args(args)
            .env_remove("ROPEWAY_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let lines = BufReader::new(child.stderr.take().unwrap());
        let copy = log.clone();
        thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                let mut log = copy.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        let mut out = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let first = out.next().unwrap_or_default();
        let endpoint = first.strip_prefix("listening on ").expect("the line that says where").parse().unwrap();
        assert!(out.any(|line| line == "ready"), "workers get warm: {}", log.lock().unwrap());
        Self { child, endpoint, log, cache }
    }

    /// The log so far.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits until the log has `words`.
    pub fn await_log(&self, words: &str) {
        until(&format!("'{words}' in the log"), || self.log().contains(words));
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Its workers' process ids.
    pub fn workers(&self) -> Vec<i32> {
        let pid = self.child.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        children.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
    }

    /// Resident memory in KiB.
    pub fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    pub fn link(&self) -> Link {
        Link::connect(&self.endpoint, PATIENCE).unwrap()
    }

    /// Completes a handshake.
    pub fn client(&self) -> Result<Client, HandshakeError> {
        let link = self.link();
        send(&link, &encode_opening(Opening::Hello, &hello()));
        let welcome = answer(&link)?;
        Ok(Client { link, welcome })
    }

    /// Sends `signal` and waits until the server ends; returns its exit code unless it was killed.
    pub fn end(&mut self, signal: Signal) -> Option<i32> {
        kill_process(self.pid(), signal).unwrap();
        let mut code = None;
        until("the server's end", || match self.child.try_wait().unwrap() {
            Some(status) => {
                code = status.code();
                true
            }
            None => false,
        });
        code
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("--- the server's log ---\n{}", self.log());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.cache);
    }
}

/// A session.
pub struct Client {
    pub link: Link,
    pub welcome: Welcome,
}

impl Client {
    /// Sends a ping and waits for the answer.
    pub fn ping(&self) {
        let mut frame = Vec::new();
        encode_call(&mut frame, 1, &Ping { answer: 0 }, 0);
        send(&self.link, &frame);
        let mut head = [0; FRAME_HEADER_LEN];
        read(&self.link, &mut head);
        let header = FrameHeader::from_bytes(&head, limits::MAX_BODY_TO_CLIENT).unwrap();
        assert_eq!((header.opcode, header.call), (frame::REPLY, 1));
        read(&self.link, &mut vec![0; header.payload()]);
    }
}

pub fn hello() -> Hello {
    Hello {
        features: 0,
        purpose: Purpose::Commands,
        release: "0".into(),
        program: "test".into(),
        pid: std::process::id(),
        credential: vec![],
        devices: Vec::new(),
    }
}

/// The server's half of the handshake.
pub fn answer(link: &Link) -> Result<Welcome, HandshakeError> {
    loop {
        let mut head = [0; PREAMBLE_LEN];
        read(link, &mut head);
        let preamble = Preamble::from_bytes(&head)?;
        let mut body = vec![0; preamble.len as usize];
        read(link, &mut body);
        if preamble.opening != Opening::Waiting {
            return decode_welcome(preamble, &body);
        }
    }
}

pub fn send(link: &Link, bytes: &[u8]) {
    link.send_all(&mut [IoSlice::new(bytes)]).unwrap();
}

fn read(link: &Link, into: &mut [u8]) {
    assert!(link.wait_readable(Some(PATIENCE)).unwrap(), "no answer");
    link.recv_exact(into).unwrap();
}

/// Waits for the end of the stream; returns what came before it.
pub fn rest(link: &Link) -> Vec<u8> {
    let mut all = Vec::new();
    let mut piece = [0; 4096];
    loop {
        assert!(link.wait_readable(Some(PATIENCE)).unwrap(), "the connection does not end");
        match link.recv(&mut piece) {
            // A reset is an end, too.
            Ok(0) | Err(_) => return all,
            Ok(n) => all.extend_from_slice(&piece[..n]),
        }
    }
}

/// Waits until `condition` holds.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Random bytes.
pub fn random(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fs::File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
    bytes
}

//! A link between client and server that delays, cuts or garbles, and counts messages.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use ropeway_protocol::handshake::{Hello, PREAMBLE_LEN, Preamble, Purpose};
use ropeway_protocol::{FRAME_HEADER_LEN, FrameHeader, Post, decode, limits};

/// The fault that the link puts into the bytes from the server to the client, unless stated otherwise.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// Nothing.
    None,
    /// Each piece comes this much later (both ways).
    Delay(Duration),
    /// The connection ends after so many bytes.
    CutAfter(u64),
    /// From this byte on, all are wrong.
    GarbleFrom(u64),
    /// So many bytes a second pass from the client to the server.
    RateUp(u64),
    /// Each connection 0 between peers ends after so many bytes in one direction; what comes behind them is lost. All
    /// other connections are left alone.
    CutSignals(u64),
    /// The same of all other connections between peers.
    CutBulk(u64),
    /// The second one of a link's several sockets ends after so many bytes in one direction. All other connections are left
    /// alone.
    CutLane(u64),
}

/// A listening proxy.
pub struct Proxy {
    url: String,
    frozen: Arc<AtomicBool>,
    sent: Arc<Mutex<HashMap<u16, u64>>>,
    passed: Arc<Mutex<Vec<Passed>>>,
    target: Arc<OnceLock<String>>,
}

/// Bytes of a connection that came from the client, and from the server.
type Passed = Arc<[AtomicU64; 2]>;

impl Proxy {
    /// A link to the server at `address` (`host:port`).
    pub fn to(address: &str, fault: Fault) -> Self {
        let proxy = Self::new(fault);
        proxy.lead_to(address);
        proxy
    }

    /// A link to a server that is still to be started, as it has to know where the link is.
    pub fn new(fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let url = format!("tcp://{}", listener.local_addr().expect("it is bound"));
        let frozen = Arc::new(AtomicBool::new(false));
        let sent = Arc::<Mutex<HashMap<u16, u64>>>::default();
        let counts = Arc::clone(&sent);
        let passed = Arc::<Mutex<Vec<Passed>>>::default();
        let connections = Arc::clone(&passed);
        let target = Arc::<OnceLock<String>>::default();
        let (address, stop) = (Arc::clone(&target), Arc::clone(&frozen));
        thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                let address = address.get().expect("nobody connects before it leads anywhere");
                let Ok(mut server) = TcpStream::connect(address) else { continue };
                for stream in [&client, &server] {
                    let _ = stream.set_nodelay(true);
                }
                let up = (client.try_clone(), server.try_clone());
                let (Ok(from), Ok(to)) = up else { continue };
                let mut frames = Frames::new(Arc::clone(&counts));
                let bytes = Passed::default();
                connections.lock().expect("no thread panics with it").push(Arc::clone(&bytes));
                let (up, fault) = match fault {
                    Fault::Delay(_) => (fault, fault),
                    Fault::CutSignals(limit) | Fault::CutBulk(limit) | Fault::CutLane(limit) => {
                        let Some(purpose) = pass_hello(&mut client, &mut server) else { continue };
                        frames.open(purpose);
                        let is_cut = match (fault, purpose) {
                            (Fault::CutLane(_), Purpose::Lane { number, .. }) => number == 1,
                            (Fault::CutSignals(_), Purpose::Peer { link, .. }) => link == 0,
                            (Fault::CutBulk(_), Purpose::Peer { link, .. }) => link != 0,
                            _ => false,
                        };
                        let fault = if is_cut { Fault::CutAfter(limit) } else { Fault::None };
                        (fault, fault)
                    }
                    Fault::RateUp(_) => (fault, Fault::None),
                    _ => (Fault::None, fault),
                };
                let (stop_up, stop_down) = (Arc::clone(&stop), Arc::clone(&stop));
                let back = Arc::clone(&bytes);
                let count = |of: &AtomicU64, bytes: &[u8]| {
                    of.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                };
                thread::spawn(move || {
                    pump(from, to, up, &stop_up, |piece| {
                        count(&bytes[0], piece);
                        frames.feed(piece);
                    });
                });
                thread::spawn(move || pump(server, client, fault, &stop_down, |piece| count(&back[1], piece)));
            }
        });
        Self { url, frozen, sent, passed, target }
    }

    /// Where it leads to: `host:port`.
    ///
    /// # Panics
    /// When that was said before.
    pub fn lead_to(&self, address: &str) {
        self.target.set(address.to_owned()).expect("it leads to one server");
    }

    /// How many messages of this kind clients have sent.
    pub fn sent<P: Post>(&self) -> u64 {
        self.sent.lock().expect("no thread panics with it").get(&P::OPCODE).copied().unwrap_or(0)
    }

    /// How many bytes of each connection have come from the client, and from the server: in the order in which they were
    /// made.
    pub fn passed(&self) -> Vec<[u64; 2]> {
        let passed = self.passed.lock().expect("no thread panics with it");
        passed.iter().map(|bytes| bytes.each_ref().map(|bytes| bytes.load(Ordering::Relaxed))).collect()
    }

    /// Where clients find it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// From now on nothing passes, and nobody is told: as if the cable were pulled.
    pub fn freeze(&self) {
        self.frozen.store(true, Ordering::Relaxed);
    }
}

/// Passes on the first message of a connection; says what the connection is for. `None` if it ends before.
fn pass_hello(client: &mut TcpStream, server: &mut TcpStream) -> Option<Purpose> {
    let mut bytes = vec![0; PREAMBLE_LEN];
    client.read_exact(&mut bytes).ok()?;
    let preamble = Preamble::from_bytes(bytes.first_chunk()?).expect("a client says hello");
    bytes.resize(PREAMBLE_LEN + preamble.len as usize, 0);
    client.read_exact(&mut bytes[PREAMBLE_LEN..]).ok()?;
    server.write_all(&bytes).ok()?;
    Some(decode::<Hello>(&bytes[PREAMBLE_LEN..]).expect("a hello").purpose)
}

/// Counts the messages that a client sends.
struct Frames {
    counts: Arc<Mutex<HashMap<u16, u64>>>,
    is_opened: bool,
    /// Whether it has only some of a stream's bytes.
    is_lane: bool,
    /// The bytes of a header, or of the hello, so far.
    head: Vec<u8>,
    /// Bytes to come before the next header.
    skip: usize,
}

impl Frames {
    fn new(counts: Arc<Mutex<HashMap<u16, u64>>>) -> Self {
        Self { counts, is_opened: false, is_lane: false, head: Vec::new(), skip: 0 }
    }

    fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.is_lane {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            let taken = (self.wanted() - self.head.len()).min(bytes.len());
            self.head.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if self.head.len() == self.wanted() {
                self.begin();
                self.head.clear();
            }
        }
    }

    /// How long a header is, or the hello, as far as that is known.
    fn wanted(&self) -> usize {
        match self.head.first_chunk() {
            _ if self.is_opened => FRAME_HEADER_LEN,
            None => PREAMBLE_LEN,
            Some(head) => PREAMBLE_LEN + Preamble::from_bytes(head).expect("a client says hello").len as usize,
        }
    }

    /// The hello has passed.
    fn open(&mut self, purpose: Purpose) {
        self.is_opened = true;
        self.is_lane = matches!(purpose, Purpose::Lane { .. });
    }

    fn begin(&mut self) {
        if !self.is_opened {
            return self.open(decode::<Hello>(&self.head[PREAMBLE_LEN..]).expect("a hello").purpose);
        }
        let header = self.head.first_chunk().map(|head| FrameHeader::from_bytes(head, limits::MAX_BODY_TO_SERVER));
        let header = header.expect("it has so many bytes").expect("a client keeps to the protocol");
        self.skip = header.payload();
        *self.counts.lock().expect("no thread panics with it").entry(header.opcode).or_default() += 1;
    }
}

fn pump(mut from: TcpStream, mut to: TcpStream, fault: Fault, frozen: &AtomicBool, mut seen: impl FnMut(&[u8])) {
    let mut passed = 0;
    let mut piece = vec![0; 64 << 10];
    while let Ok(n @ 1..) = from.read(&mut piece) {
        while frozen.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(50));
        }
        let before = passed;
        passed += n as u64;
        let mut bytes = &mut piece[..n];
        seen(bytes);
        match fault {
            Fault::None | Fault::CutSignals(_) | Fault::CutBulk(_) | Fault::CutLane(_) => {}
            Fault::Delay(time) => thread::sleep(time),
            Fault::RateUp(rate) => thread::sleep(Duration::from_nanos(1_000_000_000 * n as u64 / rate)),
            Fault::CutAfter(limit) => {
                let rest = usize::try_from(limit.saturating_sub(before)).unwrap_or(usize::MAX);
                let len = bytes.len().min(rest);
                bytes = &mut bytes[..len];
            }
            Fault::GarbleFrom(start) => {
                let right = usize::try_from(start.saturating_sub(before)).unwrap_or(usize::MAX);
                bytes.iter_mut().skip(right).for_each(|byte| *byte = !*byte);
            }
        }
        if to.write_all(bytes).is_err() {
            break;
        }
        if let Fault::CutAfter(limit) = fault
            && passed >= limit
        {
            let _ = from.shutdown(Shutdown::Both);
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

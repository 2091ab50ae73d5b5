//! A link between client and server that delays, cuts or garbles, and counts messages.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
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
}

/// A listening proxy.
pub struct Proxy {
    url: String,
    frozen: Arc<AtomicBool>,
    sent: Arc<Mutex<HashMap<u16, u64>>>,
    target: Arc<OnceLock<String>>,
}

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
                let (up, fault) = match fault {
                    Fault::Delay(_) => (fault, fault),
                    Fault::CutSignals(limit) | Fault::CutBulk(limit) => {
                        let Some(purpose) = pass_hello(&mut client, &mut server) else { continue };
                        frames.is_opened = true;
                        let is_cut = match purpose {
                            Purpose::Peer { link, .. } => (link == 0) == matches!(fault, Fault::CutSignals(_)),
                            Purpose::Commands => false,
                        };
                        let fault = if is_cut { Fault::CutAfter(limit) } else { Fault::None };
                        (fault, fault)
                    }
                    Fault::RateUp(_) => (fault, Fault::None),
                    _ => (Fault::None, fault),
                };
                let (stop_up, stop_down) = (Arc::clone(&stop), Arc::clone(&stop));
                thread::spawn(move || pump(from, to, up, &stop_up, |bytes| frames.feed(bytes)));
                thread::spawn(move || pump(server, client, fault, &stop_down, |_| ()));
            }
        });
        Self { url, frozen, sent, target }
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
    /// The bytes of a header so far.
    head: Vec<u8>,
    /// Bytes to come before the next header.
    skip: usize,
}

impl Frames {
    fn new(counts: Arc<Mutex<HashMap<u16, u64>>>) -> Self {
        Self { counts, is_opened: false, head: Vec::new(), skip: 0 }
    }

    fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            let len = if self.is_opened { FRAME_HEADER_LEN } else { PREAMBLE_LEN };
            let taken = (len - self.head.len()).min(bytes.len());
            self.head.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if self.head.len() == len {
                self.begin();
                self.head.clear();
            }
        }
    }

    fn begin(&mut self) {
        if !std::mem::replace(&mut self.is_opened, true) {
            let preamble = self.head.first_chunk().map(Preamble::from_bytes);
            self.skip = preamble.expect("it has so many bytes").expect("a client says hello").len as usize;
            return;
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
            Fault::None | Fault::CutSignals(_) | Fault::CutBulk(_) => {}
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

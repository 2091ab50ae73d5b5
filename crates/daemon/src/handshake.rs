//! Reads a client's hello, in whatever pieces it comes, without blocking.

use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use ropeway_protocol::handshake::{
    HandshakeError, Hello, Nearby, Opening, PREAMBLE_LEN, Preamble, Refusal, decode_hello, encode_opening, features,
};
use ropeway_protocol::{VERSION, limits};
use ropeway_transport::Link;
use ropeway_transport::nearby::{HandedIn, Inbox, TOKEN};
use ropeway_transport::tls::{self, Accepting, Door};
use rustix::net::{Shutdown, shutdown};

/// How long a refused client has to read the refusal.
const LINGER: Duration = Duration::from_secs(1);

/// The first byte of a TLS handshake (RFC 8446, section 5.1). A preamble begins with another.
const TLS_HANDSHAKE: u8 = 22;

/// How far a connection's opening has come.
enum Stage {
    /// Nothing has come: whether it will be encrypted is open.
    Begin,
    /// The TLS handshake.
    Handshake(Option<Box<Accepting>>),
    /// The hello.
    Hello,
    /// The memory of a client that may be on this machine, which shows this there; its hello is whole.
    Memory(Box<Hello>, [u8; TOKEN]),
    /// It was handed in.
    HandedIn(Box<Hello>),
}

/// A connection whose hello is not whole yet.
pub(crate) struct Pending {
    link: Link,
    stage: Stage,
    /// Whether it may go on in plain text.
    may_be_plain: bool,
    /// Who the client has proved to be.
    client: Option<tls::Client>,
    peer: String,
    deadline: Instant,
    /// The bytes read so far: at most a preamble and the longest hello.
    bytes: Vec<u8>,
    preamble: Option<Preamble>,
}

/// The outcome of reading a connection's opening.
#[derive(Debug)]
pub(crate) enum Step {
    /// More has to come.
    Wait,
    /// The hello is whole.
    Hello(Hello),
    /// The client is refused, and told why.
    Refuse(String),
    /// The connection is closed without an answer; the reason is for the log.
    Drop(String),
}

impl Pending {
    /// A connection from which nothing has been read.
    pub(crate) fn new(link: Link, may_be_plain: bool, now: Instant) -> Self {
        let peer = link.peer();
        let deadline = now + Duration::from_secs(limits::HANDSHAKE_SECONDS);
        let (stage, client) = (Stage::Begin, None);
        Self { link, stage, may_be_plain, client, peer, deadline, bytes: Vec::new(), preamble: None }
    }

    /// Returns when the client's time for its hello is over.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The peer's address.
    pub(crate) fn peer(&self) -> &str {
        &self.peer
    }

    /// The connection, the peer's address, and who it has proved to be.
    pub(crate) fn into_parts(self) -> (Link, String, Option<tls::Client>) {
        (self.link, self.peer, self.client)
    }

    /// Goes on with what has come: the handshake at the `door`, where the client wants it, then the hello. Reads no
    /// bytes beyond the hello: those are the worker's.
    pub(crate) fn advance(&mut self, door: Option<&Door>, inbox: Option<&Inbox>) -> Step {
        loop {
            match &mut self.stage {
                Stage::Begin => match (self.link.peek(), door) {
                    (Ok(None), _) => return Step::Drop("it closed without a word".into()),
                    (Ok(Some(TLS_HANDSHAKE)), Some(door)) => match door.open() {
                        Ok(accepting) => self.stage = Stage::Handshake(Some(Box::new(accepting))),
                        Err(error) => return Step::Drop(format!("its handshake cannot begin: {error}")),
                    },
                    // Strangers hear nothing.
                    (Ok(Some(_)), _) if !self.may_be_plain => return Step::Drop("it does not speak TLS".into()),
                    (Ok(Some(_)), _) => self.stage = Stage::Hello,
                    (Err(error), _) if error.kind() == ErrorKind::WouldBlock => return Step::Wait,
                    (Err(error), _) => return Step::Drop(format!("reading its handshake failed: {error}")),
                },
                Stage::Handshake(accepting) => match self.link.advance(accepting) {
                    Ok(None) => return Step::Wait,
                    Ok(client) => (self.client, self.stage) = (client, Stage::Hello),
                    Err(error) => return Step::Drop(format!("it does not come in: {error}")),
                },
                Stage::Hello => match self.read_hello() {
                    Step::Hello(hello) => match self.ask_for_memory(&hello, inbox) {
                        Some(token) => self.stage = Stage::Memory(Box::new(hello), token),
                        None => return Step::Hello(hello),
                    },
                    step => return step,
                },
                Stage::HandedIn(hello) => return Step::Hello((**hello).clone()),
                Stage::Memory(hello, _) => match self.link.try_recv(&mut [0]) {
                    Ok(0) => return Step::Drop("it closed after its hello".into()),
                    Ok(_) => return Step::Hello((**hello).clone()),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Step::Wait,
                    Err(error) => return Step::Drop(format!("reading its handshake failed: {error}")),
                },
            }
        }
    }

    /// Tells a client that may be on this machine where to hand in memory; returns what it will show there. `None`: it
    /// is served without.
    fn ask_for_memory(&self, hello: &Hello, inbox: Option<&Inbox>) -> Option<[u8; TOKEN]> {
        let inbox = inbox.filter(|_| hello.features & features::TAKES_NEARBY != 0 && self.link.may_be_nearby())?;
        let token = Inbox::token().ok()?;
        let frame = encode_opening(Opening::Nearby, &Nearby { name: inbox.name().to_owned(), token });
        // A fresh connection has room for so little.
        (self.link.try_send(&frame).ok()? == frame.len()).then_some(token)
    }

    /// Takes memory that this client has handed in.
    pub(crate) fn take_memory(&mut self, handed_in: HandedIn) {
        if let Stage::Memory(hello, _) = &self.stage {
            self.stage = Stage::HandedIn(hello.clone());
            self.link.accept_memory(handed_in);
        }
    }

    /// Whether it is this client that shows this.
    pub(crate) fn shows(&self, shown: &[u8; TOKEN]) -> bool {
        matches!(&self.stage, Stage::Memory(_, token) if token == shown)
    }

    fn read_hello(&mut self) -> Step {
        loop {
            let needed = PREAMBLE_LEN + self.preamble.map_or(0, |p| p.len as usize);
            let have = self.bytes.len();
            if have < needed {
                self.bytes.resize(needed, 0);
                let read = self.link.try_recv_hello(&mut self.bytes[have..]);
                self.bytes.truncate(have + read.as_ref().map_or(0, |n| *n));
                match read {
                    Ok(0) if have == 0 => return Step::Drop("it closed without a word".into()),
                    Ok(0) => return Step::Drop(format!("it closed after {have} bytes of its handshake")),
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Step::Wait,
                    Err(error) => return Step::Drop(format!("reading its handshake failed: {error}")),
                }
                continue;
            }
            let Some(preamble) = self.preamble else {
                let Some(head) = self.bytes.first_chunk::<PREAMBLE_LEN>() else { return Step::Wait };
                match Preamble::from_bytes(head) {
                    Ok(p) if p.version != VERSION => return refuse(&HandshakeError::Version { theirs: p.version }),
                    Ok(p) if p.opening != Opening::Hello => return Step::Drop("it opened like a server".into()),
                    Ok(p) => self.preamble = Some(p),
                    Err(HandshakeError::NotRopeway) => {
                        return Step::Drop("it does not speak Ropeway's protocol".into());
                    }
                    Err(error) => return refuse(&error),
                }
                continue;
            };
            return match decode_hello(preamble, &self.bytes[PREAMBLE_LEN..]) {
                Ok(hello) => Step::Hello(Hello {
                    // These go into the logs of the daemon and the worker.
                    program: printable(&hello.program),
                    release: printable(&hello.release),
                    ..hello
                }),
                Err(error) => refuse(&error),
            };
        }
    }
}

impl AsFd for Pending {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}

/// Returns a client's text without characters that would begin a new line of a log or move a terminal's cursor; at most
/// 100 characters.
fn printable(text: &str) -> String {
    text.chars().take(100).map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Words the refusal of a hello that is not acceptable. The texts of [`HandshakeError`] call the other side "it".
fn refuse(error: &HandshakeError) -> Step {
    Step::Refuse(match error {
        HandshakeError::Version { theirs } => format!(
            "this server (Ropeway {}) speaks version {VERSION} of the protocol and the client version {theirs}; install the same release of Ropeway on both",
            env!("CARGO_PKG_VERSION"),
        ),
        HandshakeError::TooLong { len, limit } => {
            format!("the client announced {len} bytes of handshake, over the limit of {limit}")
        }
        _ => "the client's handshake does not decode".to_owned(),
    })
}

/// A refused connection, kept open until the client has read why.
///
/// If it were closed at once, with bytes from the client still unread, the kernel would reset the connection, and the
/// refusal could be lost on its way.
pub(crate) struct Refused {
    link: Link,
    deadline: Instant,
    /// How many more bytes from the client are read and discarded.
    patience: usize,
}

impl Refused {
    /// Tells the client why; `None` when it cannot be told.
    pub(crate) fn tell(link: Link, text: &str, now: Instant) -> Option<Self> {
        let frame = encode_opening(Opening::Refusal, &Refusal { text: text.to_owned() });
        // A fresh connection has room for a few hundred bytes; one that has none is not worth waiting for.
        if link.try_send(&frame).ok()? < frame.len() {
            return None;
        }
        shutdown(&link, Shutdown::Write).ok()?;
        Some(Self { link, deadline: now + LINGER, patience: 64 << 10 })
    }

    /// Returns when the connection is closed in any case.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Discards what the client sent; returns whether the connection is over.
    pub(crate) fn drain(&mut self) -> bool {
        let mut bytes = [0; 4096];
        match self.link.try_recv(&mut bytes) {
            Ok(0) => true,
            Ok(n) => {
                self.patience = self.patience.saturating_sub(n);
                self.patience == 0
            }
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        }
    }
}

impl AsFd for Refused {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}

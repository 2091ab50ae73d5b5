//! A client that says what a script has, in one thread, and listens.

use std::collections::{HashMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use ropeway_generate::{Echo, session as client};
use ropeway_protocol::handshake::{PREAMBLE_LEN, Preamble};
use ropeway_protocol::ids::{QueueId, TransferId};
use ropeway_protocol::messages::{Finish, Output, TransferReady};
use ropeway_protocol::{FRAME_HEADER_LEN, FrameHeader, Note, decode, encode_call, frame, limits};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Most time that a well-behaved client stays, and any client before its welcome: the very first build on a machine
/// takes long.
pub const STAY_LONG: Duration = Duration::from_secs(60);

/// The number of the call that a client sends last; its answer says that all before it has been carried out.
pub const LAST: u32 = u32::MAX;

/// What a client says.
#[derive(Default)]
pub struct Script {
    /// Ends with a build, whose answer the client waits for.
    pub opening: Vec<u8>,
    /// Comes after it.
    pub rest: Vec<u8>,
    /// Frames to send when the worker asks for a transfer.
    pub transfers: HashMap<TransferId, Vec<u8>>,
    /// Frames are sent together up to about so many bytes.
    pub piece: usize,
}

/// What a worker has sent.
#[derive(Default)]
pub struct Heard {
    bytes: Vec<u8>,
    /// Where the first frame begins that is not whole yet, or, before the welcome is, nothing.
    at: usize,
    /// The answers, with their calls' numbers.
    pub answers: HashMap<u32, Vec<u8>>,
}

/// The client while it is there.
struct Conversation<'a> {
    script: &'a Script,
    /// What it is about to send: pieces, which are whole frames.
    unsent: VecDeque<&'a [u8]>,
    /// How much of the first of them is sent.
    sent: usize,
    /// Whether the build has been answered, without which there are no kernels.
    is_built: bool,
    rest: &'a [u8],
}

impl Script {
    /// Says all that there is to `stream`, listens until the last call is answered, the worker has left, or it has
    /// stayed for `stay` after the welcome, and leaves.
    ///
    /// # Panics
    /// When what comes is nothing that a worker says.
    pub fn speak(&self, mut stream: UnixStream, stay: Duration) -> Heard {
        stream.set_nonblocking(true).expect("a socket that does not wait");
        let mut rest = self.rest.clone();
        encode_call(&mut rest, LAST, &Finish { queue: QueueId(1) }, 0);
        let is_built = self.opening.is_empty();
        let mut all = Conversation { script: self, unsent: VecDeque::new(), sent: 0, is_built, rest: &rest };
        all.unsent.extend(pieces(if is_built { &rest } else { &self.opening }, self.piece));
        let (mut heard, mut some) = (Heard::default(), vec![0; 16 << 10]);
        let (mut end, mut is_welcome) = (Instant::now() + STAY_LONG, false);
        loop {
            all.send(&mut stream);
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || heard.answers.contains_key(&LAST) || !all.wait(&stream, left) {
                return heard;
            }
            loop {
                match stream.read(&mut some) {
                    Ok(0) => return heard,
                    Ok(n) => heard.bytes.extend_from_slice(&some[..n]),
                    Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                    Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                    Err(_) => return heard,
                }
                heard.take_in(|what| all.go_on(what));
                if heard.answers.contains_key(&LAST) {
                    break;
                }
            }
            if !is_welcome && heard.at > 0 {
                (end, is_welcome) = (Instant::now() + stay, true);
            }
        }
    }
}

impl<'a> Conversation<'a> {
    /// Sends what can be sent now. A worker that has seen enough does not read it.
    fn send(&mut self, stream: &mut UnixStream) {
        while let Some(piece) = self.unsent.front() {
            match stream.write(&piece[self.sent..]) {
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(_) => return self.unsent.clear(),
            }
            if self.sent == piece.len() {
                self.unsent.pop_front();
                self.sent = 0;
            }
        }
    }

    /// Waits until something comes or can be sent; false when nothing has for `left`.
    fn wait(&self, stream: &UnixStream, left: Duration) -> bool {
        let more = if self.unsent.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        poll(&mut [PollFd::new(stream, PollFlags::IN | more)], Some(&timeout)) != Ok(0)
    }

    fn go_on(&mut self, what: Asked) {
        match what {
            Asked::Build if !self.is_built => {
                self.is_built = true;
                self.unsent.extend(pieces(self.rest, self.script.piece));
            }
            Asked::Build => {}
            // Ahead of the others, but not in the middle of one.
            Asked::Transfer(transfer) => {
                let data = self.script.transfers.get(&transfer).map_or(&[][..], Vec::as_slice);
                let at = usize::from(self.sent > 0);
                let rest = self.unsent.split_off(at.min(self.unsent.len()));
                self.unsent.extend(pieces(data, self.script.piece));
                self.unsent.extend(rest);
            }
        }
    }
}

/// What a worker's frames let the client go on with.
enum Asked {
    Build,
    Transfer(TransferId),
}

impl Heard {
    /// Takes in the frames that have become whole, and checks that each is one. `go_on` hears of each thing that the
    /// client may have waited for.
    fn take_in(&mut self, mut go_on: impl FnMut(Asked)) {
        if self.at == 0 {
            let Some(preamble) = self.bytes.first_chunk::<PREAMBLE_LEN>() else { return };
            let preamble = Preamble::from_bytes(preamble).expect("the worker begins with a preamble");
            let welcome = PREAMBLE_LEN + preamble.len as usize;
            if self.bytes.len() < welcome {
                return;
            }
            self.at = welcome;
        }
        while let Some((header, frame)) = first_frame(&self.bytes[self.at..]) {
            let body = &frame[FRAME_HEADER_LEN..][..header.body as usize];
            if header.opcode == frame::REPLY {
                self.answers.insert(header.call, body.to_vec());
            } else {
                Echo::at_client(frame).expect("a worker's note decodes");
            }
            if header.opcode == frame::REPLY && header.call == client::BUILD {
                go_on(Asked::Build);
            }
            if header.opcode == TransferReady::OPCODE
                && let Ok(ready) = decode::<TransferReady>(body)
            {
                go_on(Asked::Transfer(ready.transfer));
            }
            self.at += frame.len();
        }
    }

    /// What the worker's driver printed.
    pub fn printed(&self) -> String {
        let mut text = Vec::new();
        let preamble = self.bytes.first_chunk::<PREAMBLE_LEN>().and_then(|bytes| Preamble::from_bytes(bytes).ok());
        let welcome = preamble.map_or(0, |preamble| PREAMBLE_LEN + preamble.len as usize);
        let mut rest = self.bytes.get(welcome..self.at).unwrap_or_default();
        while let Some((header, frame)) = first_frame(rest) {
            if header.opcode == Output::OPCODE {
                text.extend_from_slice(&frame[FRAME_HEADER_LEN + header.body as usize..]);
            }
            rest = &rest[frame.len()..];
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// The first frame, if it is whole.
fn first_frame(bytes: &[u8]) -> Option<(FrameHeader, &[u8])> {
    let header = bytes.first_chunk()?;
    let header = FrameHeader::from_bytes(header, limits::MAX_BODY_TO_CLIENT).expect("a worker's frame has a header");
    Some((header, bytes.get(..FRAME_HEADER_LEN + header.payload())?))
}

/// The frames of `bytes`, several small ones together; what does not look like one is one piece with all that follows.
fn pieces(mut bytes: &[u8], about: usize) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let mut len = 0;
        while len < about.max(1).min(bytes.len()) {
            let rest = &bytes[len..];
            let header = rest.first_chunk().map(|header| FrameHeader::from_bytes(header, limits::MAX_BODY_TO_SERVER));
            len += match header {
                Some(Ok(header)) => (FRAME_HEADER_LEN + header.payload()).min(rest.len()),
                _ => rest.len(),
            };
        }
        let (piece, rest) = bytes.split_at(len);
        bytes = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

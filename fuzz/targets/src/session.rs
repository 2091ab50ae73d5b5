//! Whole sessions: a client's bytes, served by a worker process on this machine's OpenCL or on a stub of one.

use std::cell::Cell;
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ropeway_generate::{Client, Echo, Entropy, damage, session as client};
use ropeway_protocol::handshake::{Hello, PREAMBLE_LEN, Preamble, Purpose};
use ropeway_protocol::ids::{QueueId, TransferId};
use ropeway_protocol::messages::{Finish, Output, TransferReady};
use ropeway_protocol::types::{Status, Waited};
use ropeway_protocol::{FRAME_HEADER_LEN, FrameHeader, Note, decode, encode_call, frame, limits};
use ropeway_transport::Link;
use ropeway_worker::handoff;

use crate::worker::Worker;

/// Most time that a client stays: what it sent may wait for what never comes.
const STAY: Duration = Duration::from_millis(300);

/// The same where a device takes no time.
const STAY_SHORT: Duration = Duration::from_millis(20);

/// Most time that a well-behaved client stays: the very first build on a machine takes long.
const STAY_LONG: Duration = Duration::from_secs(60);

/// Frames are sent together up to about so many bytes.
const PIECE: usize = 512;

/// The number of the call that a client sends last; its answer says that all before it has been carried out.
const LAST: u32 = u32::MAX;

/// What a client says.
#[derive(Default)]
struct Script {
    /// Ends with a build, whose answer the client waits for.
    opening: Vec<u8>,
    /// Comes after it.
    rest: Vec<u8>,
    /// Frames to send when the worker asks for a transfer.
    transfers: HashMap<TransferId, Vec<u8>>,
}

/// What a worker's frames let the client go on with.
enum Asked {
    Build,
    Transfer(TransferId),
}

/// What came of a session.
struct Outcome {
    /// The worker's exit code, or the signal that ended it as a negative number.
    code: i32,
    /// What it sent behind the welcome.
    sent: Vec<u8>,
    /// What it wrote on standard error.
    said: String,
}

impl Worker {
    /// Serves a client that speaks `script`, listens for its last answer, at most for `stay`, and leaves.
    fn serve(self, script: &Script, stay: Duration) -> Outcome {
        handoff::await_ready(self.control.as_fd()).expect("a worker becomes warm");
        let (mut client, server) = UnixStream::pair().expect("a socket pair");
        let hello = Hello {
            features: 0,
            purpose: Purpose::Commands,
            release: env!("CARGO_PKG_VERSION").to_owned(),
            program: "fuzz".to_owned(),
            pid: std::process::id(),
            credential: Vec::new(),
        };
        let link = Link::from_fd(server.into()).expect("a link");
        handoff::send(self.control.as_fd(), &link, (&hello, &handoff::Allowance::default()), None)
            .expect("a worker takes a connection");
        drop(link);

        client.set_write_timeout(Some(stay)).expect("a timeout");
        let writer = Mutex::new(client.try_clone().expect("a second handle"));
        let mut rest = script.rest.clone();
        encode_call(&mut rest, LAST, &Finish { queue: QueueId(1) }, 0);
        let (built, await_build) = channel();
        let sent = std::thread::scope(|scope| {
            let (writer, rest) = (&writer, &rest);
            scope.spawn(move || {
                send(writer, pieces(&script.opening));
                // What a kernel is made of must have been built.
                if script.opening.is_empty() || await_build.recv().is_ok() {
                    send(writer, pieces(rest));
                }
            });
            let built = Cell::new(Some(built));
            let sent = listen(&mut client, stay, |what| match what {
                Asked::Build => drop(built.take().map(|built| built.send(()))),
                Asked::Transfer(transfer) => {
                    let data = script.transfers.get(&transfer).map_or(&[][..], Vec::as_slice);
                    send(writer, pieces(data));
                }
            });
            drop(built);
            // It may have left first. The sending thread, should it still be at it, ends with this.
            let _ = client.shutdown(std::net::Shutdown::Both);
            sent
        });
        drop((client, writer));
        let (code, said) = self.end();
        Outcome { code, sent: behind_welcome(&sent).to_vec(), said }
    }
}

/// Sends pieces, which are whole frames, so that the other sender does not come between. A worker that has seen enough
/// does not read them.
fn send<'a>(writer: &Mutex<UnixStream>, mut pieces: impl Iterator<Item = &'a [u8]>) {
    let one = |piece: &[u8]| writer.lock().unwrap_or_else(PoisonError::into_inner).write_all(piece);
    let _ = pieces.try_for_each(one);
}

/// The frames of `bytes`, several small ones together; what does not look like one is one piece with all that follows.
fn pieces(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let mut len = 0;
        while len < PIECE.min(bytes.len()) {
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

/// Reads until the last call is answered, the worker has left, or the client has stayed long enough after its welcome:
/// a worker whose client does not even await that rightly ends with an error. `go_on` hears of
/// each thing that the client may have waited for.
fn listen(client: &mut UnixStream, stay: Duration, go_on: impl Fn(Asked)) -> Vec<u8> {
    let (mut all, mut some) = (Vec::new(), vec![0; 64 << 10]);
    let (mut built, mut asked) = (false, 0);
    let (mut end, mut is_welcome) = (Instant::now() + STAY_LONG, false);
    loop {
        let (answers, transfers) = frames_of(behind_welcome(&all));
        if !is_welcome && all.len() > PREAMBLE_LEN {
            (end, is_welcome) = (Instant::now() + stay, true);
        }
        if !built && answers.iter().any(|(call, _)| *call == client::BUILD) {
            built = true;
            go_on(Asked::Build);
        }
        transfers[asked..].iter().for_each(|transfer| go_on(Asked::Transfer(*transfer)));
        asked = transfers.len();
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || answers.iter().any(|(call, _)| *call == LAST) {
            return all;
        }
        client.set_read_timeout(Some(left)).expect("a timeout");
        match client.read(&mut some) {
            Ok(0) => return all,
            Ok(n) => all.extend_from_slice(&some[..n]),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(_) => return all,
        }
    }
}

fn behind_welcome(sent: &[u8]) -> &[u8] {
    let Some((preamble, rest)) = sent.split_first_chunk::<PREAMBLE_LEN>() else { return &[] };
    let preamble = Preamble::from_bytes(preamble).expect("the worker begins with a preamble");
    rest.get(preamble.len as usize..).unwrap_or_default()
}

/// Splits what a worker sent into frames and checks that each is one. Gives the answers with their calls' numbers, and
/// the transfers that it asked for.
fn frames_of(mut sent: &[u8]) -> (Vec<(u32, Vec<u8>)>, Vec<TransferId>) {
    let (mut answers, mut transfers) = (Vec::new(), Vec::new());
    while let Some((header, rest)) = sent.split_first_chunk::<FRAME_HEADER_LEN>() {
        let header =
            FrameHeader::from_bytes(header, limits::MAX_BODY_TO_CLIENT).expect("a worker's frame has a header");
        // The rest of it may be on its way, or was when the client left.
        let Some(payload) = rest.get(..header.payload()) else { break };
        let body = &payload[..header.body as usize];
        if header.opcode == frame::REPLY {
            answers.push((header.call, body.to_vec()));
        } else {
            Echo::at_client(sent).expect("a worker's note decodes");
        }
        if header.opcode == TransferReady::OPCODE {
            transfers.extend(decode::<TransferReady>(body).map(|ready| ready.transfer));
        }
        sent = &rest[payload.len()..];
    }
    (answers, transfers)
}

/// What the worker's driver printed.
fn printed(mut sent: &[u8]) -> String {
    let mut text = Vec::new();
    while let Some(Ok(header)) = sent.first_chunk().map(|h| FrameHeader::from_bytes(h, limits::MAX_BODY_TO_CLIENT)) {
        let frame = &sent[..(FRAME_HEADER_LEN + header.payload()).min(sent.len())];
        if header.opcode == Output::OPCODE {
            text.extend_from_slice(frame.get(FRAME_HEADER_LEN + header.body as usize..).unwrap_or_default());
        }
        sent = &sent[frame.len()..];
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Serves a session that is well-behaved at first; what `data` says of the rest may be anything.
///
/// # Panics
/// When the worker crashes, panics, outlives its client, or sends what does not decode.
pub fn session(data: &[u8]) {
    any(data, Worker::next(), STAY);
}

/// As [`session`], on a stub of OpenCL.
///
/// # Panics
/// As [`session`].
pub fn stub(data: &[u8]) {
    any(data, Worker::forked(), STAY_SHORT);
}

fn any(data: &[u8], worker: Worker, stay: Duration) {
    let mut entropy = Entropy::new(data);
    let (kind, harm) = (entropy.byte(), entropy.slice(32));
    let mut script = Script::default();
    if kind < 250 {
        script.opening = client::opening();
        script.rest = client::kernels();
    }
    if kind % 4 == 0 {
        script.rest.extend_from_slice(&client::vector_addition());
    }
    if kind % 8 == 0 {
        script.rest.extend_from_slice(&client::random(&mut entropy));
    } else {
        let (more, transfers) = Client::new(&mut entropy).run();
        script.rest.extend_from_slice(&more);
        script.transfers = transfers;
    }
    if kind % 3 == 0 {
        let part = if kind % 2 == 0 { &mut script.opening } else { &mut script.rest };
        damage(part, &mut Entropy::new(harm));
    }
    let outcome = worker.serve(&script, stay);
    frames_of(&outcome.sent);
    let Outcome { code, said, .. } = &outcome;
    assert_eq!(*code, 0, "the worker did not end well; it said:\n{said}and printed:\n{}", printed(&outcome.sent));
}

/// Serves a session in which all is well, and checks that it is: otherwise [`session`] and [`stub`] would test nothing.
///
/// # Panics
/// When it is not.
pub fn rehearse() {
    rehearse_with(Worker::next());
    rehearse_with(Worker::forked());
}

fn rehearse_with(worker: Worker) {
    let rest = [client::kernels(), client::vector_addition()].concat();
    let script = Script { opening: client::opening(), rest, ..Script::default() };
    let outcome = worker.serve(&script, STAY_LONG);
    assert_eq!(outcome.code, 0, "a worker whose client did no wrong did not end well; it said:\n{}", outcome.said);
    let (answers, _) = frames_of(&outcome.sent);
    let Some((_, finish)) = answers.iter().find(|(call, _)| *call == LAST) else {
        panic!("a well-behaved client gets no answer; the worker said:\n{}", outcome.said);
    };
    let waited: Result<Waited, Status> = decode(finish).expect("the answer to Finish decodes");
    let status = waited.map(|waited| waited.status);
    assert_eq!(status, Ok(0), "a vector addition fails; the driver printed:\n{}", printed(&outcome.sent));
}

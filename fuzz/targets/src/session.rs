//! Whole sessions: a client's bytes, served by a worker on this machine's OpenCL or on a stub of one.

use std::cell::RefCell;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use ropeway_generate::{Client, Entropy, damage, session as client};
use ropeway_protocol::handshake::{Hello, Purpose};
use ropeway_protocol::ids::ProgramId;
use ropeway_protocol::messages::BuildProgram;
use ropeway_protocol::types::{Status, Waited};
use ropeway_protocol::{decode, encode_call};
use ropeway_transport::Link;
use ropeway_worker::handoff;

use crate::client::{Heard, LAST, STAY_LONG, Script};
use crate::worker::Worker;

/// Most time that a client stays: what it sent may wait for what never comes.
const STAY: Duration = Duration::from_millis(300);

/// The same where a device takes no time.
const STAY_SHORT: Duration = Duration::from_millis(20);

/// What came of a session.
struct Outcome {
    /// The worker's exit code, or the signal that ended it as a negative number.
    code: i32,
    /// What it sent.
    heard: Heard,
    /// What it wrote on standard error.
    said: String,
}

thread_local! {
    /// The inputs of this thread's process that serves sessions on the stub, as far as it is known what they did.
    static BEFORE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

impl Worker {
    /// Serves a client that speaks `script` and stays for at most `stay`.
    fn serve(self, script: &Script, stay: Duration) -> Outcome {
        let (client, server) = UnixStream::pair().expect("a socket pair");
        let hello = Hello {
            features: 0,
            purpose: Purpose::Commands,
            release: env!("CARGO_PKG_VERSION").to_owned(),
            program: "fuzz".to_owned(),
            pid: std::process::id(),
            credential: Vec::new(),
            devices: Vec::new(),
        };
        let link = Link::from_fd(server.into()).expect("a link");
        // It need not be warm: it takes the connection when it is.
        handoff::send(self.control.as_fd(), &link, (&hello, &handoff::Allowance::default()), handoff::Files::default())
            .expect("a worker takes a connection");
        drop(link);
        let heard = script.speak(client, stay);
        let (code, said) = self.end();
        Outcome { code, heard, said }
    }
}

/// Serves a session that is well-behaved at first; what `data` says of the rest may be anything.
///
/// # Panics
/// When the worker crashes, panics, outlives its client, or sends what does not decode.
pub fn session(data: &[u8]) {
    any(data, Worker::next(), STAY);
}

/// As [`session`], on a stub of OpenCL, in a process that has had other sessions. One that fails is tried alone; if it
/// does not fail then, the inputs before it are kept.
///
/// # Panics
/// As [`session`].
pub fn stub(data: &[u8]) {
    let worker = Worker::forked(false);
    let is_first = worker.before() == 0;
    if is_first {
        BEFORE.take();
    }
    BEFORE.with_borrow_mut(|before| before.push(data.to_vec()));
    let Err(why) = catch_unwind(AssertUnwindSafe(|| any(data, worker, STAY_SHORT))) else { return };
    let inputs = BEFORE.take();
    if !is_first {
        eprintln!("fuzz: this is the outcome behind {} other sessions; now alone:", inputs.len() - 1);
        any(data, Worker::forked(true), STAY_SHORT);
        eprintln!("fuzz: alone, it ends well. All inputs of the process, for 'again stub FILES': {}", kept(&inputs));
    }
    resume_unwind(why);
}

/// Keeps inputs; their files.
fn kept(inputs: &[Vec<u8>]) -> String {
    let folder = std::env::temp_dir();
    let names = inputs.iter().zip(1..).map(|(input, number)| {
        let file = folder.join(format!("ropeway-fuzz-stub-{}-{number:02}", std::process::id()));
        std::fs::write(&file, input).map_or_else(|error| error.to_string(), |()| file.display().to_string())
    });
    names.collect::<Vec<_>>().join(" ")
}

fn any(data: &[u8], worker: Worker, stay: Duration) {
    let mut entropy = Entropy::new(data);
    let (kind, harm) = (entropy.byte(), entropy.slice(32));
    // From a frame or two at a time to all at once.
    let mut script = Script { piece: 64 << (2 * (harm.first().unwrap_or(&0) % 6)), ..Script::default() };
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
    let Outcome { code, heard, said } = worker.serve(&script, stay);
    assert_eq!(code, 0, "the worker did not end well; it said:\n{said}and printed:\n{}", heard.printed());
}

/// Serves a session in which all is well, and checks that it is, and one that crashes, and checks that this is noticed
/// and does not concern others: otherwise [`session`] and [`stub`] would test nothing.
///
/// # Panics
/// When it is not.
pub fn rehearse() {
    rehearse_with(Worker::next());
    for _ in 0..2 {
        rehearse_with(Worker::forked(false));
    }
    let mut crash = client::opening();
    let program = ProgramId(1);
    encode_call(&mut crash, 2, &BuildProgram { program, devices: vec![0], named: 1, options: "-stub-crash" }, 0);
    let script = Script { opening: crash, piece: 512, ..Script::default() };
    let outcome = Worker::forked(false).serve(&script, STAY_LONG);
    assert_eq!(outcome.code, -ABORTED, "a worker that crashes is not noticed; it said:\n{}", outcome.said);
    rehearse_with(Worker::forked(false));
}

/// SIGABRT.
const ABORTED: i32 = 6;

fn rehearse_with(worker: Worker) {
    let rest = [client::kernels(), client::vector_addition()].concat();
    let script = Script { opening: client::opening(), rest, piece: 512, ..Script::default() };
    let Outcome { code, heard, said } = worker.serve(&script, STAY_LONG);
    assert_eq!(code, 0, "a worker whose client did no wrong did not end well; it said:\n{said}");
    let Some(finish) = heard.answers.get(&LAST) else {
        panic!("a well-behaved client gets no answer; the worker said:\n{said}");
    };
    let waited: Result<Waited, Status> = decode(finish).expect("the answer to Finish decodes");
    let status = waited.map(|waited| waited.status);
    assert_eq!(status, Ok(0), "a vector addition fails; the driver printed:\n{}", heard.printed());
}

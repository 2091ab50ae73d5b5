//! Workers: each a process that was started, or a session of one that has loaded OpenCL already and has several.

use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ropeway_worker::{WorkerOptions, handoff};

use crate::codecs;
use crate::nursery::{Forked, be_nursery};

/// Set in the processes that are workers, or fork them.
const WORKER: &str = "ROPEWAY_FUZZ_WORKER";

/// Most bytes of buffers of a session: enough for all that is good, and little enough to be filled with anything.
const QUOTA: u64 = 64 << 20;

/// A worker's time to end when its client has gone.
const END: Duration = Duration::from_secs(2);

/// Workers that were started ahead of their sessions.
static READY: Mutex<Vec<Worker>> = Mutex::new(Vec::new());

/// Is a worker, or forks workers, and never returns, in a process that a target started; `main` begins with it.
pub fn become_worker_if_asked() {
    let Some(what) = std::env::var_os(WORKER) else { return };
    let code = match std::io::stdin().as_fd().try_clone_to_owned() {
        Ok(socket) if what == "nursery" => be_nursery(&socket),
        Ok(socket) if what == codecs::ASKED => codecs::be_codecs(socket),
        Ok(control) => ropeway_worker::run(control, options()),
        Err(_) => 1,
    };
    std::process::exit(code.into());
}

/// A worker's.
pub fn options() -> WorkerOptions {
    WorkerOptions { memory_quota: Some(QUOTA), ..WorkerOptions::default() }
}

/// This program, to be a worker or a nursery.
pub fn itself(what: &str, stdin: OwnedFd) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program's name"));
    command.env(WORKER, what).stdin(Stdio::from(stdin)).stdout(Stdio::null());
    command
}

/// A worker process.
pub struct Worker {
    process: Process,
    /// Its control socket.
    pub control: OwnedFd,
}

enum Process {
    Started(Child),
    Forked(Forked),
}

impl Worker {
    /// The next worker; one more is started for the session after this one.
    pub fn next() -> Self {
        let next = Self::start();
        let mut ready = READY.lock().unwrap_or_else(PoisonError::into_inner);
        ready.push(next);
        if ready.len() > 2 { ready.remove(0) } else { Self::start() }
    }

    fn start() -> Self {
        let (control, theirs) = handoff::pair().expect("a socket pair");
        let process = itself("1", theirs).stderr(Stdio::piped()).spawn().expect("a worker process");
        Self { process: Process::Started(process), control }
    }

    /// A worker on the stub of OpenCL, for this thread; one that is `alone` has a process of its own.
    pub fn forked(alone: bool) -> Self {
        let (control, theirs) = handoff::pair().expect("a socket pair");
        Self { process: Process::Forked(Forked::begin(theirs, alone)), control }
    }

    /// How many sessions its process has had before.
    pub fn before(&self) -> i32 {
        match &self.process {
            Process::Started(_) => 0,
            Process::Forked(forked) => forked.before(),
        }
    }

    /// Waits for its end: its exit code, or the signal that ended it as a negative number; and what it wrote on
    /// standard error.
    ///
    /// # Panics
    /// When it does not end.
    pub fn end(self) -> (i32, String) {
        let Self { process, control } = self;
        let end = match process {
            Process::Started(child) => end_of(child),
            Process::Forked(forked) => forked.end(),
        };
        // Until then, as a daemon does.
        drop(control);
        end
    }
}

fn end_of(mut process: Child) -> (i32, String) {
    let left = Instant::now();
    let status = loop {
        if let Some(status) = process.try_wait().expect("a worker's status") {
            break status;
        }
        if left.elapsed() > END {
            let _ = process.kill();
            let _ = process.wait();
            panic!("the worker is still there {} s after its client left", END.as_secs());
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let mut said = String::new();
    if let Some(mut stderr) = process.stderr.take() {
        let _ = stderr.read_to_string(&mut said);
    }
    (status.code().unwrap_or_else(|| -status.signal().unwrap_or(0)), said)
}

//! Workers: each a process that was started, or forked by one that has loaded OpenCL already.

use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ropeway_worker::{WorkerOptions, handoff};

use crate::nursery::{Forked, Nursery, be_nursery};

/// Set in the processes that are workers, or fork them.
const WORKER: &str = "ROPEWAY_FUZZ_WORKER";

/// Most bytes of buffers of a session: enough for all that is good, and little enough to be filled with anything.
const QUOTA: u64 = 64 << 20;

/// A worker's time to end when its client has gone.
const END: Duration = Duration::from_secs(2);

/// A worker's time to become warm: a driver may compile something for the first time.
const WARM: Duration = Duration::from_secs(60);

/// Workers that were started ahead of their sessions.
static READY: Mutex<Vec<Worker>> = Mutex::new(Vec::new());

/// Is a worker, or forks workers, and never returns, in a process that a target started; `main` begins with it.
pub fn become_worker_if_asked() {
    let Some(what) = std::env::var_os(WORKER) else { return };
    let code = match std::io::stdin().as_fd().try_clone_to_owned() {
        Ok(socket) if what == "nursery" => be_nursery(&socket),
        Ok(control) => be_worker(control),
        Err(_) => 1,
    };
    std::process::exit(code.into());
}

/// Serves one session.
pub fn be_worker(control: OwnedFd) -> u8 {
    let options = WorkerOptions { memory_quota: Some(QUOTA), ..WorkerOptions::default() };
    ropeway_worker::run(control, options)
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
        let (control, theirs) = control();
        let process = itself("1", theirs).stderr(Stdio::piped()).spawn().expect("a worker process");
        Self { process: Process::Started(process), control }
    }

    /// A worker on the stub of OpenCL, forked for this thread.
    pub fn forked() -> Self {
        let (control, theirs) = control();
        Self { process: Process::Forked(Nursery::fork(theirs)), control }
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

/// Both ends of a control socket, this process's with a time after which a worker counts as stuck.
fn control() -> (OwnedFd, OwnedFd) {
    let (control, theirs) = handoff::pair().expect("a socket pair");
    // Only for the timeout, which all sockets have.
    let control = UnixStream::from(control);
    control.set_read_timeout(Some(WARM)).expect("a timeout");
    (OwnedFd::from(control), theirs)
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

//! Processes that have loaded a stub of OpenCL, and what they fork: a *ward* serves some sessions, one after the other,
//! each with all the threads of a worker, which stay behind when it is over, and go when the ward ends. So a session
//! costs what its own threads and messages do, and no process.

use std::cell::RefCell;
use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Read, Seek};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{SigHandler, Signal, signal};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use ropeway_worker::{Prepared, handoff};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv,
    recvmsg, send, sendmsg,
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::worker::{itself, options};

/// Names the folder with the stub's .icd file.
const STUB: &str = "ROPEWAY_FUZZ_STUB";

/// Set for a stub without threads.
const INLINE: &str = "STUB_INLINE";

/// A session's time to end when its client has gone, where many are at work on each processor.
const END: Duration = Duration::from_secs(10);

/// A ward's time to end when nobody asks it for sessions any more: the system has all their threads to end.
const WARD_END: Duration = Duration::from_secs(60);

/// Most sessions of a ward: what those before have left behind is then gone.
const MOST: i32 = 24;

/// Exit codes of a nursery.
const NO_STUB: u8 = 1;

/// The nursery of a thread.
struct Nursery {
    process: Child,
    /// For each ward, a message to it with the ward's socket, and one back with its end.
    socket: OwnedFd,
    ward: Option<Ward>,
}

/// A process that serves sessions.
struct Ward {
    /// For each session, a message to it with the control socket, and one back with its number and exit code.
    socket: OwnedFd,
    /// How many sessions it has had.
    begun: i32,
    /// What they have written on standard error.
    said: File,
}

/// How many nurseries there have been.
static NURSERIES: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static OWN: RefCell<Option<Nursery>> = const { RefCell::new(None) };
}

/// A session that a ward of this thread's serves.
pub struct Forked(Nursery, Ward);

impl Forked {
    /// One with this control socket, behind others in the same ward, unless it is to be `alone`.
    ///
    /// # Panics
    /// When there is no stub.
    pub fn begin(control: OwnedFd, alone: bool) -> Self {
        let mut nursery = OWN.take().unwrap_or_else(Nursery::start);
        let mut ward = match nursery.ward.take() {
            Some(ward) if ward.begun < MOST && !alone => ward,
            before => {
                if let Some(before) = before {
                    drop(before);
                    assert_eq!(nursery.hear(), 0, "a process did not end well between two sessions");
                }
                nursery.fork()
            }
        };
        ward.begun += 1;
        // Where it has crashed between two sessions, the end of this one says so.
        let _ = pass(&ward.socket, &[control.as_fd()]);
        Self(nursery, ward)
    }

    /// How many sessions its ward has had before.
    pub fn before(&self) -> i32 {
        self.1.begun - 1
    }

    /// Waits for its end: the exit code that a worker would have, or the signal that ended the ward as a negative
    /// number; and what was written on standard error.
    ///
    /// # Panics
    /// When it does not end.
    pub fn end(self) -> (i32, String) {
        let Self(mut nursery, mut ward) = self;
        let code = loop {
            match hear(&ward.socket) {
                Ok(Some([number, code])) if number == ward.begun => break code,
                // Another thread of a session before has come to its end, too.
                Ok(Some(_)) => {}
                // The ward has ended, for this session or for what others before have left behind.
                Ok(None) => break i32::MIN,
                // With its socket, the ward's end comes, too.
                Err(_) => panic!("the session is still there {} s after its client left", END.as_secs()),
            }
        };
        if code == 0 {
            nursery.ward = Some(ward);
            OWN.set(Some(nursery));
            return (0, String::new());
        }
        let mut said = String::new();
        let _ = ward.said.rewind().and_then(|()| ward.said.read_to_string(&mut said));
        drop(ward);
        let end = nursery.hear();
        OWN.set(Some(nursery));
        (if code == i32::MIN { end } else { code }, said)
    }
}

impl Nursery {
    fn start() -> Self {
        let vendors = std::env::var_os(STUB).unwrap_or_else(|| panic!("fuzz/brief.sh sets {STUB}"));
        let number = NURSERIES.fetch_add(1, Ordering::Relaxed);
        // Most are kept on one processor with their clients, where they wake each other fastest; the others' threads
        // really run at the same time.
        if !matches!(number % 8, 0 | 2) {
            keep_on_one_processor(number);
        }
        let (socket, theirs) = pair(WARD_END);
        let mut command = itself("nursery", theirs);
        // A heap of its own for each of many threads that soon end costs more than it saves.
        command.env("OCL_ICD_VENDORS", vendors).env("MALLOC_ARENA_MAX", "1");
        // Most drivers carry commands out in the thread that enqueues them.
        if !number.is_multiple_of(4) {
            command.env(INLINE, "1");
        }
        // SAFETY: between fork and exec, signal may be called. Where these are ignored, Rust gives no thread a second
        // stack for its handler; the nursery itself has them end the process.
        unsafe { command.pre_exec(|| handle_faults(SigHandler::SigIgn)) };
        Self { process: command.spawn().expect("a process"), socket, ward: None }
    }

    fn fork(&mut self) -> Ward {
        let (socket, theirs) = pair(END);
        let said = memfd_create("said", MemfdFlags::CLOEXEC).expect("a file in memory");
        pass(&self.socket, &[theirs.as_fd(), said.as_fd()]).expect("a process that forks wards");
        Ward { socket, begun: 0, said: File::from(said) }
    }

    /// The end of the ward, whose socket is closed: its exit code, or the signal that ended it as a negative number.
    fn hear(&self) -> i32 {
        let heard = hear(&self.socket).expect("a process ends once nobody asks it for sessions");
        let [end] = heard.expect("the process that forks others is there");
        end
    }
}

impl Drop for Nursery {
    fn drop(&mut self) {
        // Its ward ends when the socket is closed.
        self.ward = None;
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A socket, with a time after which whoever has the other end counts as stuck.
fn pair(time: Duration) -> (OwnedFd, OwnedFd) {
    let (own, theirs) = handoff::pair().expect("a socket pair");
    // Only for the timeout, which all sockets have.
    let own = UnixStream::from(own);
    own.set_read_timeout(Some(time)).expect("a timeout");
    (OwnedFd::from(own), theirs)
}

/// Passes descriptors on.
fn pass(socket: &OwnedFd, fds: &[BorrowedFd<'_>]) -> rustix::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(fds));
    sendmsg(socket, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::NOSIGNAL).map(drop)
}

/// Takes descriptors that the other end passes on; `None` when it is closed.
fn take<const N: usize>(socket: &OwnedFd) -> Option<[OwnedFd; N]> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(socket, &mut [IoSliceMut::new(&mut [0])], &mut ancillary, RecvFlags::CMSG_CLOEXEC).ok()?;
    let fds = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds.collect::<Vec<_>>()),
        _ => None,
    })?;
    (got.bytes > 0).then(|| fds.try_into().ok()).flatten()
}

fn say<const N: usize>(socket: &OwnedFd, numbers: [i32; N]) -> bool {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    send(socket, &bytes, SendFlags::NOSIGNAL).is_ok()
}

/// Numbers that the other end says; `None` when it is closed.
fn hear<const N: usize>(socket: &OwnedFd) -> rustix::io::Result<Option<[i32; N]>> {
    let mut bytes = [0; 8];
    let len = match recv(socket, &mut bytes, RecvFlags::empty()) {
        Ok((_, len)) => len,
        // It has ended without reading all that was sent to it.
        Err(Errno::CONNRESET) => 0,
        Err(error) => return Err(error),
    };
    let number = |index: usize| bytes[4 * index..].first_chunk().map_or(0, |number| i32::from_le_bytes(*number));
    Ok((len == 4 * N).then(|| std::array::from_fn(number)))
}

/// Sets what a fault does.
fn handle_faults(handler: SigHandler) -> std::io::Result<()> {
    for fault in [Signal::SIGSEGV, Signal::SIGBUS] {
        // SAFETY: neither handler is a function.
        unsafe { signal(fault, handler) }?;
    }
    Ok(())
}

fn keep_on_one_processor(number: usize) {
    let Ok(all) = sched_getaffinity(None) else { return };
    let there: Vec<_> = (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu)).collect();
    let mut one = CpuSet::new();
    one.set(there[(number + number / 4) % there.len()]);
    // It may go elsewhere, if it has to.
    let _ = sched_setaffinity(None, &one);
}

/// Forks wards as long as anybody asks for them; the exit code.
pub fn be_nursery(socket: &OwnedFd) -> u8 {
    if handle_faults(SigHandler::SigDfl).is_err() {
        return NO_STUB;
    }
    if let Err(why) = ropeway_worker::load() {
        eprintln!("fuzz: no stub of OpenCL: {why}");
        return NO_STUB;
    }
    // With a stub that has threads, wards have to begin at the beginning.
    let count = if std::env::var_os(INLINE).is_some() { MOST } else { 0 };
    let prepared: Result<Vec<_>, _> = (0..count).map(|_| Prepared::new(&options())).collect();
    let Ok(mut prepared) = prepared else { return NO_STUB };
    while let Some([ward, said]) = take(socket) {
        // SAFETY: this process has one thread: it has started none, and neither the loader nor the stub does before
        // there is a context, or at all. So the child may do whatever this process may.
        match unsafe { fork() } {
            Ok(ForkResult::Child) => be_ward(ward, &said, std::mem::take(&mut prepared)),
            Ok(ForkResult::Parent { child }) => {
                drop((ward, said));
                let end = match waitpid(child, None) {
                    Ok(WaitStatus::Exited(_, code)) => code,
                    Ok(WaitStatus::Signaled(_, signal, _)) => -(signal as i32),
                    _ => i32::MIN,
                };
                if !say(socket, [end]) {
                    return 0;
                }
            }
            Err(_) => return 1,
        }
    }
    0
}

/// Serves one session after the other, each with what was prepared for it.
fn be_ward(socket: OwnedFd, said: &OwnedFd, mut prepared: Vec<Prepared>) -> ! {
    let socket = Arc::new(socket);
    let mut number = 0;
    while let Some([control]) = take(&socket) {
        number += 1;
        // The session before has put a pipe of its own there.
        let is_quiet = rustix::stdio::dup2_stderr(said).is_ok();
        let to = socket.clone();
        let told = move |code| _ = say(&to, [number, code]);
        let with = (options(), prepared.pop());
        let session = thread::Builder::new().spawn(move || ropeway_worker::run_in_turn(control, with, told));
        if !is_quiet || session.is_err() {
            break;
        }
    }
    // SAFETY: _exit has no preconditions. What sessions have left behind would not survive exit handlers.
    unsafe { nix::libc::_exit(0) }
}

//! A process that has loaded a stub of OpenCL and forks a worker for each session: a session then costs a fraction of a
//! millisecond, and is still served as any other, by a process of its own with all its threads.

use std::cell::RefCell;
use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Read, Seek};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv,
    recvmsg, send, sendmsg,
};

use crate::worker::{be_worker, itself};

/// Names the folder with the stub's .icd file.
const STUB: &str = "ROPEWAY_FUZZ_STUB";

/// A worker's time to end when its client has gone, where many are at work on each processor.
const END: Duration = Duration::from_secs(10);

/// Exit codes of a nursery.
const NO_STUB: u8 = 1;

/// The nursery of a thread.
pub struct Nursery {
    process: Child,
    /// One message each way for each worker's begin, and one for its end. A timeout is set on it.
    socket: OwnedFd,
    /// What its workers write on standard error.
    said: File,
}

thread_local! {
    static OWN: RefCell<Option<Nursery>> = const { RefCell::new(None) };
}

/// A worker of this thread's nursery.
pub struct Forked(Nursery);

impl Nursery {
    /// A worker with this control socket.
    ///
    /// # Panics
    /// When there is no stub.
    pub fn fork(control: OwnedFd) -> Forked {
        let nursery = OWN.take().unwrap_or_else(Self::start);
        ftruncate(&nursery.said, 0).expect("an empty file");
        (&nursery.said).rewind().expect("its beginning");
        let fds = [control.as_fd(), nursery.said.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        sendmsg(&nursery.socket, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::NOSIGNAL)
            .expect("a process that forks workers");
        Forked(nursery)
    }

    fn start() -> Self {
        let vendors = std::env::var_os(STUB).unwrap_or_else(|| panic!("fuzz/brief.sh sets {STUB}"));
        let (socket, theirs) = ropeway_worker::handoff::pair().expect("a socket pair");
        // Only for the timeout, which all sockets have.
        let socket = UnixStream::from(socket);
        socket.set_read_timeout(Some(END)).expect("a timeout");
        let process = itself("nursery", theirs).env("OCL_ICD_VENDORS", vendors).spawn().expect("a process");
        let said = memfd_create("said", MemfdFlags::CLOEXEC).expect("a file in memory");
        Self { process, socket: OwnedFd::from(socket), said: File::from(said) }
    }

    /// A number that it says.
    fn hear(&self) -> Option<i32> {
        let mut number = [0; 4];
        let (_, len) = recv(&self.socket, &mut number, RecvFlags::empty()).ok()?;
        (len == number.len()).then(|| i32::from_le_bytes(number))
    }
}

impl Forked {
    /// Waits for the worker's end: its exit code, or the signal that ended it as a negative number; and what it wrote
    /// on standard error.
    ///
    /// # Panics
    /// When it does not end.
    pub fn end(self) -> (i32, String) {
        let Self(mut nursery) = self;
        let worker = nursery.hear().expect("a worker was forked");
        let Some(code) = nursery.hear() else {
            let _ = kill(Pid::from_raw(worker), Signal::SIGKILL);
            panic!("the worker is still there {} s after its client left", END.as_secs());
        };
        let mut said = String::new();
        nursery.said.rewind().expect("its beginning");
        let _ = nursery.said.read_to_string(&mut said);
        OWN.set(Some(nursery));
        (code, said)
    }
}

impl Drop for Nursery {
    fn drop(&mut self) {
        // It ends when its socket is closed, or at once.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Forks workers as long as anybody asks for them; the exit code.
pub fn be_nursery(socket: &OwnedFd) -> u8 {
    if let Err(why) = ropeway_worker::load() {
        eprintln!("fuzz: no stub of OpenCL: {why}");
        return NO_STUB;
    }
    while let Some((control, said)) = take(socket.as_fd()) {
        // SAFETY: this process has one thread: it has started none, and neither the loader nor the stub does before
        // there is a context. So the child may do whatever this process may.
        match unsafe { fork() } {
            Ok(ForkResult::Child) => {
                let is_quiet = rustix::stdio::dup2_stderr(&said).is_ok();
                drop(said);
                std::process::exit(if is_quiet { be_worker(control).into() } else { 1 });
            }
            Ok(ForkResult::Parent { child }) => {
                drop((control, said));
                let tell = |number: i32| send(socket, &number.to_le_bytes(), SendFlags::NOSIGNAL).is_ok();
                let code = |status| match status {
                    WaitStatus::Exited(_, code) => code,
                    WaitStatus::Signaled(_, signal, _) => -(signal as i32),
                    _ => i32::MIN,
                };
                if !tell(child.as_raw()) || !tell(waitpid(child, None).map_or(i32::MIN, code)) {
                    return 0;
                }
            }
            Err(_) => return 1,
        }
    }
    0
}

/// The next worker's control socket, and where it writes.
fn take(socket: BorrowedFd<'_>) -> Option<(OwnedFd, OwnedFd)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(socket, &mut [IoSliceMut::new(&mut [0])], &mut ancillary, RecvFlags::CMSG_CLOEXEC).ok()?;
    let mut fds = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    })?;
    let both = (fds.next()?, fds.next()?);
    (got.bytes > 0).then_some(both)
}

//! The files behind such devices, at the server.
//!
//! Each is divided into as many equal parts as it is to have sessions at the same time. The daemon reads and writes the
//! file and never maps it: who shortens it ends the workers that use it, and nobody else.
//!
//! A part is given out again when the worker is gone *and* the client has let go of it: as long as it lives, it may write
//! there. A client unmaps the memory before it closes its socket, and so does the system when it kills one.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, flock, fstat, open};
use rustix::io::pwrite;
use rustix::net::{Shutdown, shutdown};

use super::{MAGIC, NAME, PartPlace, STEP};
use crate::patience::is_ready;
use crate::shm::{CONTROLS, LEN};

/// The files that a server shares with virtual machines.
#[derive(Debug, Default)]
pub struct GuestMemory {
    files: Vec<Arc<Shared>>,
}

/// One file.
#[derive(Debug)]
struct Shared {
    path: PathBuf,
    file: OwnedFd,
    name: [u8; NAME],
    /// The length of each part, in bytes.
    part: u64,
    states: Mutex<Vec<State>>,
}

/// What a part is used for.
#[derive(Debug)]
enum State {
    Free,
    /// A session has it.
    Used,
    /// The session is over, and the client at the other end of this socket may still be there.
    Left(OwnedFd),
}

/// A session's part of a file. When this is dropped, no worker may use it any more.
#[derive(Debug)]
pub struct GuestPart {
    shared: Arc<Shared>,
    index: usize,
    /// The session's socket.
    socket: OwnedFd,
    mark: u64,
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| io::Error::other("the system gives no random bytes"))?;
    Ok(bytes)
}

fn write(file: &OwnedFd, bytes: &[u8], at: u64) -> io::Result<()> {
    match pwrite(file, bytes, at)? == bytes.len() {
        true => Ok(()),
        false => Err(ErrorKind::WriteZero.into()),
    }
}

impl GuestMemory {
    /// Shares the file at `path`, as it is, among so many sessions at the same time.
    ///
    /// # Errors
    /// The operating system's error; a sentence where the file is of no use.
    pub fn add(&mut self, path: &Path, sessions: u64) -> io::Result<()> {
        let wrong = |why: String| io::Error::new(ErrorKind::InvalidInput, why);
        let file = open(path, OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())?;
        let about = fstat(&file)?;
        if FileType::from_raw_mode(about.st_mode) != FileType::RegularFile {
            return Err(wrong("it is no file".to_owned()));
        }
        let size = u64::try_from(about.st_size).unwrap_or(0);
        let part = size.saturating_sub(STEP) / sessions.max(1) / STEP * STEP;
        if part < LEN {
            let least = (LEN.next_multiple_of(STEP) * sessions + STEP).next_power_of_two() >> 20;
            return Err(wrong(format!(
                "with {size} bytes it is too short for {sessions} sessions: {least} MiB would do"
            )));
        }
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(wrong("another server uses it: each needs a device of its own".to_owned()));
        }
        let name = random()?;
        write(&file, &[MAGIC, name].concat(), 0)?;
        let states = (0..sessions).map(|_| State::Free).collect();
        self.files.push(Arc::new(Shared { path: path.to_owned(), file, name, part, states: Mutex::new(states) }));
        Ok(())
    }

    /// Takes a part for the client at the other end of this socket, which sees these devices. `None`: it sees none of ours,
    /// or all parts are taken.
    pub fn take(&self, devices: &[[u8; NAME]], socket: &impl AsFd) -> Option<GuestPart> {
        let shared = self.files.iter().find(|shared| devices.contains(&shared.name))?;
        let (socket, mark) = (socket.as_fd().try_clone_to_owned().ok()?, u64::from_ne_bytes(random().ok()?) | 1);
        let index = shared.take()?;
        let part = GuestPart { shared: Arc::clone(shared), index, socket, mark };
        // The ends of the rings begin at 0. Where that cannot be written, the part goes back.
        write(&shared.file, &[0; CONTROLS], part.place().at).ok()?;
        Some(part)
    }
}

impl Shared {
    fn states(&self) -> MutexGuard<'_, Vec<State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a part that nobody uses.
    fn take(&self) -> Option<usize> {
        let mut states = self.states();
        let index = states.iter().position(|state| match state {
            State::Free => true,
            State::Used => false,
            State::Left(socket) => has_hung_up(socket),
        })?;
        states[index] = State::Used;
        Some(index)
    }
}

/// Whether the other end of a socket has closed it.
fn has_hung_up(socket: &OwnedFd) -> bool {
    is_ready(socket.as_fd(), PollFlags::RDHUP, Duration::ZERO)
}

impl GuestPart {
    /// Where it is in the file, for a worker.
    pub fn place(&self) -> PartPlace {
        let Shared { part: len, .. } = *self.shared;
        PartPlace { at: STEP + self.index as u64 * len, len, mark: self.mark }
    }

    /// What the server calls the device.
    pub fn device(&self) -> [u8; NAME] {
        self.shared.name
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }
}

impl AsFd for GuestPart {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.file.as_fd()
    }
}

impl Drop for GuestPart {
    fn drop(&mut self) {
        // The client is told, as this end of the socket would otherwise stay open; it answers by closing its own.
        let _ = shutdown(&self.socket, Shutdown::Write);
        let state = self.socket.try_clone().map_or(State::Used, State::Left);
        self.shared.states()[self.index] = state;
    }
}

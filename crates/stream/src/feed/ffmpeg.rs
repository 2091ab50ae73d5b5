//! The program that receives a stream from a network or a camera: ffmpeg, which copies it to its standard output.
//!
//! It runs outside of the sessions' sandbox, as the server's user. Its arguments are a list, which no shell sees, and all
//! but the address are ours.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getppid, kill_process, pidfd_open, set_parent_process_death_signal};

use super::arguments::{from_camera, from_url, session_description};
use crate::declaration::{Declaration, Origin};

/// How long it has to end when it is asked to.
const END_LIMIT: Duration = Duration::from_secs(1);

/// How long a camera has to say which formats it gives.
const ASK_LIMIT: Duration = Duration::from_secs(10);

/// How long a server of RTSP may send nothing: its machine may be gone without a word.
const SILENCE: Duration = Duration::from_secs(20);

/// Most bytes of a line that it says.
const MAX_LINE: usize = 500;

/// Most bytes that a camera says of its formats.
const MAX_FORMATS: u64 = 256 << 10;

/// A process that receives a stream. Dropping it ends the process.
pub(super) struct Receiver {
    child: Child,
    output: ChildStdout,
    errors: Option<ChildStderr>,
    /// What the process has said last.
    line: Vec<u8>,
    last: String,
    address: String,
    /// When it was heard last, if it may not be silent for long.
    heard: Option<Instant>,
}

impl Receiver {
    /// Starts it, after so many failures.
    ///
    /// # Errors
    /// One sentence: the program is not there, or cannot be started.
    pub fn start(declaration: &Declaration, program: &OsStr, failures: u32) -> Result<Self, String> {
        let (arguments, description) = match &declaration.origin {
            Origin::Url(url) => {
                (from_url(url, declaration.format, failures), session_description(url, declaration.format))
            }
            Origin::Camera(path) => (from_camera(path, declaration, &formats(path, program)?), None),
            Origin::File(_) | Origin::Fifo(_) => return Err("it is read without a program".to_owned()),
        };
        let stdin = if description.is_some() { Stdio::piped() } else { Stdio::null() };
        let mut child = spawn(Command::new(program).args(arguments).stdin(stdin).stdout(Stdio::piped()), program)?;
        if let (Some(mut stdin), Some(text)) = (child.stdin.take(), description) {
            // A few hundred bytes, for which a pipe has room. If the process has ended already, its end is seen.
            let _ = stdin.write_all(text.as_bytes());
        }
        let (Some(output), errors) = (child.stdout.take(), child.stderr.take()) else {
            return Err("the program has no output".to_owned());
        };
        let address = match &declaration.origin {
            Origin::Url(url) => url.clone(),
            _ => String::new(),
        };
        let heard = address.starts_with("rtsp://").then(Instant::now);
        let receiver = Self { child, output, errors, line: Vec::new(), last: String::new(), address, heard };
        let pipes = [Some(receiver.output.as_fd()), receiver.errors.as_ref().map(AsFd::as_fd)];
        for pipe in pipes.into_iter().flatten() {
            do_not_wait(pipe).map_err(|error| format!("cannot read what {} says: {error}", program.display()))?;
        }
        Ok(receiver)
    }

    /// What to wait for.
    pub fn outputs(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.output.as_fd()).chain(self.errors.as_ref().map(AsFd::as_fd))
    }

    /// When it has been silent for too long.
    pub fn silent_at(&self) -> Option<Instant> {
        self.heard.map(|heard| heard + SILENCE)
    }

    /// Reads what has come of the stream; 0 at its end.
    ///
    /// # Errors
    /// Why the stream has failed: the last that the program has said.
    pub fn read(&mut self, into: &mut [u8]) -> Result<Option<usize>, String> {
        self.hear();
        match rustix::io::read(&self.output, into) {
            Ok(0) => self.end().map(|()| Some(0)),
            Ok(got) => {
                self.heard = self.heard.map(|_| Instant::now());
                Ok(Some(got))
            }
            Err(Errno::AGAIN | Errno::INTR) if self.silent_at().is_some_and(|at| Instant::now() >= at) => {
                Err(format!("its server has sent nothing for {} s", SILENCE.as_secs()))
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(io::Error::from(error).to_string()),
        }
    }

    /// Reads what the program says, and keeps the last line.
    fn hear(&mut self) {
        let mut bytes = [0; 4096];
        while let Some(errors) = &self.errors {
            match rustix::io::read(errors, &mut bytes) {
                Ok(0) => self.errors = None,
                Ok(got) => {
                    for &byte in &bytes[..got] {
                        if byte == b'\n' || byte == b'\r' {
                            self.ends_line();
                        } else if self.line.len() < MAX_LINE {
                            self.line.push(byte);
                        }
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => self.errors = None,
            }
        }
    }

    fn ends_line(&mut self) {
        let text = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
        let text: String = text.chars().filter(|letter| !letter.is_control()).collect();
        if !text.trim().is_empty() {
            // The address may have a password in it.
            self.last = if self.address.is_empty() { text } else { text.replace(&self.address, "its address") };
        }
    }

    /// Waits, not for long, until the program that has closed its output has ended.
    ///
    /// # Errors
    /// It failed.
    fn end(&mut self) -> Result<(), String> {
        let status = await_end(&mut self.child, END_LIMIT).map_err(|error| error.to_string())?;
        self.hear();
        self.ends_line();
        match status {
            Some(status) if status.success() => Ok(()),
            Some(status) if self.last.is_empty() => Err(format!("ffmpeg has ended without a word ({status})")),
            // What it has said before is not why it was killed.
            Some(status) if status.signal().is_some() => {
                Err(format!("ffmpeg has ended ({status}), and said before: {}", self.last.trim()))
            }
            Some(_) => Err(format!("ffmpeg has ended: {}", self.last.trim())),
            None => Err("ffmpeg has closed its output, and does not end".to_owned()),
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // So that it can tell its server that it leaves.
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed())
            && let Ok(None) = self.child.try_wait()
        {
            let _ = kill_process(pid, Signal::TERM);
        }
        if !matches!(await_end(&mut self.child, END_LIMIT), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Waits until the process has ended, or so long.
fn await_end(child: &mut Child, limit: Duration) -> io::Result<Option<std::process::ExitStatus>> {
    if let Some(status) = child.try_wait()? {
        return Ok(Some(status));
    }
    let pid = Pid::from_raw(child.id().cast_signed()).ok_or(io::ErrorKind::InvalidInput)?;
    let exit = pidfd_open(pid, PidfdFlags::empty())?;
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&exit, PollFlags::IN)], Some(&left)) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return child.try_wait(),
        }
    }
}

fn do_not_wait(pipe: BorrowedFd<'_>) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(pipe)?;
    Ok(rustix::fs::fcntl_setfl(pipe, flags | OFlags::NONBLOCK)?)
}

/// Starts a program that ends with this thread at the latest.
fn spawn(command: &mut Command, program: &OsStr) -> Result<Child, String> {
    let parent = rustix::process::getpid();
    let tie = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // It has ended before that call.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    };
    command.stderr(Stdio::piped()).process_group(0);
    #[allow(unsafe_code)]
    // SAFETY: between fork and exec the closure makes two system calls, and neither allocates nor locks.
    unsafe {
        command.pre_exec(tie)
    };
    command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            format!(
                "there is no program {} on the server to receive the stream with; install ffmpeg",
                program.display()
            )
        }
        _ => format!("cannot start {}: {error}", program.display()),
    })
}

/// The formats that a camera says it has, as ffmpeg lists them.
fn formats(path: &Path, program: &OsStr) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(["-hide_banner", "-f", "v4l2", "-list_formats", "all", "-i"]).arg(path);
    let mut child = spawn(command.stdin(Stdio::null()).stdout(Stdio::null()), program)?;
    let Some(errors) = child.stderr.take() else { return Err("the program has no output".to_owned()) };
    // The list is short; a program that says more is ended.
    let reader = std::thread::Builder::new().spawn(move || {
        let mut text = Vec::new();
        let _ = errors.take(MAX_FORMATS).read_to_end(&mut text);
        text
    });
    let ended = await_end(&mut child, ASK_LIMIT);
    let _ = child.kill();
    let _ = child.wait();
    let text = reader.map_err(|error| error.to_string())?.join().unwrap_or_default();
    match ended {
        // It has nothing to do but that, and says so by a failure.
        Ok(Some(_)) => Ok(String::from_utf8_lossy(&text).into_owned()),
        _ => Err(format!("the camera {} does not say which formats it gives", path.display())),
    }
}

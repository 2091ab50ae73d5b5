//! The tunnel itself: one thread that waits for all events at once.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout};
use std::time::{Duration, Instant};

use ropeway_client::ssh::{Answer, TunnelError};
use ropeway_transport::SshHost;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::tunnel::place::Place;
use crate::tunnel::ssh;

/// How often the server hears that this machine is there.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

/// The most that is kept of what ssh and the server say, for the error.
const MAX_SAID: usize = 4096;

/// How long the last words of an ssh that has ended are waited for.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A tunnel to the server on a host.
#[derive(Debug)]
pub struct Keeper {
    host: SshHost,
    place: Place,
    /// Where programs ask.
    listener: UnixListener,
    /// Programs that use the tunnel, or wait for it.
    programs: Vec<UnixStream>,
    ssh: Child,
    /// The server's standard output; none once it is at its end.
    output: Option<ChildStdout>,
    /// What the server said on it.
    output_text: Vec<u8>,
    /// Standard error of ssh and the server; none once it is at its end.
    errors: Option<ChildStderr>,
    /// The end of what was said on it.
    errors_text: Vec<u8>,
    /// Where programs connect; none until the server is there.
    link: Option<PathBuf>,
    /// When the server has to be there.
    ready_by: Instant,
    /// For how long the tunnel stays without a program.
    keep: Duration,
    /// Whether any program has come.
    was_used: bool,
    /// Since when there has been no program.
    idle_since: Instant,
    /// When the server last heard that this machine is there.
    last_sign: Instant,
}

/// The source of a poll event.
#[derive(Clone, Copy)]
enum Source {
    Listener,
    Output,
    Errors,
    Program(usize),
}

impl Keeper {
    /// Listens for programs, and starts ssh. The host has to answer within `timeout`, the server within `patience`.
    pub fn start(
        host: &SshHost,
        place: Place,
        timeout: Duration,
        patience: Duration,
        keep: Duration,
    ) -> io::Result<Self> {
        let listener = UnixListener::bind(place.socket())?;
        listener.set_nonblocking(true)?;
        let now = Instant::now();
        let mut ssh =
            ssh::start(host, &place.control(), timeout).map_err(|error| io::Error::other(ssh::no_ssh(&error)))?;
        // The server counts on the next one from the first on.
        give_sign(&mut ssh);
        Ok(Self {
            host: host.clone(),
            place,
            listener,
            programs: Vec::new(),
            output: ssh.stdout.take(),
            output_text: Vec::new(),
            errors: ssh.stderr.take(),
            errors_text: Vec::new(),
            ssh,
            link: None,
            ready_by: now + patience,
            keep,
            was_used: false,
            idle_since: now,
            last_sign: now,
        })
    }

    /// Keeps the tunnel until no program has used it for a while, or ssh ends.
    pub fn run(mut self) -> io::Result<()> {
        let end = self.serve();
        if let Ok(Some(error)) = &end {
            self.accept();
            let line = Answer::Failed(error.clone()).to_line(&self.host);
            self.programs.iter().for_each(|program| tell(program, &line));
        }
        let Self { place, listener, mut ssh, output, errors, programs, .. } = self;
        // From here on, a program starts a new tunnel.
        drop(place);
        drop((listener, programs, output, errors));
        // The server ends with its input, and ssh with the server.
        drop(ssh.stdin.take());
        let _ = ssh::end(&mut ssh);
        end.map(drop)
    }

    /// Returns why there is no server, or nothing if there was one and the tunnel is not needed any more.
    fn serve(&mut self) -> io::Result<Option<TunnelError>> {
        loop {
            let now = Instant::now();
            if self.link.is_none() && now >= self.ready_by {
                let (what, advice) =
                    ("the server does not start in time", "`ssh HOST ropeway serve --stdio` shows what it says");
                return Ok(Some(TunnelError {
                    what: what.to_owned(),
                    advice: advice.replace("HOST", &self.host.destination()),
                }));
            }
            if self.end_at().is_some_and(|end| now >= end) {
                return Ok(None);
            }
            if now >= self.last_sign + SIGN_OF_LIFE {
                self.last_sign = now;
                give_sign(&mut self.ssh);
            }
            for source in self.wait(now)?.into_iter().rev() {
                match source {
                    Source::Listener => self.accept(),
                    Source::Program(index) => self.hear_program(index),
                    Source::Errors => self.hear_errors(),
                    Source::Output => {
                        if let Some(end) = self.hear_output() {
                            return Ok(end);
                        }
                    }
                }
            }
        }
    }

    /// When the tunnel ends if no program comes; `None` while there are any, or no server yet.
    fn end_at(&self) -> Option<Instant> {
        let end = self.idle_since + self.keep;
        // The program that started the tunnel may be slower than ssh.
        let end = if self.was_used { end } else { end.max(self.ready_by) };
        (self.link.is_some() && self.programs.is_empty()).then_some(end)
    }

    /// Waits for something to happen.
    fn wait(&self, now: Instant) -> io::Result<Vec<Source>> {
        let mut sources: Vec<(Source, BorrowedFd<'_>)> = vec![(Source::Listener, self.listener.as_fd())];
        sources.extend(self.output.as_ref().map(|output| (Source::Output, output.as_fd())));
        sources.extend(self.errors.as_ref().map(|errors| (Source::Errors, errors.as_fd())));
        sources
            .extend(self.programs.iter().enumerate().map(|(index, program)| (Source::Program(index), program.as_fd())));
        let mut until = self.last_sign + SIGN_OF_LIFE;
        match self.link {
            None => until = until.min(self.ready_by),
            Some(_) => until = self.end_at().map_or(until, |end| until.min(end)),
        }
        let left = until.saturating_duration_since(now);
        let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        let mut fds: Vec<_> = sources.iter().map(|(_, fd)| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        }
        let happened = sources.iter().zip(&fds).filter(|(_, fd)| !fd.revents().is_empty());
        Ok(happened.map(|((source, _), _)| *source).collect())
    }

    /// Takes in all programs that have come.
    fn accept(&mut self) {
        while let Ok((program, _)) = self.listener.accept() {
            if program.set_nonblocking(true).is_err() {
                continue;
            }
            if let Some(link) = &self.link {
                tell(&program, &Answer::Ready(link.clone()).to_line(&self.host));
            }
            self.was_used = true;
            self.programs.push(program);
        }
    }

    /// A program has ended, or needs the tunnel no more; one that says something has found the server to be of no use.
    fn hear_program(&mut self, index: usize) {
        match (&self.programs[index]).read(&mut [0; 64]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Ok(1..) => {
                self.keep = Duration::ZERO;
                return;
            }
            Ok(0) | Err(_) => {}
        }
        self.programs.swap_remove(index);
        self.idle_since = Instant::now();
    }

    fn hear_errors(&mut self) {
        let mut piece = [0; MAX_SAID];
        match self.errors.as_mut().map(|errors| errors.read(&mut piece)) {
            Some(Ok(n)) if n > 0 => {
                self.errors_text.extend_from_slice(&piece[..n]);
                let beyond = self.errors_text.len().saturating_sub(MAX_SAID);
                self.errors_text.drain(..beyond);
            }
            _ => self.errors = None,
        }
    }

    /// Reads what the server says; returns what follows if that is the tunnel's end.
    fn hear_output(&mut self) -> Option<Option<TunnelError>> {
        let mut piece = [0; 512];
        match self.output.as_mut()?.read(&mut piece) {
            Ok(n) if n > 0 => self.output_text.extend_from_slice(&piece[..n]),
            _ => {
                self.output = None;
                let was_there = self.link.is_some();
                return Some((!was_there).then(|| self.why_ended()));
            }
        }
        if self.link.is_some() {
            self.output_text.clear();
            return None;
        }
        let text = String::from_utf8_lossy(&self.output_text).into_owned();
        let mut lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        if let Some(remote) = lines.find_map(|line| line.trim_end().strip_prefix("listening on unix:")) {
            if let Err(error) = ssh::forward(&self.host, &self.place.control(), &self.place.link(), remote) {
                return Some(Some(error));
            }
            let link = self.place.link();
            let line = Answer::Ready(link.clone()).to_line(&self.host);
            self.programs.iter().for_each(|program| tell(program, &line));
            self.link = Some(link);
            self.idle_since = Instant::now();
        } else if text.len() > MAX_SAID {
            let (what, advice) =
                ("the host's shell says too much before the server does", "its start-up files must print nothing");
            return Some(Some(TunnelError { what: what.to_owned(), advice: advice.to_owned() }));
        }
        None
    }

    /// Why ssh ended without a server.
    fn why_ended(&mut self) -> TunnelError {
        drop(self.ssh.stdin.take());
        let status = ssh::end(&mut self.ssh).ok();
        // A program that ssh has started may keep its standard error open.
        let deadline = Instant::now() + LAST_WORDS;
        while let Some(errors) = &self.errors {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
            match poll(&mut [PollFd::new(errors, PollFlags::IN)], Some(&timeout)) {
                Ok(0) | Err(_) => break,
                Ok(_) => self.hear_errors(),
            }
        }
        ssh::explain(&self.host, status, &String::from_utf8_lossy(&self.errors_text))
    }
}

/// Shows the server that this machine is there. An ssh that takes nothing has ended, which is seen by its output.
fn give_sign(ssh: &mut Child) {
    let _ = ssh.stdin.as_mut().map(|input| input.write_all(b"\n"));
}

/// Answers a program. One that does not take so little is not there any more.
fn tell(mut program: &UnixStream, line: &str) {
    let _ = program.write_all(line.as_bytes());
}

//! One stream that a thread reads for all sessions that want it.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::ffmpeg::Receiver;
use super::subscriber::{Joining, Subscriber};
use crate::cancel::{self, bell};
use crate::cut::{Cutter, begins};
use crate::declaration::{Declaration, Origin};
use crate::queue::Fault;
use crate::reading::{READ, due, open_stream};

/// The pause before a receiver that has failed is started again; it doubles with each failure, ...
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// ... up to this.
const MAX_PAUSE: Duration = Duration::from_secs(15);

/// A thread that reads a stream. Dropping it ends the thread.
pub(super) struct Hub {
    door: Arc<Door>,
    thread: Option<JoinHandle<()>>,
}

/// Where sessions come in.
struct Door {
    state: Mutex<State>,
    bell: OwnedFd,
}

#[derive(Default)]
struct State {
    joining: Vec<Joining>,
    /// Nobody gets in any more.
    is_shut: bool,
    /// The thread has to end.
    has_to_end: bool,
}

impl Door {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hub {
    /// Starts one for a first session, at this socket.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn start(declaration: &Declaration, ffmpeg: &OsStr, first: Joining) -> io::Result<Self> {
        let state = Mutex::new(State { joining: vec![first], ..State::default() });
        let door = Arc::new(Door { state, bell: bell()? });
        let run = Run {
            door: door.clone(),
            cutter: Cutter::new(declaration),
            declaration: declaration.clone(),
            ffmpeg: ffmpeg.to_owned(),
            input: None,
            next: Some(Instant::now()),
            failures: 0,
            begun: Instant::now(),
            given: 0,
            pending: VecDeque::new(),
            then: None,
            over: None,
            sessions: Vec::new(),
            buffer: vec![0; READ],
        };
        let thread = thread::Builder::new().name("feed".into()).spawn(move || run.run())?;
        Ok(Self { door, thread: Some(thread) })
    }

    /// Lets a session in.
    ///
    /// # Errors
    /// The session, if nobody gets in any more.
    pub fn join(&self, session: Joining) -> Result<(), Joining> {
        let mut state = self.door.lock();
        if state.is_shut {
            return Err(session);
        }
        state.joining.push(session);
        drop(state);
        cancel::ring(&self.door.bell);
        Ok(())
    }

    /// Has its thread end, soon.
    pub fn end(&self) {
        self.door.lock().has_to_end = true;
        cancel::ring(&self.door.bell);
    }

    /// Whether its thread has ended.
    pub fn is_done(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.end();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// What a stream is read from.
enum Input {
    Fifo(OwnedFd),
    Program(Receiver),
}

/// What follows the chunks that have been read.
enum Then {
    /// The stream is over.
    Over(Result<(), Fault>),
    /// It has failed, and is tried again.
    Failure(Fault),
}

/// The thread's own.
struct Run {
    door: Arc<Door>,
    declaration: Declaration,
    ffmpeg: OsString,
    input: Option<Input>,
    /// When to open the input, while there is none.
    next: Option<Instant>,
    failures: u32,
    /// When the input was opened, ...
    begun: Instant,
    /// ... and how many chunks of it have been given.
    given: u64,
    cutter: Cutter,
    /// Chunks that are not due, or have to wait.
    pending: VecDeque<Bytes>,
    then: Option<Then>,
    over: Option<Result<(), Fault>>,
    sessions: Vec<Subscriber>,
    buffer: Vec<u8>,
}

impl Run {
    fn run(mut self) {
        while self.admit() {
            if self.next.take_if(|at| Instant::now() >= *at).is_some() {
                self.open();
            }
            let due = self.distribute();
            let over = self.over.as_ref();
            self.sessions.retain_mut(|session| session.serve(over).is_ok());
            if self.sessions.is_empty() {
                continue;
            }
            // A session that has taken something may have made room for more.
            if !self.is_blocked() && due.is_none_or(|due| Instant::now() >= due) && self.has_more() {
                continue;
            }
            if let Err(error) = self.wait(due) {
                self.is_over(Err(Fault::lost(format!("cannot wait for the stream: {error}"))));
            }
        }
    }

    /// Lets in who has come; false if the thread is to end.
    fn admit(&mut self) -> bool {
        let mut state = self.door.lock();
        let is_live = matches!(self.declaration.origin, Origin::Camera(_) | Origin::Url(_));
        let begun = self.given == 0 && !is_live;
        let new = state.joining.drain(..).map(|session| Subscriber::new(&self.declaration, session, begun));
        self.sessions.extend(new);
        let ends = state.has_to_end || self.sessions.is_empty();
        state.is_shut |= ends;
        !ends
    }

    fn open(&mut self) {
        self.cutter = Cutter::new(&self.declaration);
        (self.begun, self.given) = (Instant::now(), 0);
        let input = match &self.declaration.origin {
            Origin::File(path) | Origin::Fifo(path) => open_stream(&self.declaration, path).map(Input::Fifo),
            Origin::Camera(_) | Origin::Url(_) => {
                Receiver::start(&self.declaration, &self.ffmpeg, self.failures).map(Input::Program)
            }
        };
        match input {
            Ok(input) => self.input = Some(input),
            Err(why) => self.then = Some(self.failure(Fault::lost(why))),
        }
    }

    /// Gives the chunks that are due to the sessions; returns when the next one is.
    fn distribute(&mut self) -> Option<Instant> {
        while let Some(chunk) = self.pending.front() {
            let rate = self.declaration.rate.filter(|_| self.is_fifo());
            let due = rate.map(|rate| due(self.begun, rate, self.given));
            if let Some(due) = due.filter(|due| *due > Instant::now()) {
                return Some(due);
            }
            if self.is_blocked() {
                return None;
            }
            let can_begin =
                self.sessions.iter().any(|session| !session.begun) && begins(self.declaration.format, chunk);
            for session in &mut self.sessions {
                session.begun |= can_begin;
                if session.begun {
                    session.offer(chunk.clone());
                }
            }
            self.pending.pop_front();
            self.given += 1;
            self.failures = 0;
        }
        match self.then.take() {
            Some(Then::Over(end)) => self.is_over(end),
            Some(Then::Failure(why)) => self.fail(&why),
            None => {}
        }
        None
    }

    fn is_fifo(&self) -> bool {
        matches!(self.declaration.origin, Origin::Fifo(_))
    }

    /// Whether no session has room for the next chunk. As soon as one has, the stream goes on, whatever others miss.
    fn is_blocked(&self) -> bool {
        self.pending.front().is_some_and(|chunk| !self.sessions.iter().any(|session| session.takes(chunk.len())))
    }

    fn has_more(&self) -> bool {
        !self.pending.is_empty() || self.then.is_some()
    }

    fn is_over(&mut self, end: Result<(), Fault>) {
        // Who comes from now on begins anew, with another thread.
        self.door.lock().is_shut = true;
        (self.input, self.next) = (None, None);
        self.pending.clear();
        self.over.get_or_insert(end);
    }

    fn fail(&mut self, why: &Fault) {
        let pause = MAX_PAUSE.min(FIRST_PAUSE * 2_u32.saturating_pow(self.failures.min(16)));
        self.failures += 1;
        self.next = Some(Instant::now() + pause);
        let text = format!("{}; it is tried again in {:.2} s", why.text, pause.as_secs_f64());
        let why = Fault { text, ..*why };
        self.sessions.iter_mut().for_each(|session| session.fail(&why));
    }

    /// Waits until there is something to do, and reads what has come.
    fn wait(&mut self, due: Option<Instant>) -> io::Result<()> {
        let reads = self.pending.is_empty() && self.then.is_none();
        let mut fds = vec![PollFd::new(&self.door.bell, PollFlags::IN)];
        fds.extend(self.sessions.iter().map(|session| PollFd::from_borrowed_fd(session.socket(), session.awaits())));
        let before = fds.len();
        let mut silent = None;
        match &self.input {
            Some(Input::Fifo(fifo)) if reads => fds.push(PollFd::new(fifo, PollFlags::IN)),
            Some(Input::Program(receiver)) if reads => {
                fds.extend(receiver.outputs().map(|output| PollFd::from_borrowed_fd(output, PollFlags::IN)));
                silent = receiver.silent_at();
            }
            _ => {}
        }
        let until = [due, self.next, silent].into_iter().flatten().min();
        let timeout = until.map(|at| at.saturating_duration_since(Instant::now()));
        let timeout = timeout.map(|t| Timespec { tv_sec: t.as_secs().cast_signed(), tv_nsec: t.subsec_nanos().into() });
        match poll(&mut fds, timeout.as_ref()) {
            Err(Errno::INTR) => return Ok(()),
            other => drop(other?),
        }
        let rung = !fds[0].revents().is_empty();
        let ready = fds[before..].iter().any(|fd| !fd.revents().is_empty());
        let is_gone = |fd: &PollFd<'_>| fd.revents().intersects(PollFlags::HUP | PollFlags::ERR);
        let gone: Vec<_> = fds[1..before].iter().map(is_gone).collect();
        drop(fds);
        for (session, gone) in self.sessions.iter_mut().zip(gone) {
            session.is_gone = gone;
        }
        if rung {
            cancel::silence(&self.door.bell);
        }
        if ready || silent.is_some_and(|at| Instant::now() >= at) {
            self.read();
        }
        Ok(())
    }

    /// Reads what has come.
    fn read(&mut self) {
        let read = match &mut self.input {
            Some(Input::Fifo(fifo)) => match rustix::io::read(fifo.as_fd(), &mut self.buffer) {
                Ok(got) => Ok(Some(got)),
                Err(Errno::AGAIN | Errno::INTR) => Ok(None),
                Err(error) => Err(format!("cannot read it: {}", io::Error::from(error))),
            },
            Some(Input::Program(receiver)) => receiver.read(&mut self.buffer),
            None => return,
        };
        let name = &self.declaration.name;
        let cut = match read {
            Ok(None) => return,
            Ok(Some(0)) => self.cutter.finish(&mut self.pending).map(|()| Some(Then::Over(Ok(())))),
            Ok(Some(got)) => self.cutter.push(&self.buffer[..got], &mut self.pending).map(|()| None),
            Err(why) => {
                self.input = None;
                self.then = Some(self.failure(Fault::lost(format!("stream '{name}': {why}"))));
                return;
            }
        };
        match cut {
            Ok(None) => {}
            Ok(then) => (self.input, self.then) = (None, then),
            Err(error) => {
                self.input = None;
                self.then = Some(self.failure(Fault::invalid(format!("stream '{name}': {error}"))));
            }
        }
    }

    /// What follows a failure: what comes from elsewhere may come again.
    fn failure(&self, why: Fault) -> Then {
        if self.is_fifo() { Then::Over(Err(why)) } else { Then::Failure(why) }
    }
}

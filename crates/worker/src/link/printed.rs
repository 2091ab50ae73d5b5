//! Output of native code, on its way to the client.
//!
//! While a session runs, the process's standard output and error are pipes. A separate thread forwards their contents;
//! a thread that answers a wait forwards them first, so that a kernel's output reaches the client before the wait
//! returns.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use ropeway_protocol::messages::Output;
use ropeway_protocol::types::OutputStream;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use smallvec::SmallVec;

use crate::base::lock::lock;
use crate::link::outgoing::{Outgoing, Sending};
use crate::native::process;

/// How much may be printed before the printer has to wait for the client.
const PIPE: usize = 1 << 20;

/// Most bytes in one note.
const PIECE: usize = 64 << 10;

/// How long to let a thread that is printing reach the end of its line.
const PAUSE: Duration = Duration::from_micros(20);

/// The reading ends of the two pipes, which may be there before anything is printed into them.
pub struct Printed {
    pipes: [(OutputStream, OwnedFd); 2],
    /// Locked from reading until sending; otherwise, pieces would overtake each other.
    buffer: Mutex<Vec<u8>>,
}

/// The writing ends.
pub struct Outputs {
    out: OwnedFd,
    error: OwnedFd,
}

impl Outputs {
    /// Puts them in the place of the process's standard output and error.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn put_in_place(self) -> io::Result<()> {
        process::buffer_stdout_by_line();
        process::replace_outputs(&self.out, &self.error)
    }
}

impl Printed {
    /// Makes the pipes.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn prepare() -> io::Result<(Self, Outputs)> {
        let pipe = || -> io::Result<(OwnedFd, OwnedFd)> {
            let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
            // Only the reading end must be non-blocking. A smaller pipe than requested will do.
            rustix::io::ioctl_fionbio(&reader, true)?;
            let _ = fcntl_setpipe_size(&reader, PIPE);
            Ok((reader, writer))
        };
        let (out, out_writer) = pipe()?;
        let (error, error_writer) = pipe()?;
        let printed = Self {
            pipes: [(OutputStream::Stdout, out), (OutputStream::Stderr, error)],
            buffer: Mutex::new(vec![0; PIECE]),
        };
        Ok((printed, Outputs { out: out_writer, error: error_writer }))
    }

    /// Adds what was printed so far to what is about to be sent.
    ///
    /// # Errors
    /// The socket's error.
    pub fn forward(&self, sending: &mut Sending<'_>) -> io::Result<()> {
        loop {
            // A printing thread holds the lock of the stream, and blocks while the pipe is full; only this thread
            // empties the pipe.
            let flushed = has_room()? && process::flush_stdout();
            self.empty(sending)?;
            if flushed {
                return Ok(());
            }
            thread::sleep(PAUSE);
        }
    }

    /// Adds what is in the pipes.
    fn empty(&self, sending: &mut Sending<'_>) -> io::Result<()> {
        let mut buffer = lock(&self.buffer);
        for (stream, pipe) in &self.pipes {
            loop {
                match rustix::io::read(pipe, &mut *buffer) {
                    Ok(0) | Err(Errno::AGAIN) => break,
                    Ok(n) => sending.note_with_tail(&Output { stream: *stream }, &buffer[..n])?,
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    /// Forwards as long as the session lasts and anything can be printed; asks where to only once something was.
    ///
    /// # Errors
    /// The error of the socket or of the pipes.
    pub fn forward_forever<'a>(&self, outgoing: impl Fn() -> &'a Outgoing) -> io::Result<()> {
        // Where native code has closed one, nothing more comes.
        let mut open = self.pipes.each_ref().map(|(_, pipe)| Some(pipe));
        loop {
            let polled = open.iter().flatten().map(|pipe| PollFd::new(*pipe, PollFlags::IN));
            let mut polled: SmallVec<[PollFd<'_>; 2]> = polled.collect();
            if polled.is_empty() {
                return Ok(());
            }
            match poll(&mut polled, None) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            for (pipe, polled) in open.iter_mut().filter(|pipe| pipe.is_some()).zip(&polled) {
                pipe.take_if(|_| polled.revents() == PollFlags::HUP);
            }
            let mut sending = outgoing().lock();
            self.forward(&mut sending)?;
            sending.send()?;
        }
    }
}

/// Whether what is flushed finds room in the pipe.
fn has_room() -> io::Result<bool> {
    let writer = rustix::stdio::stdout();
    let mut polled = [PollFd::new(&writer, PollFlags::OUT)];
    match poll(&mut polled, Some(&Timespec::default())) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use ropeway_transport::Link;

    use super::process::exit;
    use super::*;

    const LINES: usize = 40_000;
    const LINE: &[u8] = &[b'#'; 100];

    fn capture() -> Printed {
        let (printed, outputs) = Printed::prepare().unwrap();
        outputs.put_in_place().unwrap();
        printed
    }

    /// Capturing a process's outputs cannot be undone, so this test does its work in a process of its own.
    #[test]
    fn more_than_the_pipe_holds_is_printed_while_the_client_does_not_read() {
        const MARK: &str = "ROPEWAY_PRINTED_TEST";
        if std::env::var_os(MARK).is_none() {
            let test = "link::printed::tests::more_than_the_pipe_holds_is_printed_while_the_client_does_not_read";
            let mut this = Command::new(std::env::current_exe().unwrap());
            let this = this.args(["--exact", test, "--nocapture"]).env(MARK, "1").stdout(Stdio::null());
            let status = this.status().unwrap();
            // 2: bytes are missing; 3: it blocks for ever.
            assert_eq!(status.code(), Some(0));
            return;
        }
        thread::spawn(|| {
            thread::sleep(Duration::from_secs(30));
            exit(3);
        });
        let (mut client, server) = UnixStream::pair().unwrap();
        let outgoing = Arc::new(Outgoing::new(Arc::new(Link::from_fd(server.into()).unwrap())));
        let printed = Arc::new(capture());
        let over = Arc::new(AtomicBool::new(false));
        let reading = thread::spawn(move || {
            thread::sleep(Duration::from_millis(300));
            let (mut count, mut bytes) = (0, vec![0; 4096]);
            while count < LINES * LINE.len() {
                let read = client.read(&mut bytes).unwrap();
                count += bytes[..read].iter().filter(|byte| **byte == LINE[0]).count();
                if read == 0 {
                    exit(2);
                }
            }
        });
        let (forwarding, to) = (printed.clone(), outgoing.clone());
        thread::spawn(move || forwarding.forward_forever(|| &to));
        let printing_over = over.clone();
        thread::spawn(move || {
            (0..LINES).for_each(|_| process::print(LINE));
            printing_over.store(true, Ordering::Release);
        });
        loop {
            let all = over.load(Ordering::Acquire);
            let mut sending = outgoing.lock();
            printed.forward(&mut sending).unwrap();
            sending.send().unwrap();
            if all {
                break;
            }
        }
        reading.join().unwrap();
        exit(0);
    }

    #[test]
    fn nothing_is_awaited_of_outputs_that_native_code_has_closed() {
        const MARK: &str = "ROPEWAY_CLOSED_TEST";
        if std::env::var_os(MARK).is_none() {
            let test = "link::printed::tests::nothing_is_awaited_of_outputs_that_native_code_has_closed";
            let mut this = Command::new(std::env::current_exe().unwrap());
            let this = this.args(["--exact", test, "--nocapture"]).env(MARK, "1").stdout(Stdio::null());
            // 2: it was not forwarded; 3: it goes on for ever.
            assert_eq!(this.status().unwrap().code(), Some(0));
            return;
        }
        thread::spawn(|| {
            thread::sleep(Duration::from_secs(30));
            exit(3);
        });
        let (mut client, server) = UnixStream::pair().unwrap();
        let outgoing = Outgoing::new(Arc::new(Link::from_fd(server.into()).unwrap()));
        let printed = capture();
        process::print(b"the last words\n");
        process::flush_stdout();
        let nothing = std::fs::File::open("/dev/null").unwrap().into();
        process::replace_outputs(&nothing, &nothing).unwrap();
        printed.forward_forever(|| &outgoing).unwrap();
        drop((printed, outgoing));
        let mut sent = Vec::new();
        client.read_to_end(&mut sent).unwrap();
        exit(if sent.windows(14).any(|part| part == b"the last words") { 0 } else { 2 });
    }
}

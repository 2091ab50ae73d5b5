//! What native code prints, on its way to the client.
//!
//! While a session runs, the process's standard output and error are pipes. A thread of its own forwards what comes out
//! of them; who answers a wait forwards first, so that what a kernel printed is at the client before the wait returns.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Mutex;

use ropeway_protocol::messages::Output;
use ropeway_protocol::types::OutputStream;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

use crate::native::process;
use crate::objects::lock;
use crate::outgoing::{Outgoing, Sending};

/// How much may be printed before the printer has to wait for the client.
const PIPE: usize = 1 << 20;

/// Most bytes in one note.
const PIECE: usize = 64 << 10;

/// The reading ends of the two pipes.
pub struct Printed {
    pipes: [(OutputStream, OwnedFd); 2],
    /// Held from reading until sending, or pieces would overtake each other.
    buffer: Mutex<Vec<u8>>,
}

impl Printed {
    /// Puts pipes in the place of the process's standard output and error.
    ///
    /// # Errors
    /// What making the pipes said.
    pub fn capture() -> io::Result<Self> {
        let pipe = || -> io::Result<(OwnedFd, OwnedFd)> {
            let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
            // Only the reader must never wait; a smaller pipe than asked for does as well.
            rustix::io::ioctl_fionbio(&reader, true)?;
            let _ = fcntl_setpipe_size(&reader, PIPE);
            Ok((reader, writer))
        };
        let (out, out_writer) = pipe()?;
        let (error, error_writer) = pipe()?;
        process::buffer_stdout_by_line();
        process::replace_outputs(&out_writer, &error_writer)?;
        Ok(Self {
            pipes: [(OutputStream::Stdout, out), (OutputStream::Stderr, error)],
            buffer: Mutex::new(vec![0; PIECE]),
        })
    }

    /// Adds what was printed so far to what is about to be sent.
    ///
    /// # Errors
    /// What the socket said.
    pub fn forward(&self, sending: &mut Sending<'_>) -> io::Result<()> {
        process::flush_stdout();
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

    /// Forwards as long as the session lasts.
    ///
    /// # Errors
    /// What the socket or the pipes said.
    pub fn forward_forever(&self, outgoing: &Outgoing) -> io::Result<()> {
        loop {
            let mut polled = self.pipes.each_ref().map(|(_, pipe)| PollFd::new(pipe, PollFlags::IN));
            match poll(&mut polled, None) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let mut sending = outgoing.lock();
            self.forward(&mut sending)?;
            sending.send()?;
        }
    }
}

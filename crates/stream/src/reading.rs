//! How files and FIFOs are read.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FileType, Mode, OFlags, fstat, open};

use crate::cancel::await_any;
use crate::cut::Cutter;
use crate::declaration::{Declaration, Origin};
use crate::queue::Fault;
use crate::ring::Writer;

/// Bytes that are read at once.
pub(crate) const READ: usize = 256 << 10;

/// Opens a file or a FIFO, without waiting for a FIFO's writer.
///
/// # Errors
/// One sentence: it is not there, or not what the declaration says.
pub(crate) fn open_stream(declaration: &Declaration, path: &Path) -> Result<OwnedFd, String> {
    let cannot =
        |why: &dyn fmt::Display| format!("cannot open stream '{}', {}: {why}", declaration.name, path.display());
    let fd = open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty());
    let fd = fd.map_err(|error| cannot(&io::Error::from(error)))?;
    let mode = fstat(&fd).map_err(|error| cannot(&io::Error::from(error)))?.st_mode;
    match (&declaration.origin, FileType::from_raw_mode(mode)) {
        (Origin::File(_), FileType::RegularFile) | (Origin::Fifo(_), FileType::Fifo) => Ok(fd),
        (Origin::Fifo(_), _) => Err(cannot(&"it is no FIFO")),
        _ => Err(cannot(&"it is no regular file")),
    }
}

/// When the chunk of this number is due in a stream that began at `since`.
pub(crate) fn due(since: Instant, rate: f64, number: u64) -> Instant {
    // So late that nobody will see it, where the rate is that slow.
    let after = Duration::try_from_secs_f64(number as f64 / rate).unwrap_or(Duration::MAX);
    since.checked_add(after).unwrap_or_else(|| since + Duration::from_secs(1 << 32))
}

/// What the thread that reads a stream does.
pub(crate) struct Reading {
    declaration: Declaration,
    file: File,
    chunks: u64,
}

impl Reading {
    /// Reads the stream of this declaration from this descriptor.
    pub(crate) fn new(declaration: &Declaration, fd: OwnedFd) -> Self {
        Self { declaration: declaration.clone(), file: File::from(fd), chunks: 0 }
    }

    /// Reads it to its end, or until nobody asks any more.
    pub(crate) fn run(mut self, writer: Writer) {
        let end = self.read_all(&writer);
        writer.finish(end);
    }

    fn read_all(&mut self, writer: &Writer) -> Result<(), Fault> {
        let said = |why: &dyn fmt::Display| format!("stream '{}': {why}", self.declaration.name);
        let failed = |why: &dyn fmt::Display| Fault::lost(said(why));
        let is_fifo = matches!(self.declaration.origin, Origin::Fifo(_));
        let mut buffer = vec![0; READ];
        let mut cutter = Cutter::new(&self.declaration);
        let (mut chunks, mut before) = (Vec::new(), self.chunks);
        loop {
            if is_fifo {
                // One without a writer reads as if it were at its end; it is at its end only after a writer has been.
                let ready = await_any([self.file.as_fd(), writer.closed().as_fd()]);
                if let [_, true] = ready.map_err(|error| failed(&error))? {
                    return Ok(());
                }
            }
            let got = match self.file.read(&mut buffer) {
                Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {
                    continue;
                }
                other => other.map_err(|error| failed(&error))?,
            };
            let cut = match got {
                0 => cutter.finish(&mut chunks),
                _ => cutter.push(&buffer[..got], &mut chunks),
            };
            // What came before it stopped to be what it says is given.
            for chunk in chunks.drain(..) {
                let in_time = match self.declaration.rate {
                    Some(rate) => writer.pause_until(due(writer.since(), rate, self.chunks)),
                    None => true,
                };
                if !in_time || !writer.put(chunk) {
                    return Ok(());
                }
                self.chunks += 1;
            }
            cut.map_err(|error| Fault::invalid(said(&error)))?;
            if got > 0 {
                continue;
            }
            // An empty file has no chunk however often it is read.
            if !self.declaration.repeats || self.chunks == before {
                return Ok(());
            }
            self.file.rewind().map_err(|error| failed(&error))?;
            (cutter, before) = (Cutter::new(&self.declaration), self.chunks);
        }
    }
}

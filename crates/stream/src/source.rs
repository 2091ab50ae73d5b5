//! A stream as the one who asks for its chunks sees it.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::thread::{self, JoinHandle};

use crate::cancel::Cancel;
use crate::declaration::{Declaration, Origin};
use crate::feed::Session;
use crate::queue::{Chunk, Fault, Item};
use crate::reading::{Reading, open_stream};
use crate::ring::{Reader, Taken, ring};

/// Why there is no chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The stream has ended.
    End,
    /// The stream failed. One that others share may go on after that.
    Failed(Fault),
    /// The wait was cancelled.
    Cancelled,
    /// The chunk has more bytes than there is room for; it comes again the next time.
    TooLarge {
        /// How many.
        bytes: usize,
    },
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::End => write!(f, "the stream has ended"),
            Self::Failed(why) => f.write_str(&why.text),
            Self::Cancelled => write!(f, "the wait for the stream was cancelled"),
            Self::TooLarge { bytes } => write!(f, "the chunk has {bytes} bytes, and the buffer fewer"),
        }
    }
}

/// A stream that has been opened. Dropping it ends all that reads it, without waiting for the stream.
pub struct Source {
    origin: Opened,
    /// The chunk that was too large for the last buffer.
    kept: Option<Chunk>,
}

enum Opened {
    Read(Option<Reader>, Option<JoinHandle<()>>),
    Fed(Session),
}

impl Source {
    /// Opens a stream of which this process is the only reader: a file or a FIFO.
    ///
    /// # Errors
    /// One sentence.
    pub fn open(declaration: &Declaration) -> Result<Self, String> {
        let fd = match &declaration.origin {
            Origin::File(path) | Origin::Fifo(path) => open_stream(declaration, path)?,
            Origin::Camera(_) | Origin::Url(_) => {
                return Err(format!("stream '{}' has one reader for all sessions", declaration.name));
            }
        };
        Self::read(declaration, fd)
    }

    /// The stream at this descriptor, as [`crate::feed::Feeds::open`] gives it.
    ///
    /// # Errors
    /// One sentence.
    pub fn over(declaration: &Declaration, fd: OwnedFd) -> Result<Self, String> {
        match declaration.origin {
            Origin::File(_) => Self::read(declaration, fd),
            _ => Ok(Self { origin: Opened::Fed(Session::new(declaration, fd)), kept: None }),
        }
    }

    fn read(declaration: &Declaration, fd: OwnedFd) -> Result<Self, String> {
        let cannot = |error: io::Error| format!("cannot read the stream '{}': {error}", declaration.name);
        let (writer, reader) = ring(declaration).map_err(cannot)?;
        let reading = Reading::new(declaration, fd);
        let thread = thread::Builder::new().name("stream".into()).spawn(move || reading.run(writer)).map_err(cannot)?;
        Ok(Self { origin: Opened::Read(Some(reader), Some(thread)), kept: None })
    }

    /// The next chunk, of at most `room` bytes: waits until it is there, the stream ends, or the wait is cancelled.
    ///
    /// # Errors
    /// There is none.
    pub fn next(&mut self, cancel: &Cancel, room: usize) -> Result<Chunk, Ended> {
        let chunk = match self.kept.take() {
            Some(chunk) => chunk,
            None => {
                let taken = match &mut self.origin {
                    Opened::Read(Some(reader), _) => reader.next(cancel),
                    Opened::Read(None, _) => Ok(Taken::Over(Ok(()))),
                    Opened::Fed(session) => session.next(cancel),
                };
                match taken {
                    Ok(Taken::Item(Item::Chunk(chunk))) => chunk,
                    Ok(Taken::Item(Item::Failure(why)) | Taken::Over(Err(why))) => return Err(Ended::Failed(why)),
                    Ok(Taken::Over(Ok(()))) => return Err(Ended::End),
                    Ok(Taken::Cancelled) => return Err(Ended::Cancelled),
                    Err(error) => {
                        return Err(Ended::Failed(Fault::lost(format!("cannot wait for the stream: {error}"))));
                    }
                }
            }
        };
        let bytes = chunk.bytes.len();
        if bytes > room {
            self.kept = Some(chunk);
            return Err(Ended::TooLarge { bytes });
        }
        Ok(chunk)
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Opened::Read(reader, thread) = &mut self.origin {
            // Its thread ends with it.
            drop(reader.take());
            let _ = thread.take().map(JoinHandle::join);
        }
    }
}

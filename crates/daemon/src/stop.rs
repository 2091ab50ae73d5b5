//! The signals that end a server.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

/// Becomes readable when the server is asked to end.
pub(crate) struct StopSignal {
    reader: UnixStream,
}

impl StopSignal {
    /// Catches SIGTERM and SIGINT from now on.
    pub(crate) fn catch() -> io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        pipe::register(SIGTERM, writer.try_clone()?)?;
        pipe::register(SIGINT, writer)?;
        Ok(Self { reader })
    }

    /// Takes one signal out; whether there was one.
    pub(crate) fn take(&self) -> bool {
        use std::io::Read;
        (&self.reader).read(&mut [0]).is_ok_and(|n| n > 0)
    }
}

impl AsFd for StopSignal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}

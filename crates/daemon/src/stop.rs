//! The signals that end a server.

use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

/// Becomes readable when the server is asked to end.
pub(crate) struct StopSignal {
    reader: UnixStream,
}

impl StopSignal {
    /// Catches SIGTERM and SIGINT from now on, and with `ends_with_input` the end of standard input too.
    pub(crate) fn catch(ends_with_input: bool) -> io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        if ends_with_input {
            let mut writer = writer.try_clone()?;
            std::thread::Builder::new().name("input".into()).spawn(move || {
                // Nothing meaningful arrives on standard input; an error counts as its end.
                let _ = io::copy(&mut io::stdin(), &mut io::sink());
                let _ = writer.write_all(&[0]);
            })?;
        }
        pipe::register(SIGTERM, writer.try_clone()?)?;
        pipe::register(SIGINT, writer)?;
        Ok(Self { reader })
    }

    /// Takes out one stop request; returns whether there was one.
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

//! The signals that end a server.

use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

/// How long a standard input that said something may say nothing: the machine at its other end is gone.
const SILENCE: Duration = Duration::from_secs(20);

/// Becomes readable when the server is asked to end.
pub(crate) struct StopSignal {
    reader: UnixStream,
}

impl StopSignal {
    /// Catches SIGTERM and SIGINT from now on, and with `ends_with_input` the end of standard input too, or its silence
    /// after signs of life.
    pub(crate) fn catch(ends_with_input: bool) -> io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        if ends_with_input {
            let mut writer = writer.try_clone()?;
            std::thread::Builder::new().name("input".into()).spawn(move || {
                wait_for_end_of_input();
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

/// Waits for the end of standard input. Its bytes mean nothing, except that there is somebody at its other end: sshd
/// does not notice for hours when the client's machine is gone. An error counts as the end.
fn wait_for_end_of_input() {
    let input = rustix::stdio::stdin();
    let mut limit = None;
    let mut piece = [0; 64];
    loop {
        match poll(&mut [PollFd::new(&input, PollFlags::IN)], limit.as_ref()) {
            Ok(1..) => {}
            Err(Errno::INTR) => continue,
            Ok(0) | Err(_) => return,
        }
        match rustix::io::read(input, &mut piece) {
            Ok(1..) => limit = Some(Timespec { tv_sec: SILENCE.as_secs().cast_signed(), tv_nsec: 0 }),
            Err(Errno::INTR) => {}
            Ok(0) | Err(_) => return,
        }
    }
}

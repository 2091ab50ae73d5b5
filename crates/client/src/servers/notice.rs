//! Notice that a broker is going to take devices back.
//!
//! Whoever holds the lease (`ropeway run`, `ropeway hold`) hears it from the broker, and writes it into a file beside the
//! host file. The library looks at that file when the program asks, and waits for it if the program wants to be told.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ropeway_transport::{Endpoint, Pass, private_file};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::System;
use super::config::Source;
use super::server::{Change, Server, State};
use crate::base::threads;

/// What the file's name ends with; before that it is the host file's.
const SUFFIX: &str = ".notice";

/// A notice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notice {
    /// When the devices are taken back: the time since the machine was started. Other than the time of day, nobody sets
    /// it, and all processes of a machine have the same.
    at: Duration,
}

/// The time since the machine was started.
fn now() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.cast_unsigned(), now.tv_nsec as u32)
}

fn path_beside(host_file: &Path) -> PathBuf {
    let mut path = host_file.as_os_str().to_owned();
    path.push(SUFFIX);
    path.into()
}

impl Notice {
    /// One by which the devices are taken back after this time.
    pub fn after(time: Duration) -> Self {
        // The file has no less than milliseconds.
        Self { at: Duration::from_millis((now() + time).as_millis() as u64) }
    }

    /// How long it is until then; nothing, if that has passed.
    pub(super) fn left(self) -> Duration {
        self.at.saturating_sub(now())
    }

    /// Leaves it for programs that have the devices of this host file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(self, host_file: &Path) -> io::Result<()> {
        private_file::replace_for_now(&path_beside(host_file), format!("{}\n", self.at.as_millis()).as_bytes())
    }

    /// The one that was left for this host file, if any.
    pub(super) fn read(host_file: &Path) -> Option<Self> {
        let text = fs::read_to_string(path_beside(host_file)).ok()?;
        Some(Self { at: Duration::from_millis(text.trim().parse().ok()?) })
    }
}

/// A thread that waits for notices; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Heeding {
    has_to_end: Arc<OwnedFd>,
}

impl Drop for Heeding {
    fn drop(&mut self) {
        // It fails only if it was told already.
        let _ = rustix::io::write(&*self.has_to_end, &1u64.to_ne_bytes());
    }
}

impl System {
    /// How long it is until the devices of a server are taken back, if there is notice of that.
    pub fn time_left(&self, server: &Server) -> Option<Duration> {
        if !is_leased(server) {
            return None;
        }
        Notice::read(self.host_file()?).map(Notice::left)
    }

    /// The host file by which devices were lent to this program, if they may have been.
    fn host_file(&self) -> Option<&Path> {
        match (&self.leased, &self.config.source) {
            (Some(leased), _) => Some(&leased.file),
            (None, Source::HostFile(path)) => Some(path),
            _ => None,
        }
    }

    /// Begins to wait for notices, if there can be any; tells the listener of one that is there already.
    pub(super) fn heed(&self) -> Option<Heeding> {
        let path = self.host_file().filter(|_| self.servers().iter().any(|server| is_leased(server)))?.to_owned();
        let heed = || {
            // A path without a folder is of the working directory.
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let news = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
            inotify::add_watch(&news, folder, WatchFlags::MOVED_TO)?;
            let has_to_end = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
            let (system, end) = (self.this().ok_or(Errno::INVAL)?, Arc::clone(&has_to_end));
            let thread = std::thread::Builder::new().name("ropeway-notices".into()).stack_size(256 << 10);
            let path = path.clone();
            threads::start(|| thread.spawn(move || system.heed_until(&path, &news, &end)))?;
            io::Result::Ok(Heeding { has_to_end })
        };
        let heeding = heed();
        heeding.inspect_err(|error| crate::error!("notice that devices are taken back cannot be heard: {error}")).ok()
    }

    /// Tells the listener of each notice, until `has_to_end` says so.
    fn heed_until(&self, host_file: &Path, news: &OwnedFd, has_to_end: &OwnedFd) {
        let mut told = None;
        loop {
            let notice = Notice::read(host_file);
            // One whose time has passed has come to nothing if the session is still there.
            if notice != told && notice.is_some_and(|notice| !notice.left().is_zero()) {
                told = notice;
                let servers = self.servers().into_iter();
                for server in servers.filter(|server| is_leased(server) && server.state() == State::Connected) {
                    self.changed(&server, Change::Notice);
                }
            }
            let mut sources =
                [PollFd::from_borrowed_fd(news.as_fd(), PollFlags::IN), PollFd::new(has_to_end, PollFlags::IN)];
            match poll(&mut sources, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            if !sources[1].revents().is_empty() {
                return;
            }
            // Which file it was does not matter: the one that does is read again.
            let mut space = [MaybeUninit::uninit(); 1024];
            let mut events = Reader::new(news, &mut space);
            while events.next().is_ok() {}
        }
    }
}

/// Whether a server was reached with a lease.
fn is_leased(server: &Server) -> bool {
    match server.connection().configured() {
        Endpoint::Tls { pass: Some(pass), .. } => matches!(&**pass, Pass::Ticket(ticket) if ticket.lease.is_some()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_read_as_it_was_left() {
        let folder = std::env::temp_dir().join(format!("ropeway-notice-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let host_file = folder.join("servers");
        assert_eq!(Notice::read(&host_file), None);
        let notice = Notice::after(Duration::from_secs(30));
        notice.write(&host_file).unwrap();
        let read = Notice::read(&host_file).unwrap();
        assert_eq!(read, notice);
        assert!(read.left() > Duration::from_secs(20) && read.left() <= Duration::from_secs(30));
        Notice::after(Duration::ZERO).write(&host_file).unwrap();
        assert_eq!(Notice::read(&host_file).unwrap().left(), Duration::ZERO);
        fs::write(folder.join("servers.notice"), "soon\n").unwrap();
        assert_eq!(Notice::read(&host_file), None);
        fs::remove_dir_all(&folder).unwrap();
    }
}

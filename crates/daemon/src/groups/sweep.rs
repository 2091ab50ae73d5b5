//! Control groups whose worker has ended: what is left in them is ended, and they are removed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tracing::debug;

/// How long the server waits at its end for groups to be removed. Its successor removes the others.
pub(super) const FAREWELL: Duration = Duration::from_secs(1);

/// How long processes that were killed have to go.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often the sweeper looks whether they have.
const LOOK: Duration = Duration::from_millis(10);

/// A group to remove, with those in it.
pub(super) struct Doomed {
    pub(super) folder: PathBuf,
    /// Keeps it from being taken by a server that starts, if it was that of another server.
    pub(super) _lock: Option<File>,
}

/// Removes the groups that it is told of until there are no more to come.
pub(super) fn run(to_remove: &Receiver<Doomed>) {
    let mut left: Vec<(Doomed, Instant)> = Vec::new();
    loop {
        let next = if left.is_empty() {
            to_remove.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            to_remove.recv_timeout(LOOK)
        };
        match next {
            Ok(doomed) => left.push((doomed, Instant::now() + PATIENCE)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) if left.is_empty() => return,
            Err(RecvTimeoutError::Disconnected) => thread::sleep(LOOK),
        }
        left.retain(|(Doomed { folder, .. }, until)| match remove(folder) {
            Ok(()) => false,
            Err(error) => {
                let goes_on = error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < *until;
                if !goes_on {
                    debug!(%error, folder = %folder.display(), "a control group cannot be removed");
                }
                goes_on
            }
        });
    }
}

/// Ends what is in a group and in those below, and removes them.
fn remove(folder: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries.flatten() {
        if entry.file_type()?.is_dir() {
            remove(&entry.path())?;
        }
    }
    // The second version has a file for that, since Linux 5.14; the first has not.
    let killed = fs::OpenOptions::new().write(true).open(folder.join("cgroup.kill"));
    match killed {
        Ok(file) => io::Write::write_all(&mut &file, b"1")?,
        Err(_) => kill_all(folder)?,
    }
    fs::remove_dir(folder)
}

fn kill_all(folder: &Path) -> io::Result<()> {
    // Numbers that are none are processes that cannot be seen from here.
    let inside = || -> io::Result<Vec<Pid>> {
        let text = fs::read_to_string(folder.join("cgroup.procs"))?;
        Ok(text.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).collect())
    };
    let opened = |pid: Pid| Some((pid, pidfd_open(pid, PidfdFlags::empty()).ok()?));
    let processes: Vec<_> = inside()?.into_iter().filter_map(opened).collect();
    if processes.is_empty() {
        return Ok(());
    }
    // A number may have become another process's before it was opened; one that is in the group now is the same.
    let still = inside()?;
    for (_, process) in processes.iter().filter(|(pid, _)| still.contains(pid)) {
        // It may have ended, which is what is wanted.
        let _ = pidfd_send_signal(process, Signal::KILL);
    }
    Ok(())
}

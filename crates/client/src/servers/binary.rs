//! The program `ropeway`, which the library starts for work that most programs never need, so that the code need not be
//! part of each of them.

use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The program's name.
const BINARY: &str = "ropeway";

/// The client library's file name.
const LIBRARY: &str = "libropeway.so";

/// The maximum size of what the program says before it says what is wanted.
const MAX_SAID: usize = 4096;

/// Finds the program `ropeway`: the one that `ROPEWAY_BINARY` names, else one beside the library or installed with it,
/// else one in `PATH`.
pub(super) fn find() -> io::Result<PathBuf> {
    use rustix::process::{getegid, geteuid, getgid, getuid};
    if getuid() != geteuid() || getgid() != getegid() {
        return Err(io::Error::new(
            ErrorKind::PermissionDenied,
            "a program with more rights than its user starts no other programs",
        ));
    }
    if let Some(named) = std::env::var_os("ROPEWAY_BINARY").filter(|named| !named.is_empty()) {
        return Ok(named.into());
    }
    let library = std::fs::read_to_string("/proc/self/maps").ok().and_then(|maps| loaded(&maps));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = library
        .iter()
        .flat_map(|library| beside(library))
        .chain(std::env::split_paths(&path).filter(|folder| folder.is_absolute()).map(|folder| folder.join(BINARY)));
    places.find(|place| place.is_file()).ok_or_else(|| {
        io::Error::new(
            ErrorKind::NotFound,
            "the program `ropeway` is neither beside its library nor in PATH; ROPEWAY_BINARY can say where it is",
        )
    })
}

/// Starts the program `binary` as `command`, whose standard output is a pipe, and reads that until a line is `wanted`;
/// `None` if it ends before. The program itself ends soon, or has started another that goes on.
///
/// # Errors
/// It cannot be started, or says nothing that is wanted before `deadline`; then it is killed.
pub(super) fn run_until<T>(
    mut command: Command,
    binary: &Path,
    deadline: Instant,
    wanted: impl Fn(&str) -> Option<T>,
) -> io::Result<Option<T>> {
    let started = command.spawn();
    let mut child =
        started.map_err(|error| io::Error::new(error.kind(), format!("cannot start {}: {error}", binary.display())))?;
    // The child has its own descriptors, and a pipe must be at an end when the last process with its other end is gone.
    drop(command);
    let output = child.stdout.take().ok_or(ErrorKind::BrokenPipe.into());
    let said = output.and_then(|output| read_until(output, deadline, wanted));
    if !matches!(said, Ok(Some(_))) {
        // The child has nothing more to report.
        let _ = child.kill();
    }
    // The program that uses this library may already have waited for the child.
    let _ = child.wait();
    said
}

fn read_until<T>(
    mut output: ChildStdout,
    deadline: Instant,
    wanted: impl Fn(&str) -> Option<T>,
) -> io::Result<Option<T>> {
    let mut said = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&said);
        // A line that is not whole may not hold all of what is wanted.
        let mut lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        if let Some(found) = lines.find_map(&wanted) {
            return Ok(Some(found));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&output, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Err(ErrorKind::TimedOut.into()),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut piece = [0; 512];
        match output.read(&mut piece)? {
            n if n == 0 || said.len() > MAX_SAID => return Ok(None),
            n => said.extend_from_slice(&piece[..n]),
        }
    }
}

/// Where this library was loaded from, by the process's memory map.
fn loaded(maps: &str) -> Option<PathBuf> {
    let mut paths = maps.lines().filter_map(|line| line.find('/').map(|at| Path::new(&line[at..])));
    paths.find(|path| path.file_name().is_some_and(|name| name == LIBRARY)).map(Path::to_owned)
}

/// The folders that go with a library: its own, and `bin` in each folder above it.
fn beside(library: &Path) -> impl Iterator<Item = PathBuf> {
    let folders = library.ancestors().skip(1);
    let own = folders.clone().take(1).map(|folder| folder.join(BINARY));
    own.chain(folders.skip(1).map(|folder| folder.join("bin").join(BINARY)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_found_in_the_memory_map() {
        let maps = "7f00-7f01 r-xp 00000000 08:01 7  /usr/lib/x86_64-linux-gnu/libc.so.6\n\
                    7f02-7f03 r-xp 00000000 08:01 9  /opt/my programs/lib/ropeway/libropeway.so\n7f04-7f05 rw-p 00000000 00:00 0 [heap]\n";
        let library = loaded(maps).unwrap();
        assert_eq!(library, Path::new("/opt/my programs/lib/ropeway/libropeway.so"));
        let places: Vec<_> = beside(&library).collect();
        assert_eq!(places[0], Path::new("/opt/my programs/lib/ropeway/ropeway"));
        assert!(places.contains(&"/opt/my programs/bin/ropeway".into()), "{places:?}");
        assert_eq!(loaded("7f00-7f01 r-xp 0 0 0 /usr/lib/libropeway.so.old\n"), None);
    }
}

//! `local:` — a server of the program's own on this machine.
//!
//! `ropeway local` starts it on a Unix socket in a folder that only this user can enter. It is no child of the program, which may
//! wait for its children, and ends when the program does, however that happens: it reads from a pipe whose other end only the
//! program has.

use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use ropeway_transport::Endpoint;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long the server may take to listen, and then to warm its worker: it initialises this machine's OpenCL, as the program would.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A longer answer of the server's is none.
const MAX_ANSWER: usize = 4096;

/// The program's name.
const BINARY: &str = "ropeway";

/// The client library's file name.
const LIBRARY: &str = "libropeway.so";

/// A running server; it ends when this is dropped.
#[derive(Debug)]
pub struct LocalServer {
    endpoint: Endpoint,
    _alive: ChildStdin,
}

impl LocalServer {
    /// Starts one with the program `ropeway` at `binary`, or where it is found.
    ///
    /// # Errors
    /// There is no such program, or it does not say in time where it listens.
    pub fn start(binary: Option<&Path>) -> io::Result<Self> {
        let binary = match binary {
            Some(binary) => binary.to_owned(),
            None => find()?,
        };
        let mut command = Command::new(&binary);
        // Its log would be in the way of what the program prints, unless somebody wants to see it.
        let log = if std::env::var_os("ROPEWAY_LOG").is_some() { Stdio::inherit() } else { Stdio::null() };
        command.arg("local").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut child = command
            .spawn()
            .map_err(|error| io::Error::new(error.kind(), format!("cannot start {}: {error}", binary.display())))?;
        let listening = listening(&mut child);
        let alive = child.stdin.take();
        if listening.is_err() {
            // It has no more to say; with the pipe the server goes, too.
            let _ = child.kill();
        }
        // It ends as soon as it has started the server. The program may have it waited for in its own way.
        let _ = child.wait();
        match (listening, alive) {
            (Ok(endpoint), Some(alive)) => Ok(Self { endpoint, _alive: alive }),
            (Err(error), _) => Err(error),
            (_, None) => Err(ErrorKind::BrokenPipe.into()),
        }
    }

    /// Where it listens.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

/// Reads where the server listens.
fn listening(child: &mut Child) -> io::Result<Endpoint> {
    let mut output = child.stdout.take().ok_or(ErrorKind::BrokenPipe)?;
    let deadline = Instant::now() + PATIENCE;
    let mut said = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&said);
        // A line that is not whole may not hold all of the address.
        let lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        if let Some(url) = lines.filter_map(|line| line.strip_prefix("listening on ")).next() {
            return url.parse().map_err(|_| io::Error::other("it listens at no address that can be understood"));
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
            n if n == 0 || said.len() > MAX_ANSWER => {
                return Err(io::Error::other(
                    "the program `ropeway` did not start a server; `ropeway local` in a shell says why",
                ));
            }
            n => said.extend_from_slice(&piece[..n]),
        }
    }
}

/// The program `ropeway`: what `ROPEWAY_BINARY` names, beside the library or installed with it, else in `PATH`.
fn find() -> io::Result<PathBuf> {
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

/// Where this library was loaded from, by the process's memory map.
fn loaded(maps: &str) -> Option<PathBuf> {
    let mut paths = maps.lines().filter_map(|line| line.find('/').map(|at| Path::new(&line[at..])));
    paths.find(|path| path.file_name().is_some_and(|name| name == LIBRARY)).map(Path::to_owned)
}

/// The places that go with a library: its own folder, and `bin` in those above it.
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

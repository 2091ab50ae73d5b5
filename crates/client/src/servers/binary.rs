//! The program `ropeway`, which the library starts for work that most programs never need, so that the code need not be
//! part of each of them.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The program's name.
const BINARY: &str = "ropeway";

/// The client library's file name.
const LIBRARY: &str = "libropeway.so";

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

//! Files that only their owner may read, written as a whole or not at all; and where a user's own sockets are.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Longest file that is read.
const MAX_FILE: u64 = 1 << 16;

/// The folder that is this user's alone until the last logout, where the system makes such.
pub fn runtime_folder() -> Option<PathBuf> {
    std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_dir())
}

/// Reads a file that nobody but its owner may read.
///
/// # Errors
/// Those of the file; [`ErrorKind::PermissionDenied`] where others can read it.
pub fn read(path: &Path) -> io::Result<String> {
    let mode = fs::metadata(path)?.mode();
    if mode & 0o077 != 0 {
        let text = format!("others can read or write it (mode {:03o}); chmod 600 {}", mode & 0o777, path.display());
        return Err(io::Error::new(ErrorKind::PermissionDenied, text));
    }
    let mut text = String::new();
    File::open(path)?.take(MAX_FILE).read_to_string(&mut text)?;
    Ok(text)
}

/// Replaces a file by one that only its owner may read, as a whole or not at all.
///
/// # Errors
/// The file system's; the old file is still there.
pub fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    put(path, contents, true)
}

/// The same for what is of no use after a power cut: nobody waits for the disk.
///
/// # Errors
/// As [`replace`].
pub fn replace_for_now(path: &Path, contents: &[u8]) -> io::Result<()> {
    put(path, contents, false)
}

fn put(path: &Path, contents: &[u8], is_kept: bool) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let partial = folder.join(format!(".{name}.{}", std::process::id()));
    let written = || {
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&partial)?;
        file.write_all(contents)?;
        if !is_kept {
            return fs::rename(&partial, path);
        }
        // A file that has its name before its contents are on the disk can be found empty after a power cut.
        file.sync_all()?;
        fs::rename(&partial, path)?;
        File::open(folder)?.sync_all()
    };
    written().inspect_err(|_| {
        // A full disk: leave nothing behind.
        let _ = fs::remove_file(&partial);
    })
}

//! Folders for the sockets of servers that one user has for himself.

use std::fs::DirBuilder;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use ropeway_transport::private_file;

/// Makes a new folder that only this user can enter. Its name begins with `name`.
pub fn make(name: &str) -> io::Result<PathBuf> {
    let base = private_file::runtime_folder().unwrap_or_else(std::env::temp_dir);
    let mut number = 0;
    loop {
        let folder = base.join(format!("{name}-{}-{number}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            // A server that was killed left this folder behind.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && number < 100 => number += 1,
            Err(error) => return Err(error),
        }
    }
}

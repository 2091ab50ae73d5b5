//! The folder of a tunnel. Whoever has its lock is the tunnel; a tunnel that was killed leaves the folder without a
//! lock.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::PathBuf;

use ropeway_client::ssh::{SOCKET, check_folder, folder};
use ropeway_transport::SshHost;
use rustix::fs::{FlockOperation, flock};

/// How often it is tried to make and lock a folder that others remove meanwhile.
const ATTEMPTS: u32 = 100;

/// The folder, locked; removed when this is dropped.
#[derive(Debug)]
pub struct Place {
    folder: PathBuf,
    _lock: File,
}

impl Place {
    /// Makes and locks the folder of the tunnel to `host`, and removes what a tunnel that was killed left in it; `None`
    /// where there is such a tunnel.
    pub fn take(host: &SshHost) -> io::Result<Option<Self>> {
        let folder = folder(host);
        for _ in 0..ATTEMPTS {
            match DirBuilder::new().mode(0o700).create(&folder) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
                Ok(()) | Err(_) => {}
            }
            match Self::lock(&folder) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Ok(None) => {}
                locked => return locked,
            }
        }
        Err(io::Error::other(format!("{} does not stay", folder.display())))
    }

    /// Locks the folder; `None` if it is not that of this name any more.
    fn lock(folder: &PathBuf) -> io::Result<Option<Self>> {
        check_folder(folder)?;
        let lock = File::open(folder)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        if fs::metadata(folder)?.ino() != lock.metadata()?.ino() {
            return Ok(None);
        }
        for entry in fs::read_dir(folder)? {
            fs::remove_file(entry?.path())?;
        }
        Ok(Some(Self { folder: folder.clone(), _lock: lock }))
    }

    /// Where programs ask for the tunnel.
    pub fn socket(&self) -> PathBuf {
        self.folder.join(SOCKET)
    }

    /// Where ssh takes commands. An ssh that a killed tunnel left behind removes its own socket when it ends, so each
    /// has another name.
    pub fn control(&self) -> PathBuf {
        self.folder.join(format!("c{}", std::process::id()))
    }

    /// Where ssh takes the programs' connections.
    pub fn link(&self) -> PathBuf {
        self.folder.join(format!("l{}", std::process::id()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for file in [self.socket(), self.control(), self.link()] {
            // Some were never made, and ssh may have removed its own.
            let _ = fs::remove_file(file);
        }
        let _ = fs::remove_dir(&self.folder);
    }
}

//! Where a server can make control groups of its own: in which folder, and for which resources.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};

use super::hierarchy::{Controller, Own, Version};

/// The names of servers' groups begin like this.
const PREFIX: &str = "ropeway-";

/// How often a server tries to make its group, which another that starts may take for abandoned before it is locked.
const TRIES: u32 = 3;

/// A server's group in one hierarchy, which holds those of its workers.
pub(super) struct Place {
    pub(super) version: Version,
    /// What the groups in it bound.
    pub(super) controllers: Vec<Controller>,
    pub(super) folder: PathBuf,
    /// Held as long as the server lives; it says so in other containers, too, where process numbers mean nothing.
    _lock: File,
}

impl Place {
    /// Makes the server's group for this controller, or for both where they have one hierarchy; `abandoned` is told of
    /// the groups of servers that are gone, with their locks.
    ///
    /// # Errors
    /// Why it cannot be: part of a sentence.
    pub(super) fn make(
        own: &Own,
        controllers: Vec<Controller>,
        abandoned: impl Fn(PathBuf, File),
    ) -> Result<Self, String> {
        let parent = match own.version {
            Version::One => own.folder.clone(),
            Version::Two => parent_of(own, &controllers)?,
        };
        let failed = |error: io::Error| format!("cannot make one in {}: {error}", parent.display());
        for entry in fs::read_dir(&parent).map_err(failed)?.flatten() {
            let is_ours = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
            if let (true, Ok(Some(lock))) = (is_ours, lock(&entry.path())) {
                abandoned(entry.path(), lock);
            }
        }
        for _ in 0..TRIES {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
            let folder = parent.join(format!("{PREFIX}{}-{now}", process::id()));
            fs::create_dir(&folder).map_err(failed)?;
            if let Ok(Some(lock)) = lock(&folder) {
                if own.version == Version::Two {
                    enable(&folder, &controllers).map_err(failed)?;
                }
                return Ok(Self { version: own.version, controllers, folder, _lock: lock });
            }
        }
        Err(failed(io::ErrorKind::NotFound.into()))
    }
}

/// Locks a server's group; `None` if its server lives.
fn lock(folder: &Path) -> io::Result<Option<File>> {
    let file = File::open(folder)?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(None);
    }
    // It may have been removed before it was locked.
    let is_there = fs::metadata(folder)?.ino() == file.metadata()?.ino();
    Ok(is_there.then_some(file))
}

/// A group of the second version in which this server can make others.
fn parent_of(own: &Own, controllers: &[Controller]) -> Result<PathBuf, String> {
    if is_enabled(&own.folder, controllers) {
        return Ok(own.folder.clone());
    }
    // A group that bounds others has no processes itself, unless it is the system's first.
    let error = match enable(&own.folder, controllers) {
        Ok(()) => return Ok(own.folder.clone()),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy && is_alone(&own.folder) => {
            match move_aside(&own.folder, controllers) {
                Ok(()) => return Ok(own.folder.clone()),
                Err(error) => error,
            }
        }
        Err(error) => error,
    };
    // Root's server may share its group with whoever has started it.
    let above = own.and_above().skip(1).find(|folder| is_enabled(folder, controllers));
    if let Some(above) = above.filter(|_| rustix::process::geteuid().is_root()) {
        return Ok(above.to_owned());
    }
    let what = controllers.iter().map(|controller| controller.name()).collect::<Vec<_>>().join(" and ");
    Err(match error.kind() {
        io::ErrorKind::ResourceBusy => format!("other processes are in its own, {}", own.folder.display()),
        io::ErrorKind::NotFound => format!("{what} cannot be bounded below its own, {}", own.folder.display()),
        _ => format!("its own, {}, is not its to divide: {error}", own.folder.display()),
    })
}

fn is_enabled(folder: &Path, controllers: &[Controller]) -> bool {
    let enabled = fs::read_to_string(folder.join("cgroup.subtree_control")).unwrap_or_default();
    controllers.iter().all(|controller| enabled.split_whitespace().any(|name| name == controller.name()))
}

fn enable(folder: &Path, controllers: &[Controller]) -> io::Result<()> {
    let names: Vec<_> = controllers.iter().map(|controller| format!("+{}", controller.name())).collect();
    fs::write(folder.join("cgroup.subtree_control"), names.join(" "))
}

/// Whether this process is the only one in the group.
fn is_alone(folder: &Path) -> bool {
    let inside = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    inside.trim() == process::id().to_string()
}

/// Moves this process into a group of its own below `folder`, so that others can be beside it.
fn move_aside(folder: &Path, controllers: &[Controller]) -> io::Result<()> {
    let aside = folder.join("server");
    match fs::create_dir(&aside) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    enter(&aside)?;
    enable(folder, controllers).inspect_err(|_| {
        // As it was.
        let _ = enter(folder).and_then(|()| fs::remove_dir(&aside));
    })
}

/// Moves this process into a group.
pub(super) fn enter(folder: &Path) -> io::Result<()> {
    fs::write(folder.join("cgroup.procs"), "0")
}

//! Folders of each worker's own: temporary files that end with it, and its client's compiler caches.
//!
//! A worker is warm before anybody knows whose it will be, and from its start on it can reach its own folder and no
//! other's. So the daemon, which is outside the sandbox, moves the client's caches into the worker's folder when the
//! session begins, and back when the worker has ended: the rule goes with the folder. Of several sessions that a client
//! has at one time each has caches of its own, which stay for later ones.
//!
//! ```text
//! <root>/servers/<server>/lock         held as long as the server lives
//! <root>/servers/<server>/<n>/tmp      a worker's temporary files
//! <root>/servers/<server>/<n>/cache    its compilers' caches and programs
//! <root>/clients/<client>/<k>          caches that no session uses
//! ```

use std::cell::Cell;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};
use tracing::{debug, warn};

use crate::WorkerUser;

/// The most caches that are kept of one client's sessions at the same time.
const KEPT: u32 = 8;

/// How deep the folders lie that drivers make when they start, and expect later.
const DEPTH: u32 = 3;

/// How long the server waits at its end for folders to be removed. Its successor removes the others.
const FAREWELL: Duration = Duration::from_millis(500);

/// The folders of one server's workers.
#[derive(Clone)]
pub(crate) struct Folders(Rc<Inner>);

struct Inner {
    clients: PathBuf,
    server: PathBuf,
    own_caches: bool,
    /// The user whose workers are, if not this server's.
    user: Option<WorkerUser>,
    next: Cell<u64>,
    /// Folders to remove, in a thread of its own: a session may have left any number of files.
    doomed: Option<Sender<PathBuf>>,
    swept: Receiver<()>,
    _lock: File,
}

impl Folders {
    /// Makes this server's, below `root`, and removes those of servers that are gone. With `own_caches`, each client
    /// has compiler caches of its own; without, all use those of the server's user.
    ///
    /// They are `user`'s, if that is not the server's.
    ///
    /// # Errors
    /// The file system's.
    pub(crate) fn open(root: &Path, own_caches: bool, user: Option<WorkerUser>) -> io::Result<Self> {
        let (clients, servers) = (root.join("clients"), root.join("servers"));
        make(&clients)?;
        make(&servers)?;
        // Nobody takes a folder for abandoned whose server is about to lock it.
        let starting = File::create(root.join("lock"))?;
        flock(&starting, FlockOperation::LockExclusive)?;
        let (doomed, to_remove) = channel();
        for entry in fs::read_dir(&servers)?.flatten() {
            let lock = File::open(entry.path().join("lock"));
            if lock.is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err()) {
                continue;
            }
            let _ = doomed.send(entry.path());
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let server = servers.join(format!("{}-{now}", std::process::id()));
        make(&server)?;
        if user.is_some() {
            // It can go through these folders, but not look into them.
            for folder in [root, &servers, &server] {
                fs::set_permissions(folder, Permissions::from_mode(0o711))?;
            }
        }
        let lock = File::create_new(server.join("lock"))?;
        flock(&lock, FlockOperation::LockExclusive)?;
        let (done, swept) = channel();
        thread::Builder::new().name("sweeper".to_owned()).spawn(move || {
            for folder in to_remove {
                remove(&folder);
            }
            let _ = done.send(());
        })?;
        let next = Cell::new(0);
        Ok(Self(Rc::new(Inner { clients, server, own_caches, user, next, doomed: Some(doomed), swept, _lock: lock })))
    }

    /// Makes a folder for one worker.
    ///
    /// # Errors
    /// The file system's.
    pub(crate) fn for_worker(&self) -> io::Result<Folder> {
        let number = self.0.next.get();
        self.0.next.set(number + 1);
        let path = self.0.server.join(number.to_string());
        make(&path.join("tmp"))?;
        make(&path.join("cache"))?;
        if let Some(user) = &self.0.user {
            for folder in [path.clone(), path.join("tmp"), path.join("cache")] {
                user.own(&folder)?;
            }
        }
        Ok(Folder { path, of: self.clone(), client: None })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(doomed) = self.doomed.take() {
            let _ = doomed.send(self.server.clone());
        }
        let _ = self.swept.recv_timeout(FAREWELL);
    }
}

/// The folder of one worker. Dropping it, once the worker has ended, gives back the client's caches and removes the
/// rest.
pub(crate) struct Folder {
    path: PathBuf,
    of: Folders,
    /// Where its client's caches are kept between sessions, if it has some.
    client: Option<PathBuf>,
}

impl Folder {
    /// Lets a worker's process find its folder.
    pub(crate) fn prepare(&self, command: &mut Command) {
        let folder: [OsString; 2] = ["--folder".into(), self.path.clone().into()];
        command.args(folder).env("TMPDIR", self.path.join("tmp"));
        if !self.of.0.own_caches {
            return;
        }
        let cache = self.path.join("cache");
        let programs: [OsString; 2] = ["--program-cache".into(), cache.join("programs").into()];
        command.args(programs).env("CUDA_CACHE_PATH", cache.join("nv")).env("XDG_CACHE_HOME", cache);
        // These are in the cache folder where nothing says otherwise.
        for variable in ["POCL_CACHE_DIR", "NEO_CACHE_DIR", "MESA_SHADER_CACHE_DIR", "AMD_COMGR_CACHE_DIR"] {
            command.env_remove(variable);
        }
    }

    /// Moves the caches of this client into the worker's folder, whose session is about to begin.
    pub(crate) fn lend_to(&mut self, client: &str) {
        if !self.of.0.own_caches {
            return;
        }
        let home = self.of.0.clients.join(client);
        let lent = self.path.join("lent");
        let found = (0..KEPT).any(|number| fs::rename(home.join(number.to_string()), &lent).is_ok());
        self.client = Some(home);
        if !found {
            return;
        }
        let (cache, warm) = (self.path.join("cache"), self.path.join("warm"));
        let moved = fs::rename(&cache, &warm).and_then(|()| fs::rename(&lent, &cache));
        if let Err(error) = moved.and_then(|()| repeat(&warm, &cache, DEPTH, self.of.0.user.as_ref())) {
            warn!(%error, "a client's compiler caches are not all there; what is missing is compiled again");
        }
    }

    /// Puts the caches back to where the client's next session finds them.
    fn take_back(&self) -> io::Result<()> {
        let Some(home) = &self.client else { return Ok(()) };
        let cache = self.path.join("cache");
        // The worker may have put anything there.
        if !fs::symlink_metadata(&cache)?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        make(home)?;
        // A folder that is there already is not replaced: it holds something.
        match (0..KEPT).find(|number| fs::rename(&cache, home.join(number.to_string())).is_ok()) {
            Some(_) => Ok(()),
            None => Err(io::ErrorKind::AlreadyExists.into()),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = self.take_back() {
            debug!(%error, "compiler caches of a session are not kept");
        }
        if let Some(doomed) = &self.of.0.doomed {
            let _ = doomed.send(self.path.clone());
        }
    }
}

/// Makes a folder that only this user can look into.
fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Makes the folders in `from` also in `to`, down to this depth.
fn repeat(from: &Path, to: &Path, depth: u32, user: Option<&WorkerUser>) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if depth == 0 || !entry.file_type()?.is_dir() {
            continue;
        }
        let there = to.join(entry.file_name());
        match DirBuilder::new().mode(0o700).create(&there) {
            Ok(()) => user.map_or(Ok(()), |user| user.own(&there))?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        // What a session left is not followed elsewhere.
        if fs::symlink_metadata(&there)?.is_dir() {
            repeat(&entry.path(), &there, depth - 1, user)?;
        }
    }
    Ok(())
}

fn remove(folder: &Path) {
    if let Err(error) = fs::remove_dir_all(folder)
        && error.kind() != io::ErrorKind::NotFound
    {
        debug!(%error, folder = %folder.display(), "a worker's folder cannot be removed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(folder: &Folder) -> PathBuf {
        folder.path.join("cache")
    }

    #[test]
    fn a_client_finds_its_caches_again_and_no_others() {
        let root = tempfile::tempdir().unwrap();
        let folders = Folders::open(root.path(), true, None).unwrap();
        let session = |client: &str| {
            let mut folder = folders.for_worker().unwrap();
            make(&cache(&folder).join("compiler/objects")).unwrap();
            folder.lend_to(client);
            folder
        };
        let first = session("a");
        fs::write(cache(&first).join("compiler/of a"), "x").unwrap();
        // Of two sessions at one time, each has its own.
        let second = session("a");
        assert!(!cache(&second).join("compiler/of a").exists());
        drop(first);
        let other = session("b");
        assert!(!cache(&other).join("compiler/of a").exists());
        let again = session("a");
        assert!(cache(&again).join("compiler/of a").exists());
        drop((second, again));
        let kept = fs::read_dir(root.path().join("clients/a")).unwrap().count();
        assert_eq!(kept, 2);
    }

    #[test]
    fn what_a_driver_has_made_at_its_start_is_there_in_caches_from_before() {
        let root = tempfile::tempdir().unwrap();
        let folders = Folders::open(root.path(), true, None).unwrap();
        let mut folder = folders.for_worker().unwrap();
        folder.lend_to("a");
        drop(folder);
        let mut folder = folders.for_worker().unwrap();
        make(&cache(&folder).join("new/driver")).unwrap();
        folder.lend_to("a");
        assert!(cache(&folder).join("new/driver").is_dir() && folder.path.join("warm").is_dir());
    }

    #[test]
    fn a_link_in_place_of_caches_is_neither_kept_nor_followed() {
        let root = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let folders = Folders::open(root.path(), true, None).unwrap();
        let mut folder = folders.for_worker().unwrap();
        folder.lend_to("a");
        fs::remove_dir_all(cache(&folder)).unwrap();
        std::os::unix::fs::symlink(outside.path(), cache(&folder)).unwrap();
        drop(folder);
        assert!(!root.path().join("clients/a").exists());
        // A link further down, where a driver has a folder at its start.
        let mut folder = folders.for_worker().unwrap();
        folder.lend_to("a");
        std::os::unix::fs::symlink(outside.path(), cache(&folder).join("driver")).unwrap();
        drop(folder);
        let mut folder = folders.for_worker().unwrap();
        make(&cache(&folder).join("driver/objects")).unwrap();
        folder.lend_to("a");
        drop(folder);
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn folders_of_servers_that_are_gone_are_removed_and_of_others_not() {
        let root = tempfile::tempdir().unwrap();
        let gone = root.path().join("servers/1-1");
        make(&gone.join("0/tmp")).unwrap();
        fs::write(gone.join("lock"), "").unwrap();
        let first = Folders::open(root.path(), false, None).unwrap();
        let folder = first.for_worker().unwrap();
        let second = Folders::open(root.path(), false, None).unwrap();
        drop(second);
        assert!(!gone.exists() && folder.path.join("tmp").is_dir());
        drop((folder, first));
        assert_eq!(fs::read_dir(root.path().join("servers")).unwrap().count(), 0);
    }
}

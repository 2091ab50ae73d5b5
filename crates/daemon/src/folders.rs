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
//! <root>/clients/<client>/of           the state folder that says who the client is, where one does
//! ```

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
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

use ropeway_transport::tls::PublicKey;
use rustix::fs::{FlockOperation, flock};
use tracing::{debug, warn};

use crate::WorkerUser;

mod trim;

/// The most caches that are kept of one client's sessions at the same time.
const KEPT: u32 = 8;

/// The most bytes of one client's caches together, where its rules do not say.
pub(crate) const CACHES: u64 = 1 << 30;

/// The names of folders of clients with keys begin like this.
const KEY: &str = "key-";

/// The file in a client's folder that says which state folder knows it.
const OF: &str = "of";

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
    /// What is to be done in a thread of its own: a session may have left any number of files.
    doomed: Option<Sender<Job>>,
    /// The state folder that says which clients there are.
    state: Option<PathBuf>,
    /// The folders of the clients that the rules name, once they have been read.
    known: RefCell<Option<BTreeSet<String>>>,
    /// The folders of clients that were removed: their sessions may still be ending.
    forgotten: RefCell<BTreeSet<String>>,
    swept: Receiver<()>,
    _lock: File,
}

/// What the sweeper does.
enum Job {
    /// Removes a folder.
    Remove(PathBuf),
    /// Brings a client's caches below their bound.
    Trim { home: PathBuf, aside: PathBuf, most: u64 },
}

impl Folders {
    /// Makes this server's, below `root`, and removes those of servers that are gone. With `own_caches`, each client
    /// has compiler caches of its own; without, all use those of the server's user.
    ///
    /// They are `user`'s, if that is not the server's. `state` is the state folder that says who clients are.
    ///
    /// # Errors
    /// The file system's.
    pub(crate) fn open(
        root: &Path,
        own_caches: bool,
        user: Option<WorkerUser>,
        state: Option<&Path>,
    ) -> io::Result<Self> {
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
            let _ = doomed.send(Job::Remove(entry.path()));
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
            for job in to_remove {
                job.run();
            }
            let _ = done.send(());
        })?;
        let next = Cell::new(0);
        let state = state.map(Path::to_owned);
        let (known, forgotten, doomed) = (RefCell::default(), RefCell::default(), Some(doomed));
        let inner =
            Inner { clients, server, own_caches, user, next, doomed, state, known, forgotten, swept, _lock: lock };
        Ok(Self(Rc::new(inner)))
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

    /// Removes the caches of clients that the rules named before, and do not name now. At the first call, with `all`,
    /// those of all clients that this server's state folder has ever named: others may come with certificates.
    pub(crate) fn rules_name(&self, keys: &BTreeSet<PublicKey>, all: bool) {
        let names: BTreeSet<_> = keys.iter().map(folder_of).collect();
        let before = self.0.known.borrow_mut().replace(names.clone());
        let before = before.unwrap_or_else(|| if all { self.kept_of_state() } else { BTreeSet::new() });
        let mut forgotten = self.0.forgotten.borrow_mut();
        for name in before.difference(&names) {
            self.0.sweep(Job::Remove(self.0.clients.join(name)));
            forgotten.insert(name.clone());
        }
        forgotten.retain(|name| !names.contains(name));
    }

    /// The folders of clients that this server's state folder has named.
    fn kept_of_state(&self) -> BTreeSet<String> {
        let Some(state) = &self.0.state else { return BTreeSet::new() };
        let names = fs::read_dir(&self.0.clients).into_iter().flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        let is_of_state = |name: &String| {
            let of = fs::read(self.0.clients.join(name).join(OF));
            name.starts_with(KEY) && of.is_ok_and(|of| of == state.as_os_str().as_encoded_bytes())
        };
        names.filter(is_of_state).collect()
    }
}

/// The name of the folder of the client with this key.
pub(crate) fn folder_of(key: &PublicKey) -> String {
    key.bytes().iter().fold(KEY.to_owned(), |name, byte| name + &format!("{byte:02x}"))
}

impl Inner {
    fn sweep(&self, job: Job) {
        if let Some(doomed) = &self.doomed {
            let _ = doomed.send(job);
        }
    }
}

impl Job {
    fn run(self) {
        match self {
            Self::Remove(folder) => remove(&folder),
            Self::Trim { home, aside, most } => {
                if let Err(error) = trim::trim(&home, &aside, most) {
                    debug!(%error, home = %home.display(), "a client's caches are not all bounded");
                }
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.sweep(Job::Remove(self.server.clone()));
        self.doomed = None;
        let _ = self.swept.recv_timeout(FAREWELL);
    }
}

/// The folder of one worker. Dropping it, once the worker has ended, gives back the client's caches and removes the
/// rest.
pub(crate) struct Folder {
    path: PathBuf,
    of: Folders,
    /// The name of its client's folder, and how many bytes may be kept there; if the client has some.
    client: Option<(String, u64)>,
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

    /// Moves the caches of this client into the worker's folder, whose session is about to begin. No more than `most`
    /// bytes are kept of them when it has ended.
    pub(crate) fn lend_to(&mut self, client: &str, most: u64) {
        if !self.of.0.own_caches {
            return;
        }
        let home = self.of.0.clients.join(client);
        let lent = self.path.join("lent");
        let found = (0..KEPT).any(|number| fs::rename(home.join(number.to_string()), &lent).is_ok());
        self.client = Some((client.to_owned(), most));
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
        let Some((client, most)) = &self.client else { return Ok(()) };
        let of = &self.of.0;
        if of.forgotten.borrow().contains(client) {
            return Ok(());
        }
        let home = of.clients.join(client);
        let cache = self.path.join("cache");
        // The worker may have put anything there.
        if !fs::symlink_metadata(&cache)?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        make(&home)?;
        if let Some(state) = of.state.as_ref().filter(|_| client.starts_with(KEY)) {
            fs::write(home.join(OF), state.as_os_str().as_encoded_bytes())?;
        }
        // A folder that is there already is not replaced: it holds something.
        let is_kept = (0..KEPT).any(|number| fs::rename(&cache, home.join(number.to_string())).is_ok());
        of.sweep(Job::Trim { home, aside: of.server.join("aside"), most: *most });
        if is_kept { Ok(()) } else { Err(io::ErrorKind::AlreadyExists.into()) }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = self.take_back() {
            debug!(%error, "compiler caches of a session are not kept");
        }
        self.of.0.sweep(Job::Remove(self.path.clone()));
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
mod tests;

//! A server's state folder: its private key, and who its clients are.
//!
//! ```text
//! server.key      the server's private key; only its owner may read it
//! access.toml     the clients, by their public keys, and what each may do; people edit it, `ropeway ticket` too
//! lock            held by the server that uses the folder
//! ```
//!
//! A file is replaced as a whole or not at all: a full disk or a crash leaves the old one.

use std::fmt;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use ropeway_transport::private_file;
use ropeway_transport::tls::Identity;
use rustix::fs::{FlockOperation, flock};

use super::clients::Clients;

/// Held by the server.
const LOCK: &str = "lock";

/// Held while `access.toml` is changed.
const CHANGE: &str = "change.lock";

/// What the key's file begins with, so that a person knows what it is.
const KEY_LABEL: &str = "ropeway private key ";

/// Longest file that is read.
const MAX_FILE: u64 = 16 << 20;

/// Why a state folder cannot be used: one sentence for a person.
#[derive(Debug)]
pub struct StateError(String);

impl StateError {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StateError {}

/// A server's state folder.
#[derive(Clone, Debug)]
pub struct State {
    folder: PathBuf,
}

/// The right to be the server of a state folder; given back when dropped.
#[derive(Debug)]
pub struct Held {
    _lock: OwnedFd,
}

impl State {
    /// The name of the file with the server's private key.
    pub const KEY: &str = "server.key";

    /// The name of the file with the clients.
    pub const ACCESS: &str = "access.toml";

    /// The folder at this path, which is made when missing.
    ///
    /// # Errors
    /// It cannot be made, or others may write to it.
    pub fn open(folder: &Path) -> Result<Self, StateError> {
        let wrong = |error: io::Error| StateError(format!("cannot use the state folder {}: {error}", folder.display()));
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(wrong)?;
        let about = fs::metadata(folder).map_err(wrong)?;
        keeps_others_out("the state folder ", folder, &about)?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Takes the folder for this server.
    ///
    /// # Errors
    /// Another server has it.
    pub fn hold(&self) -> Result<Held, StateError> {
        let lock = self.locked(LOCK, FlockOperation::NonBlockingLockExclusive)?;
        let path = self.folder.display();
        let lock = lock.ok_or_else(|| {
            StateError(format!(
                "another server uses the state folder {path}; stop it, or give this one another with --state"
            ))
        })?;
        Ok(Held { _lock: lock })
    }

    /// Checks, for the server, that nobody else can change the folder and its files: they are its user's, or root's.
    ///
    /// Not so for who only looks or adds clients: root does that for servers of other users.
    ///
    /// # Errors
    /// Something is somebody else's, or others may write to the folder.
    pub fn check_owners(&self) -> Result<(), StateError> {
        if let Ok(about) = fs::metadata(&self.folder) {
            keeps_others_out("the state folder ", &self.folder, &about)?;
        }
        let ours = rustix::process::geteuid().as_raw();
        let files = [Self::KEY, Self::ACCESS].map(|name| self.folder.join(name));
        for path in [&self.folder].into_iter().chain(&files) {
            match fs::metadata(path) {
                Ok(about) if ![0, ours].contains(&about.uid()) => {
                    let (path, owner) = (path.display(), about.uid());
                    return Err(StateError(format!(
                        "will not use {path}: it is user {owner}'s, who could let anybody in; if all clients there are \
                         this server's, chown it to user {ours}"
                    )));
                }
                // What is not there or cannot be read is said by who reads it.
                _ => {}
            }
        }
        Ok(())
    }

    /// The server's key, made when there is none.
    ///
    /// # Errors
    /// Others can read it; it is not one; the disk is full.
    pub fn identity(&self) -> Result<Identity, StateError> {
        let path = self.folder.join(Self::KEY);
        let _change = self.locked(CHANGE, FlockOperation::LockExclusive)?;
        let text = match private_file::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let identity = Identity::generate().map_err(|error| StateError(error.to_string()))?;
                let text = format!("{KEY_LABEL}{}\n", identity.seed_text());
                self.replace(Self::KEY, text.as_bytes())?;
                return Ok(identity);
            }
            read => {
                read.map_err(|error| StateError(format!("cannot use the server's key {}: {error}", path.display())))?
            }
        };
        let identity = text.strip_prefix(KEY_LABEL).and_then(|seed| Identity::from_seed_text(seed.trim_end()));
        identity.ok_or_else(|| {
            let path = path.display();
            StateError(format!(
                "{path} is not a server's key; if it is lost, remove the file: all tickets are void then"
            ))
        })
    }

    /// The clients; none when there is no file.
    ///
    /// # Errors
    /// The file cannot be read, others may write to it, or what is in it is wrong; which line, and why.
    pub fn clients(&self) -> Result<Clients, StateError> {
        let path = self.folder.join(Self::ACCESS);
        let wrong = |error| StateError(format!("cannot read {}: {error}", path.display()));
        let mut text = String::new();
        match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            file => {
                let file = file.map_err(wrong)?;
                keeps_others_out("", &path, &file.metadata().map_err(wrong)?)?;
                file.take(MAX_FILE).read_to_string(&mut text).map_err(wrong)?;
            }
        }
        Clients::parse(&text).map_err(|why| StateError(format!("{}: {why}", path.display())))
    }

    /// Changes the clients' file; what `change` leaves has to be right.
    ///
    /// # Errors
    /// As [`State::clients`]; `change`'s; the disk is full, and the old file is still there.
    pub fn change<T>(&self, change: impl FnOnce(&mut Clients) -> Result<T, String>) -> Result<T, StateError> {
        let _change = self.locked(CHANGE, FlockOperation::LockExclusive)?;
        let mut clients = self.clients()?;
        let outcome = change(&mut clients).map_err(StateError)?;
        let text = clients.text();
        Clients::parse(&text).map_err(StateError)?;
        self.replace(Self::ACCESS, text.as_bytes())?;
        Ok(outcome)
    }

    /// A lock file, locked; `None` where somebody else has it and `how` does not wait.
    fn locked(&self, name: &str, how: FlockOperation) -> Result<Option<OwnedFd>, StateError> {
        let path = self.folder.join(name);
        let wrong = |error: io::Error| StateError(format!("cannot lock {}: {error}", path.display()));
        let file =
            OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path).map_err(wrong)?;
        match flock(&file, how) {
            Ok(()) => Ok(Some(file.into())),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(wrong(error.into())),
        }
    }

    /// Replaces a file, or leaves it as it was.
    fn replace(&self, name: &str, contents: &[u8]) -> Result<(), StateError> {
        private_file::replace(&self.folder.join(name), contents)
            .map_err(|error| StateError(format!("cannot write {}: {error}", self.folder.join(name).display())))
    }
}

/// Whether only its owner can write to a file or folder, which `what` names.
fn keeps_others_out(what: &str, path: &Path, about: &Metadata) -> Result<(), StateError> {
    if about.mode() & 0o022 == 0 {
        return Ok(());
    }
    let path = path.display();
    Err(StateError(format!("will not use {what}{path}: others can write to it; chmod go-w {path}")))
}

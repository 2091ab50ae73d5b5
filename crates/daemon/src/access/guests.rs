//! The clients that a running server knows, kept in step with the state folder.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, SystemTime};

use ropeway_transport::tls::{self, CertificateFiles, ClientAuth, Credentials, Door, PublicKey};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use tracing::{info, warn};

use super::certificates::Certificates;
use super::clients::{Clients, Rules, text_of};
use super::expiry;
use super::state::{Held, State, StateError};

/// The clients by their keys.
type ByKey = BTreeMap<PublicKey, (String, Rules)>;

/// Which keys the door lets in.
#[derive(Debug, Default)]
struct Known {
    clients: RwLock<ByKey>,
    /// The keys that peers of sessions show.
    peers: RwLock<BTreeSet<PublicKey>>,
}

impl ClientAuth for Known {
    fn knows(&self, key: &PublicKey) -> bool {
        self.clients().contains_key(key) || read(&self.peers).contains(key)
    }
}

impl Known {
    fn clients(&self) -> RwLockReadGuard<'_, ByKey> {
        read(&self.clients)
    }
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

/// How long after a file was emptied the system has said so.
const EMPTIED: Duration = Duration::from_millis(2);

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

/// The clients of a running server, or of a broker.
#[derive(Debug)]
pub struct Guests {
    state: State,
    known: Arc<Known>,
    key: PublicKey,
    door: Door,
    /// Becomes readable when a file of the state folder was written to or replaced.
    watch: OwnedFd,
    /// Whether somebody has begun to write to the clients' file and has not closed it.
    is_half_written: Cell<bool>,
    /// The files with certificates, where clients come in with one.
    certificates: Option<Certificates>,
    _held: Held,
}

impl Guests {
    /// Takes the state folder for this server, which lets in clients with certificates, too, where it has its own, and
    /// holders of leases that `lease_authority` has signed, while they are valid by its clock.
    ///
    /// # Errors
    /// The folder or a certificate cannot be used, or another server uses the folder.
    pub fn open(
        state: State,
        certificates: Option<&CertificateFiles>,
        lease_authority: Option<(PublicKey, tls::Clock)>,
    ) -> Result<Self, StateError> {
        state.check_owners()?;
        let held = state.hold()?;
        let system = |error: std::io::Error| StateError::new(format!("cannot watch the state folder: {error}"));
        let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(|e| system(e.into()))?;
        // Before the file is read, so that no change is missed.
        let contents = WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO | WatchFlags::DELETE;
        // Who may write to a file decides whether it is read.
        inotify::add_watch(&watch, state.folder(), contents | WatchFlags::ATTRIB).map_err(|e| system(e.into()))?;
        let known = Arc::new(Known { clients: RwLock::new(by_key(&state.clients()?)), ..Known::default() });
        let identity = state.identity()?;
        let key = identity.public();
        let mut door = tls::accept(&identity, known.clone()).map_err(|error| StateError::new(error.to_string()))?;
        let mut watched = None;
        if let Some(files) = certificates {
            let (certificates, credentials) = Certificates::open(files.clone()).map_err(StateError::new)?;
            door = with(door, &credentials).map_err(StateError::new)?;
            watched = Some(certificates);
        }
        if let Some((authority, clock)) = lease_authority {
            let with = door.with_lease_authority_and_clock(authority, clock);
            door = with.map_err(|error| StateError::new(format!("cannot use the broker's key: {error}")))?;
        }
        let is_half_written = Cell::new(false);
        Ok(Self { state, key, known, door, watch, is_half_written, certificates: watched, _held: held })
    }

    /// The server's own key.
    pub fn key(&self) -> PublicKey {
        self.key
    }

    /// Where encrypted connections come in.
    pub fn door(&self) -> &Door {
        &self.door
    }

    /// Takes in what has happened in the state folder; returns whether it was anything with the clients' file.
    fn look(&self) -> bool {
        let mut events = [const { std::mem::MaybeUninit::uninit() }; 4096];
        let mut reader = inotify::Reader::new(&self.watch, &mut events);
        let mut is_touched = false;
        while let Ok(event) = reader.next() {
            // A queue that has overflowed names no file.
            if event.file_name().is_none_or(|name| name.to_bytes() == State::ACCESS.as_bytes()) {
                if !event.events().contains(ReadFlags::ATTRIB) {
                    self.is_half_written.set(event.events().contains(ReadFlags::MODIFY));
                }
                is_touched = true;
            }
        }
        is_touched
    }

    /// Reads the clients again if their file was replaced; returns whether they are others now. A file with an error
    /// changes nothing, and one that is being written is read once that is over.
    pub fn reread(&self) -> bool {
        if !self.look() || self.is_half_written.get() {
            return false;
        }
        let clients = loop {
            let clients = self.state.check_owners().and_then(|()| self.state.clients());
            if clients.as_ref().is_ok_and(|clients| by_key(clients).is_empty()) {
                // An editor empties the file before it writes it anew, and the system says so just after that.
                std::thread::sleep(EMPTIED);
            }
            if !self.look() {
                break clients;
            }
            // An editor may have begun meanwhile to write the file anew, from its beginning.
            if self.is_half_written.get() {
                return false;
            }
        };
        match clients {
            Ok(clients) => {
                let clients = by_key(&clients);
                let mut known = write(&self.known.clients);
                let is_new = *known != clients;
                if is_new {
                    info!(clients = clients.len(), "the access rules were read again");
                    *known = clients;
                }
                is_new
            }
            Err(error) => {
                warn!("the access rules stay as they were: {error}");
                false
            }
        }
    }

    /// The keys of all clients that the rules name; those of certificates that they do not name are not among them.
    pub(crate) fn keys(&self) -> BTreeSet<PublicKey> {
        self.known.clients().keys().copied().collect()
    }

    /// This server's key, where there are clients who do not know it before they come: those with certificates.
    pub fn key_to_tell(&self) -> Option<PublicKey> {
        self.certificates.as_ref().map(|_| self.key)
    }

    /// Becomes readable when something has happened where the files with certificates are.
    pub fn certificates(&self) -> Option<BorrowedFd<'_>> {
        self.certificates.as_ref().map(AsFd::as_fd)
    }

    /// Reads the certificates again if a file of them was replaced; returns whether they are others now. Files that are
    /// of no use change nothing.
    pub fn reread_certificates(&mut self) -> bool {
        let Some(certificates) = &mut self.certificates else { return false };
        let Some(read) = certificates.reread() else { return false };
        match read.and_then(|credentials| with(self.door.clone(), &credentials)) {
            Ok(door) => {
                info!("the certificates were read again");
                self.door = door;
                certificates.are_in_force();
                true
            }
            Err(why) => {
                if certificates.is_news(&why) {
                    warn!("the certificates stay as they were: {why}");
                }
                false
            }
        }
    }

    /// Lets in, from now on, whoever shows one of these keys as a peer of a session.
    pub fn expect_peers(&self, keys: BTreeSet<PublicKey>) {
        *write(&self.known.peers) = keys;
    }

    /// The key by which a client is counted and found: its own; with a certificate, that of the section with its name,
    /// so that the same rules are for whom they name.
    pub fn key_of(&self, client: &tls::Client) -> PublicKey {
        let Some(certified) = &client.name else { return client.key };
        let known = self.known.clients();
        known.iter().find(|(_, (name, _))| name == certified).map_or(client.key, |(key, _)| *key)
    }

    /// The name of the client with this key.
    pub fn name_of(&self, key: &PublicKey) -> Option<String> {
        self.known.clients().get(key).map(|(name, _)| name.clone())
    }

    /// The name and rules of the client that has proved this key, or whom a certificate names.
    ///
    /// # Errors
    /// One sentence: its ticket is revoked, or its time is over.
    pub fn admit(&self, key: &PublicKey, certified: Option<&str>, now: SystemTime) -> Result<(String, Rules), String> {
        let known = self.known.clients();
        let (name, rules) = match (known.get(key), certified) {
            (Some(known), _) => known,
            // An authority has vouched for it, and nobody has said more.
            (None, Some(name)) => return Ok((name.to_owned(), Rules::new(*key))),
            (None, None) => return Err("this client's ticket was revoked; ask for another".to_owned()),
        };
        match rules.expires {
            Some(at) if rules.has_expired(now) && certified.is_some() => {
                Err(format!("the time of '{name}' has expired at {}; ask for another", text_of(at)))
            }
            Some(at) if rules.has_expired(now) => Err(expiry::refusal(name, at, now)),
            _ => Ok((name.clone(), rules.clone())),
        }
    }
}

impl AsFd for Guests {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}

/// The door where clients with certificates come in, too.
fn with(door: Door, credentials: &Credentials) -> Result<Door, String> {
    door.with_certificates(credentials).map_err(|error| format!("they are of no use: {error}"))
}

fn by_key(clients: &Clients) -> ByKey {
    clients.all().iter().map(|(name, rules)| (rules.key, (name.clone(), rules.clone()))).collect()
}

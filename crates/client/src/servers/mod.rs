//! All servers, and how they come and go while the program runs.
//!
//! A server is one session. Lists only grow: objects that the application holds a handle of stay valid even when their
//! server is lost or disconnected; its devices are unavailable then. A server that is connected again is a new one,
//! with new devices.

mod binary;
mod companion;
pub mod config;
pub mod discover;
mod lease;
pub mod local;
mod notice;
pub mod reach;
mod seek;
mod server;
pub mod ssh;
pub mod tickets;
pub mod watch;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, Weak};

use ropeway_transport::Endpoint;

pub use notice::Notice;
pub use server::{Change, Server, State};

use crate::base::callbacks::run_later;
use crate::base::sync::lock;
use crate::base::threads;
use crate::link::connection::Connection;
use crate::link::error::OpenError;
use crate::link::open::Manner;
use crate::objects::device::{NativePlatform, Platform};
use crate::servers::config::{Config, Presentation};
use crate::servers::discover::discover;
use crate::servers::lease::Leased;
use crate::servers::reach::{Held, reach};
use crate::servers::watch::Watch;

/// All servers, and the platforms that the application sees.
#[derive(Debug)]
pub struct System {
    this: Weak<Self>,
    pub(crate) config: Config,
    lists: Mutex<Lists>,
    /// Servers that were found and are not trusted, by their addresses.
    strangers: Mutex<HashSet<String>>,
    pub(crate) watch: Watch,
    /// What a broker has lent to the program.
    leased: Option<Leased>,
}

/// Both only grow.
#[derive(Debug, Default)]
struct Lists {
    servers: Vec<Arc<Server>>,
    platforms: Vec<Arc<Platform>>,
}

/// A session that has just begun.
struct Opened {
    connection: Arc<Connection>,
    held: Option<Held>,
}

impl System {
    /// Connects to all servers at once. Waits at most `config.connect_timeout` for the slowest, and before that, if
    /// servers are to be found on the local network, for `config.discover_time`; before all that, if devices are to be
    /// lent by a broker, as long as the request may wait. Reports on standard error which
    /// servers could not be reached, and why.
    pub fn connect(config: &Config) -> Arc<Self> {
        let leased = config.wanted.as_ref().and_then(|wanted| {
            let leased = Leased::get(wanted);
            leased.inspect_err(|error| crate::warning!("no devices are lent to this program: {error}")).ok()
        });
        let servers = leased.as_ref().map_or(&config.servers, |leased| &leased.servers).clone();
        let system = Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            config: config.clone(),
            lists: Mutex::default(),
            strangers: Mutex::default(),
            watch: Watch::default(),
            leased,
        });
        if config.presentation == Presentation::Always {
            lock(&system.lists).platforms.push(Platform::new(None));
        }
        std::thread::scope(|scope| {
            let looking = config
                .discover
                .then(|| threads::start(|| scope.spawn(|| open_all(&system.look_around(), config.manner()))));
            let configured = open_all(&servers, config.manner());
            let found = looking.and_then(|thread| thread.join().ok()).unwrap_or_default();
            for opened in configured.into_iter().chain(found) {
                system.take_in(opened);
            }
        });
        system
    }

    /// The addresses of trusted servers that announce themselves now. Others are named on standard error, each once.
    pub(crate) fn look_around(&self) -> Vec<Endpoint> {
        let sightings = match discover(&self.config, None) {
            Ok(sightings) => sightings,
            Err(error) => {
                if lock(&self.strangers).insert(String::new()) {
                    crate::warning!("cannot look for servers on the local network: {error}");
                }
                return Vec::new();
            }
        };
        for sighting in sightings.iter().filter(|sighting| sighting.trusted.is_none()) {
            let (address, name) = (sighting.address().to_string(), &sighting.found.name);
            if lock(&self.strangers).insert(address.clone()) {
                crate::warning!(
                    "a server '{name}' announces itself at {address}, and is not used: put its network or its name into `trusted` in \
                     ropeway.toml, or into ROPEWAY_TRUSTED, if you trust it"
                );
            }
        }
        sightings.into_iter().filter_map(|sighting| sighting.trusted).collect()
    }

    /// The platforms; none when no server could be reached. Those of servers that are gone are still there.
    pub fn platforms(&self) -> Vec<Arc<Platform>> {
        lock(&self.lists).platforms.clone()
    }

    /// All servers that were ever connected.
    pub fn servers(&self) -> Vec<Arc<Server>> {
        lock(&self.lists).servers.clone()
    }

    /// Connects to the server at `address`, unless it is connected already. Says on standard error why that is not
    /// possible.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn connect_server(&self, address: &Endpoint) -> Result<Arc<Server>, OpenError> {
        self.find_or_open(address).inspect_err(|error| say_unreachable(address, error)).map(|(server, _)| server)
    }

    /// The connected server at `address`, and whether it was connected just now.
    pub(crate) fn find_or_open(&self, address: &Endpoint) -> Result<(Arc<Server>, bool), OpenError> {
        if let Some(server) = self.connected(address) {
            return Ok((server, false));
        }
        let opened = open(address, self.config.manner())?;
        let connection = Arc::clone(&opened.connection);
        let server = self.take_in(opened);
        Ok((Arc::clone(&server), Arc::ptr_eq(server.connection(), &connection)))
    }

    fn connected(&self, address: &Endpoint) -> Option<Arc<Server>> {
        self.servers().into_iter().find(|server| server.is_at(address) && server.state() == State::Connected)
    }

    /// Ends the session with a server: its devices are no longer listed, and what waits for it ends with an error.
    pub fn disconnect(&self, server: &Server) {
        server.close();
    }

    /// Adds the servers and devices of a new connection; if another thread was faster, returns the server that is
    /// there.
    fn take_in(&self, opened: Opened) -> Arc<Server> {
        let Opened { connection, held } = opened;
        let server = Arc::new(Server::new(connection, held));
        let connection = server.connection();
        if connection.welcome().platforms.iter().all(|platform| platform.devices.is_empty()) {
            crate::warning!(
                "the server {} shows no OpenCL devices: its machine's drivers have none, or this client may use none of them                  (`ropeway doctor` there tells more)",
                connection.configured()
            );
        }
        {
            let mut lists = lock(&self.lists);
            let same = |other: &&Arc<Server>| other.is_at(connection.configured());
            if let Some(other) = lists.servers.iter().filter(same).find(|other| !other.connection().is_lost()) {
                let other = Arc::clone(other);
                drop(lists);
                connection.close();
                return other;
            }
            for other in lists.servers.iter().filter(same) {
                // The new server replaces the other: nothing lists the lost devices any more.
                other.close();
            }
            for native in NativePlatform::all_of(connection) {
                let platform = match self.config.presentation {
                    Presentation::PerPlatform => None,
                    Presentation::One | Presentation::Always => lists.platforms.first(),
                };
                let platform = platform.map(Arc::clone).unwrap_or_else(|| {
                    let only = (self.config.presentation == Presentation::PerPlatform).then(|| native.clone());
                    let platform = Platform::new(only);
                    lists.platforms.push(Arc::clone(&platform));
                    platform
                });
                platform.add(&native);
            }
            lists.servers.push(Arc::clone(&server));
        }
        self.watch.attend(connection);
        let (system, lost) = (Weak::clone(&self.this), Arc::downgrade(&server));
        connection.when_lost(Box::new(move || {
            if let (Some(system), Some(server)) = (system.upgrade(), lost.upgrade())
                && !server.connection().is_closed()
            {
                system.changed(&server, Change::Lost);
            }
        }));
        server
    }

    /// Notifies the listener, if it wants to know of this change.
    pub(crate) fn changed(&self, server: &Arc<Server>, change: Change) {
        if let Some(listener) = self.watch.listener(change) {
            let server = Arc::clone(server);
            run_later(move || listener(&server, change));
        }
        if change == Change::Lost {
            self.seek();
        }
    }

    /// This, to be kept by a thread.
    pub(crate) fn this(&self) -> Option<Arc<Self>> {
        self.this.upgrade()
    }
}

/// Connects to all of these at once; says which could not be reached.
fn open_all(addresses: &[Endpoint], manner: Manner) -> Vec<Opened> {
    let open = |address| open(address, manner).inspect_err(|error| say_unreachable(address, error)).ok();
    match addresses {
        // A thread costs more than a local handshake.
        [only] => open(only).into_iter().collect(),
        all => std::thread::scope(|scope| {
            let opening: Vec<_> =
                all.iter().map(|address| threads::start(|| scope.spawn(move || open(address)))).collect();
            opening.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect()
        }),
    }
}

fn open(address: &Endpoint, manner: Manner) -> Result<Opened, OpenError> {
    let reached = reach(address, manner.timeout, None)?;
    let name = reached.held.is_some().then_some(address);
    match Connection::open_as(&reached.endpoint, name, Manner { timeout: reached.timeout, ..manner }) {
        Ok(connection) => Ok(Opened { connection, held: reached.held }),
        Err(error) => Err(reached.failed(address, error)),
    }
}

fn say_unreachable(address: &Endpoint, error: &OpenError) {
    match address {
        Endpoint::Local => {
            crate::warning!("cannot use a server of this machine ({address}): {error}; ROPEWAY_LOG=info shows its log");
        }
        // Its errors say what to do.
        Endpoint::Ssh(_) => crate::warning!("cannot use the server {address}: {error}"),
        _ => crate::warning!(
            "cannot use the server {address}: {error}; check that `ropeway serve` runs there and that its address is right (`ropeway doctor` tells more)"
        ),
    }
}

//! The broker as a program: its connections, its loop, and what it writes and signs.
//!
//! ```text
//!   connection ──┐ what was said   ┌────────┐ effects  ┌────────┐
//!   connection ──┼────────────────►│  heart │─────────►│ scribe │ writes, then signs and says
//!   connection ──┘                 └────────┘          └───┬────┘
//!        ▲                                                 │
//!        └─────────────────────────────────────────────────┘
//! ```
//!
//! The heart alone decides, in one thread with all connections; the scribe, a thread of its own, waits for the disk.

mod clock;
mod connection;
mod heart;
mod inbox;
mod rules;
mod scribe;
mod strangers;
mod waited;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ropeway_daemon::access::{Guests, State, StateError};
use ropeway_transport::{Endpoint, Listener};
use rustix::io::ioctl_fionbio;
use tokio::sync::mpsc;
use tracing::{info, warn};

use crate::core::{Broker, Settings};
use crate::store::{Embedded, Store, StoreError};

/// Most messages of all connections that wait for the heart; connections that have more are not read.
const INBOX: usize = 4096;

/// The options of a broker.
#[derive(Clone, Debug)]
pub struct BrokerOptions {
    /// Where to listen: encrypted.
    pub listen: Vec<Endpoint>,
    /// The folder with its key, its clients, and what it writes down.
    pub state: PathBuf,
    /// What its operator decides.
    pub settings: Settings,
}

/// Why a broker did not start, or had to end: one sentence for a person.
#[derive(Debug)]
pub enum ServiceError {
    /// The state folder is of no use.
    State(StateError),
    /// Nothing can be written down.
    Store(StoreError),
    /// The pool's rules cannot be read.
    Rules(String),
    /// A socket could not be made.
    Listen(Endpoint, io::Error),
    /// Something that the broker itself needs.
    System(&'static str, io::Error),
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State(error) => write!(f, "{error}"),
            Self::Store(error) => write!(f, "{error}"),
            Self::Rules(why) => f.write_str(why),
            Self::Listen(endpoint, error) => write!(f, "cannot listen on {endpoint}: {error}"),
            Self::System(what, error) => write!(f, "cannot {what}: {error}"),
        }
    }
}

impl std::error::Error for ServiceError {}

/// Lends devices until SIGTERM or SIGINT.
///
/// Prints a line `listening on URL` on standard output for each socket once clients can connect.
///
/// # Errors
/// A [`ServiceError`] when it cannot begin.
pub fn serve(options: &BrokerOptions) -> Result<(), ServiceError> {
    let state = State::open(&options.state).map_err(ServiceError::State)?;
    let identity = state.identity().map_err(ServiceError::State)?;
    let guests = Guests::open(state, None, None).map_err(ServiceError::State)?;
    let mut store: Box<dyn Store> = Box::new(Embedded::open(&options.state).map_err(ServiceError::Store)?);
    let written = store.read().map_err(ServiceError::Store)?;
    info!(servers = written.servers.len(), leases = written.leases.len(), "what was lent before is read");
    let (file, rules) = rules::RulesFile::open(&options.state).map_err(ServiceError::Rules)?;
    let mut broker =
        Broker::new(options.settings.clone(), written.servers, written.leases, written.latest, Duration::ZERO);
    broker.set_clock(Duration::ZERO, SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
    broker.set_rules(rules, Duration::ZERO).into_iter().for_each(|why| warn!("{why}"));
    broker.restore_usage(written.usage, Duration::ZERO);
    let listeners = options.listen.iter().map(|endpoint| {
        let listen = || {
            let listener = Listener::bind(endpoint)?;
            ioctl_fionbio(&listener, true)?;
            Ok(listener)
        };
        listen().map_err(|error| ServiceError::Listen(endpoint.clone(), error))
    });
    let listeners: Vec<Listener> = listeners.collect::<Result<_, _>>()?;
    let clock = clock::Clock::start();
    let system = |what| move |error| ServiceError::System(what, error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(system("begin to wait for connections"))?;
    let (inbox, heard) = mpsc::channel(INBOX);
    let scribe = scribe::start(store, (identity, clock), inbox.clone()).map_err(system("start a thread"))?;
    runtime.block_on(async {
        for listener in &listeners {
            // Whoever reads this may have ended, which concerns nobody here.
            let _ =
                io::Write::write_all(&mut io::stdout(), format!("listening on {}\n", listener.endpoint()).as_bytes());
        }
        heart::run((broker, file, clock), guests, listeners, (inbox, heard), scribe)
            .await
            .map_err(system("wait for its sockets"))
    })
}

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
mod porch;
mod rules;
mod scribe;
mod strangers;
mod waited;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ropeway_daemon::access::{Guests, State, StateError};
use ropeway_daemon::worker::host_name;
use ropeway_transport::tls::Identity;
use ropeway_transport::{Endpoint, Listener};
use rustix::io::ioctl_fionbio;
use tokio::sync::mpsc;
use tracing::{info, warn};

use self::clock::Clock;
use self::heart::Seat;
use self::porch::{Ended, Porch};
use self::rules::RulesFile;

use crate::core::{Broker, Settings};
use crate::store::{Campaign, Candidate, Embedded, EtcdAddress, EtcdFiles, Store, StoreError, Tenure};

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
    /// Where the brokers of its pool write what they lend, if they are several.
    pub etcd: Option<(EtcdAddress, EtcdFiles)>,
    /// Where clients reach it: `host:port`; `None`: as it listens.
    pub address: Option<String>,
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

/// Where a broker writes.
enum Place {
    /// In a file of its own.
    Own(Embedded),
    /// Where the other brokers of its pool do.
    Pool(EtcdAddress, EtcdFiles),
}

/// Lends devices until SIGTERM or SIGINT.
///
/// Prints a line `listening on URL` on standard output for each socket once clients can connect.
///
/// # Errors
/// A [`ServiceError`] when it cannot begin, or cannot read what was lent before.
pub fn serve(options: &BrokerOptions) -> Result<(), ServiceError> {
    let state = State::open(&options.state).map_err(ServiceError::State)?;
    let identity = Arc::new(state.identity().map_err(ServiceError::State)?);
    let guests = Guests::open(state, None, None).map_err(ServiceError::State)?;
    // That another broker has the file is said before anything else is begun.
    let place = match options.etcd.clone() {
        None => Place::Own(Embedded::open(&options.state).map_err(ServiceError::Store)?),
        Some((etcd, files)) => Place::Pool(etcd, files),
    };
    let listeners = options.listen.iter().map(|endpoint| {
        let listen = || {
            let listener = Listener::bind(endpoint)?;
            ioctl_fionbio(&listener, true)?;
            Ok(listener)
        };
        listen().map_err(|error| ServiceError::Listen(endpoint.clone(), error))
    });
    let listeners: Vec<Listener> = listeners.collect::<Result<_, _>>()?;
    let endpoints: Vec<Endpoint> = listeners.iter().map(|listener| listener.endpoint().clone()).collect();
    let system = |what| move |error| ServiceError::System(what, error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(system("begin to wait for connections"))?;
    runtime.block_on(async {
        let mut porch = Porch::open(guests, listeners, INBOX).map_err(system("wait for its sockets"))?;
        let say = || {
            for endpoint in &endpoints {
                // Whoever reads this may have ended, which concerns nobody here.
                let _ = io::Write::write_all(&mut io::stdout(), format!("listening on {endpoint}\n").as_bytes());
            }
        };
        let (etcd, files) = match place {
            Place::Pool(etcd, files) => (etcd, files),
            Place::Own(store) => {
                let seat = sit_down(Box::new(store), Tenure::endless(), (options, &identity, porch.clock))?;
                say();
                return heart::run(seat, &mut porch).await.map(drop).map_err(system("wait for its sockets"));
            }
        };
        let (report, mut standings) = mpsc::unbounded_channel();
        let address = options.address.clone().or_else(|| endpoints.first().map(reached_at)).unwrap_or_default();
        let candidate = Candidate { etcd, files, address, key: identity.public().text() };
        let campaign = Campaign::start(candidate, move |standing| report.send(standing).is_ok());
        let _campaign = campaign.map_err(ServiceError::Store)?;
        say();
        while let Some(term) = porch.stand_by(&mut standings).await.map_err(system("wait for its sockets"))? {
            let tenure = term.tenure.clone();
            let outcome = match sit_down(Box::new(term.store), term.tenure, (options, &identity, porch.clock)) {
                Ok(seat) => heart::run(seat, &mut porch).await.map_err(system("wait for its sockets"))?,
                Err(error) => {
                    warn!("this broker cannot lead: {error}");
                    Ended::Deposed
                }
            };
            tenure.end();
            if outcome == Ended::Stopped {
                break;
            }
        }
        Ok(())
    })
}

/// Where other machines reach this endpoint: `host:port`.
fn reached_at(endpoint: &Endpoint) -> String {
    endpoint.reached_at(&host_name()).to_string().trim_start_matches("tls://").to_owned()
}

/// Begins to decide, with what was lent before.
fn sit_down(
    mut store: Box<dyn Store>,
    tenure: Tenure,
    (BrokerOptions { settings, state, .. }, identity, clock): (&BrokerOptions, &Arc<Identity>, Clock),
) -> Result<Seat, ServiceError> {
    let written = store.read().map_err(ServiceError::Store)?;
    info!(servers = written.servers.len(), leases = written.leases.len(), "what was lent before is read");
    let (file, rules) = RulesFile::open(state).map_err(ServiceError::Rules)?;
    let mut broker = Broker::new(settings.clone(), written.servers, written.leases, written.latest, Duration::ZERO);
    broker.set_clock(Duration::ZERO, SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
    broker.set_rules(rules, Duration::ZERO).into_iter().for_each(|why| warn!("{why}"));
    broker.restore_usage(written.usage, Duration::ZERO);
    let (inbox, heard) = mpsc::channel(INBOX);
    let scribe = scribe::start(store, (Arc::clone(identity), clock), inbox.clone());
    let scribe = scribe.map_err(|error| ServiceError::System("start a thread", error))?;
    Ok(Seat { broker, rules: file, tenure, scribe, inbox, heard })
}

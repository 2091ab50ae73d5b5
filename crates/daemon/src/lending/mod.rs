//! Lending this server's devices through a broker: the server shows them only to who has a lease on them.
//!
//! ```text
//!   broker ◄──── registrar (a thread) ────► Book ◄──── the server's loop
//!                 says what is here,                    lets holders in,
//!                 hears of leases                       ends what is over
//! ```

mod book;
mod kept;
mod registrar;
mod time;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ropeway_lease::grant::{Grant, LeaseId, WHOLE};
use ropeway_lease::property::Properties;
use ropeway_transport::tls::{Lease, PublicKey};
use ropeway_transport::{Endpoint, Listener};
use ropeway_worker::handoff::{Allowance, DeviceSelector};
use rustix::event::{EventfdFlags, eventfd};

use crate::access::Rules;
use crate::worker::host_name;
use book::Book;
use kept::Kept;
pub(crate) use time::BrokerTime;

/// Which broker lends the devices, and how.
#[derive(Clone, Debug)]
pub struct LendingOptions {
    /// The broker's addresses, with the ticket that is for servers. The first that answers is used.
    pub brokers: Vec<Endpoint>,
    /// This server's name there.
    pub name: String,
    /// Where clients reach this server; `None`: where it listens for encrypted connections.
    pub address: Option<Endpoint>,
}

impl LendingOptions {
    /// Where clients reach a server that listens on these.
    fn address(&self, listeners: &[Listener]) -> Option<String> {
        let is_encrypted = |endpoint: &&Endpoint| matches!(endpoint, Endpoint::Tls { .. });
        let listened = || {
            let endpoint = listeners.iter().map(Listener::endpoint).find(is_encrypted)?;
            Some(endpoint.reached_at(&host_name()).to_string())
        };
        self.address.as_ref().map(ToString::to_string).or_else(listened)
    }

    /// The key by which the broker signs leases.
    pub(crate) fn authority(&self) -> Option<PublicKey> {
        self.brokers.iter().find_map(|broker| broker.pass().and_then(ropeway_transport::Pass::server))
    }
}

/// What the server's loop and the registrar share.
#[derive(Debug)]
struct Shared {
    book: Mutex<Book>,
    /// Told when the server's loop has something to do.
    news: OwnedFd,
    /// Told when the registrar has.
    work: OwnedFd,
    time: Arc<BrokerTime>,
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the descriptor readable.
fn tell(descriptor: &OwnedFd) {
    // It fails only if it is readable already.
    let _ = rustix::io::write(descriptor, &1u64.to_ne_bytes());
}

/// Makes it unreadable.
fn hear(descriptor: &OwnedFd) {
    let mut count = [0; 8];
    let _ = rustix::io::read(descriptor, &mut count);
}

/// The server's side of lending.
#[derive(Debug)]
pub(crate) struct Lending {
    shared: Arc<Shared>,
    /// This server's public key, as grants name it.
    key: String,
}

impl Lending {
    /// Begins to look for the broker, in a thread of its own. Nothing is registered before the devices are known. The
    /// state folder has which leases are over, as far as that was known when the server was stopped.
    ///
    /// # Errors
    /// The system has no thread or no descriptor; no listener is for encrypted connections.
    pub(crate) fn start(
        options: LendingOptions,
        (key, state): (&PublicKey, &Path),
        listeners: &[Listener],
        time: Arc<BrokerTime>,
    ) -> io::Result<Self> {
        let missing = "holders of leases come encrypted, and no socket is for that; give --listen tls://HOST:PORT";
        let address = options.address(listeners).ok_or_else(|| io::Error::other(missing))?;
        let descriptor = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let shared = Arc::new(Shared { book: Mutex::default(), news: descriptor()?, work: descriptor()?, time });
        let key = key.text();
        let broker = options.authority().map(|key| key.text()).unwrap_or_default();
        let (kept, known) = Kept::open(state, broker);
        if let Some(known) = known {
            shared.book().recall(known);
        }
        registrar::start(options, (key.clone(), address), shared.clone(), kept)?;
        Ok(Self { shared, key })
    }

    /// The devices are known: in the order in which workers list them.
    pub(crate) fn offer(&self, devices: Vec<Properties>) {
        self.shared.book().know(devices);
        tell(&self.shared.news);
        tell(&self.shared.work);
    }

    /// What the holder of a lease may do here.
    ///
    /// # Errors
    /// Why it may not come in: one sentence.
    pub(crate) fn admit(&self, shown: &Lease, key: PublicKey) -> Result<(LeaseId, String, Rules), String> {
        let grant = Grant::from_text(&shown.contents)?;
        let Some(here) = grant.on(&self.key) else {
            return Err(format!("lease {} has no devices of this server", grant.lease));
        };
        let left = shown.not_after.duration_since(self.shared.time.now()).unwrap_or_default();
        let mut book = self.shared.book();
        book.check(grant.lease, Instant::now(), left)?;
        book.check_devices(grant.lease, &here.devices)?;
        let devices = here.devices.iter().map(|device| DeviceSelector::Number(device.number)).collect();
        let memory: Option<Vec<u64>> = here.devices.iter().map(|device| device.memory).collect();
        let memory = memory.map(|all| all.into_iter().sum());
        // Who has a device alone takes no turns on it.
        let shares = here.devices.iter().map(|device| device.share).filter(|share| *share < WHOLE);
        let weight = shares.max().map(u32::from);
        let allowance = Allowance { devices: Some(devices), memory, ..Allowance::default() };
        let name = format!("{} (lease {})", grant.user, grant.lease);
        Ok((grant.lease, name, Rules { allowance, weight, ..Rules::new(key) }))
    }

    /// Why the sessions of a lease have to end, if they have.
    pub(crate) fn ended(&self, lease: LeaseId) -> Option<String> {
        self.shared.book().ended(lease, Instant::now())
    }

    /// Takes note that there is something to do.
    pub(crate) fn heard(&self) {
        hear(&self.shared.news);
    }

    /// The sessions of each lease that are there now, each with its number and for how many seconds it has kept devices
    /// busy, after those of leases that are over were told to end.
    pub(crate) fn report(&self, sessions: BTreeMap<LeaseId, Vec<(u64, f64)>>) {
        let mut book = self.shared.book();
        if book.reported(sessions) {
            tell(&self.shared.work);
        }
    }
}

impl AsFd for Lending {
    /// Readable when a lease is over.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.news.as_fd()
    }
}

//! A server as brokers see it: it registers, lets holders in by what it was told, and says when nothing of a lease is
//! left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ropeway_lease::connection::{BrokerError, Connection};
use ropeway_lease::grant::{LeaseId, Share};
use ropeway_lease::messages::{Ask, Registration, Tell};
use ropeway_lease::property::{Properties, Value};
use ropeway_transport::Endpoint;

use super::{Dice, Event, History};

/// Devices of a server.
pub(super) const DEVICES: usize = 4;

/// How long a proof is good that the broker has not told of.
const PROOF: Duration = Duration::from_secs(600);

/// One server.
pub(super) struct Rack {
    pub(super) name: String,
    history: Arc<History>,
    book: Mutex<Book>,
    /// Whether its connection is to end.
    hangs_up: AtomicBool,
}

#[derive(Default)]
struct Book {
    latest: Option<LeaseId>,
    current: BTreeMap<LeaseId, Instant>,
    sessions: BTreeMap<LeaseId, BTreeSet<String>>,
    ending: BTreeSet<LeaseId>,
}

impl Book {
    fn is_over(&self, lease: LeaseId) -> bool {
        match self.current.get(&lease) {
            _ if self.ending.contains(&lease) => true,
            Some(until) => *until <= Instant::now(),
            None => self.latest.is_some_and(|latest| lease <= latest),
        }
    }
}

impl Rack {
    pub(super) fn new(name: &str, history: &Arc<History>) -> Arc<Self> {
        let history = Arc::clone(history);
        Arc::new(Self { name: name.to_owned(), history, book: Mutex::default(), hangs_up: AtomicBool::new(false) })
    }

    /// Serves until `end`.
    pub(super) fn start(
        self: &Arc<Self>,
        brokers: Vec<Endpoint>,
        mut dice: Dice,
        end: Arc<AtomicBool>,
    ) -> JoinHandle<()> {
        let rack = Arc::clone(self);
        thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                let Ok(connection) = Connection::open(&brokers, &rack.name, Duration::from_secs(3)) else { continue };
                // A connection that has ended is made anew.
                let _ = rack.serve(connection, &mut dice, &end);
            }
        })
    }

    /// Has it connect again.
    pub(super) fn hang_up(&self) {
        self.hangs_up.store(true, Ordering::Relaxed);
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the holder of a lease use some of a device; whether it does.
    pub(super) fn open(&self, lease: LeaseId, device: &str, share: Share) -> bool {
        let mut book = self.book();
        if book.is_over(lease) {
            return false;
        }
        book.current.entry(lease).or_insert_with(|| Instant::now() + PROOF);
        book.sessions.entry(lease).or_default().insert(device.to_owned());
        self.history.note(Event::Opened(lease, device.to_owned(), share));
        true
    }

    /// Ends the sessions of a lease.
    pub(super) fn close(&self, lease: LeaseId) {
        self.close_in(&mut self.book(), lease);
    }

    fn close_in(&self, book: &mut Book, lease: LeaseId) {
        for device in book.sessions.remove(&lease).unwrap_or_default() {
            self.history.note(Event::Closed(lease, device));
        }
    }

    fn registration(&self) -> Registration {
        let device = |number: usize| {
            let text = |value: &str| Value::Text(value.to_owned());
            Properties::from([
                ("name".to_owned(), text(&format!("{} {number}", self.name))),
                ("type".to_owned(), Value::List(vec![text("gpu")])),
                ("global_mem_size".to_owned(), Value::Number(1 << 30)),
            ])
        };
        Registration {
            name: self.name.clone(),
            key: self.name.clone(),
            address: format!("tls://{}:7590", self.name),
            devices: (0..DEVICES).map(device).collect(),
            leases: self.book().sessions.keys().copied().collect(),
        }
    }

    fn serve(&self, mut connection: Connection, dice: &mut Dice, end: &AtomicBool) -> Result<(), BrokerError> {
        connection.say(&Ask::Register(self.registration()))?;
        while !end.load(Ordering::Relaxed) && !self.hangs_up.swap(false, Ordering::Relaxed) {
            if let Some(tell) = connection.next_by(Instant::now() + Duration::from_millis(20))? {
                self.take(tell);
            }
            // Sessions take their time to end.
            if dice.below(3) == 0 {
                continue;
            }
            let mut cleared = Vec::new();
            {
                let mut book = self.book();
                let over: Vec<_> = book.sessions.keys().copied().filter(|lease| book.is_over(*lease)).collect();
                over.into_iter().for_each(|lease| self.close_in(&mut book, lease));
                cleared.extend(std::mem::take(&mut book.ending));
            }
            cleared.into_iter().try_for_each(|lease| connection.say(&Ask::Cleared { lease }))?;
        }
        Ok(())
    }

    fn take(&self, tell: Tell) {
        let (mut book, now) = (self.book(), Instant::now());
        match tell {
            Tell::Registered { latest, leases } => {
                if book.latest.is_some_and(|before| before > latest) {
                    let why = format!("the brokers have forgotten lease {:?}, and know {latest}", book.latest);
                    self.history.note(Event::Wrong(why));
                }
                book.latest = Some(latest);
                book.ending.clear();
                book.current = leases.into_iter().map(|(lease, ms)| (lease, now + Duration::from_millis(ms))).collect();
            }
            Tell::Lasts { lease, for_ms } => {
                book.latest = book.latest.max(Some(lease));
                book.current.insert(lease, now + Duration::from_millis(for_ms));
            }
            Tell::End { lease, why } => {
                book.latest = book.latest.map(|latest| latest.max(lease));
                book.current.remove(&lease);
                book.ending.insert(lease);
                self.history.note(Event::IsOver(lease, format!("{}: {why}", self.name)));
            }
            _ => {}
        }
    }
}

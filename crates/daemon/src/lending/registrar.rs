//! The thread that speaks with the broker: it registers this server's devices, hears of leases, and says what became of
//! them. While there is no broker, it looks for one, and leases go on.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ropeway_lease::connection::{BrokerError, Connection};
use ropeway_lease::messages::{Ask, BEAT_MS, Registration, Tell};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing::{info, warn};

use super::kept::Kept;
use super::{LendingOptions, Shared, hear, tell};

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(3);

/// How long to wait before the next attempt to reach a broker.
const PAUSE: Duration = Duration::from_millis(400);

/// Starts it; it ends with the process.
///
/// # Errors
/// The system has no thread.
pub(super) fn start(
    options: LendingOptions,
    (key, address): (String, String),
    shared: Arc<Shared>,
    mut kept: Kept,
) -> io::Result<()> {
    let run = move || {
        let mut last = String::new();
        loop {
            let why = match Connection::open(&options.brokers, "ropeway serve", CONNECT) {
                Ok(connection) => {
                    last.clear();
                    Registrar {
                        connection,
                        name: &options.name,
                        key: &key,
                        address: &address,
                        shared: &shared,
                        kept: &mut kept,
                        registered: false,
                        unwritten: false,
                    }
                    .serve()
                }
                Err(why) => why,
            };
            let why = why.to_string();
            if why != last {
                warn!("no devices are lent now, and leases go on: {why}");
                last = why;
            }
            thread::sleep(PAUSE);
        }
    };
    thread::Builder::new().name("registrar".to_owned()).spawn(run).map(drop)
}

struct Registrar<'a> {
    connection: Connection,
    name: &'a str,
    key: &'a str,
    address: &'a str,
    shared: &'a Shared,
    kept: &'a mut Kept,
    registered: bool,
    /// Whether the broker has said of leases that they are over, and that is not written down.
    unwritten: bool,
}

impl Registrar<'_> {
    /// Speaks with the broker until that is not possible any more; returns why.
    fn serve(mut self) -> BrokerError {
        loop {
            if let Err(error) = self.step() {
                return error;
            }
        }
    }

    /// Waits until there is something to hear or to say, and does that.
    fn step(&mut self) -> Result<(), BrokerError> {
        if !self.connection.link().has_more() {
            let mut sources =
                [PollFd::new(self.connection.link(), PollFlags::IN), PollFd::new(&self.shared.work, PollFlags::IN)];
            let beat = Timespec { tv_sec: 0, tv_nsec: (BEAT_MS * 1_000_000).cast_signed() };
            // An error comes back with the next read.
            let _ = poll(&mut sources, Some(&beat));
        }
        hear(&self.shared.work);
        while let Some(tell) = self.connection.next_by(Instant::now())? {
            self.take(tell)?;
        }
        if let Some(said) = self.connection.time() {
            self.shared.time.hear(said);
        }
        if !self.registered {
            return self.register();
        }
        let (using, cleared) = self.shared.book().news();
        self.keep();
        for (lease, sessions, device_seconds) in using {
            self.connection.say(&Ask::Using { lease, sessions, device_seconds })?;
        }
        cleared.into_iter().try_for_each(|lease| self.connection.say(&Ask::Cleared { lease }))
    }

    /// Writes down which leases are over, before the broker hears that nothing of them is left: from then on, their holders
    /// must not be let in any more. On a full disk, devices come free all the same.
    fn keep(&mut self) {
        if self.unwritten {
            let known = self.shared.book().known();
            self.unwritten = known.is_some_and(|known| !self.kept.keep(known));
        }
    }

    /// Registers the devices, once they are known.
    fn register(&mut self) -> Result<(), BrokerError> {
        let (devices, leases) = {
            let book = self.shared.book();
            let Some(devices) = book.devices.clone() else { return Ok(()) };
            (devices, book.leases())
        };
        let (name, address) = (self.name.to_owned(), self.address.to_owned());
        let about = Registration { name, key: self.key.to_owned(), address, devices, leases };
        self.registered = true;
        self.connection.say(&Ask::Register(about))
    }

    /// Takes in what the broker says.
    fn take(&mut self, said: Tell) -> Result<(), BrokerError> {
        let now = Instant::now();
        let mut book = self.shared.book();
        match said {
            Tell::Registered { latest, leases } => {
                info!(broker = %self.connection.broker(), leases = leases.len(), "the devices are lent by the broker");
                book.registered(latest, leases, now);
                self.unwritten = true;
            }
            Tell::Lasts { lease, for_ms } => book.lasts(lease, for_ms, now),
            Tell::End { lease, why } => {
                book.end(lease, why);
                self.unwritten = true;
            }
            Tell::Refused { why } => {
                let broker = self.connection.broker();
                return Err(BrokerError::Refused(format!("the broker {broker} refuses: {why}")));
            }
            _ => return Ok(()),
        }
        drop(book);
        tell(&self.shared.news);
        Ok(())
    }
}

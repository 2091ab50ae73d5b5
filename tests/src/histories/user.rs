//! A client as brokers see it: it asks for devices, uses them for a while, and gives them back, or dies, or lets its lease
//! run out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ropeway_lease::connection::{BrokerError, Connection};
use ropeway_lease::grant::{LeaseId, Share};
use ropeway_lease::messages::{Ask, Lease, LeaseAsk, Tell};
use ropeway_transport::Endpoint;
use ropeway_transport::tls::Identity;

use super::rack::Rack;
use super::{Dice, Event, History};

/// How long a broker has for an answer.
const ANSWER: Duration = Duration::from_secs(5);

/// How long brokers may all be away.
const AWAY: Duration = Duration::from_secs(60);

/// How long a lease lasts that is to run out.
const BRIEF_MS: u64 = 1500;

/// One client.
pub(super) struct User {
    pub(super) brokers: Vec<Endpoint>,
    pub(super) racks: Vec<Arc<Rack>>,
    pub(super) history: Arc<History>,
    pub(super) dice: Dice,
    pub(super) name: String,
}

/// What a lease ends with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Released,
    Died,
    RunsOut,
}

impl User {
    /// Goes on until `end`.
    pub(super) fn start(mut self, end: Arc<AtomicBool>) -> JoinHandle<()> {
        thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                self.borrow_some(&end);
            }
        })
    }

    fn note(&self, event: Event) {
        self.history.note(event);
    }

    /// A connection, however long that takes.
    fn connect(&self) -> Connection {
        let begin = Instant::now();
        loop {
            match Connection::open(&self.brokers, &self.name, Duration::from_secs(3)) {
                Ok(connection) => return connection,
                Err(BrokerError::Unreachable(_)) if begin.elapsed() < AWAY => {}
                Err(error) => panic!("{}: {error}", self.name),
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Asks for devices, and does something with them.
    fn borrow_some(&mut self, end: &AtomicBool) {
        let (want, share) = [("gpu", 1000), ("2 gpu", 1000), ("3 gpu on one server", 1000), ("gpu, share=0.4", 400)]
            [self.dice.below(4) as usize];
        let (ends, is_attached) = match self.dice.below(10) {
            0 => (End::Died, true),
            1 => (End::RunsOut, false),
            2..5 => (End::Released, false),
            _ => (End::Released, true),
        };
        let for_ms = if ends == End::RunsOut { BRIEF_MS } else { 60_000 };
        let key = Identity::generate().expect("a key can be made").public().text();
        let ask = LeaseAsk {
            want: want.parse().expect("it is a request"),
            key,
            for_ms: (!is_attached).then_some(for_ms),
            wait_ms: None,
            priority: 0,
            expected_ms: None,
        };
        let mut connection = self.connect();
        let Some(lease) = obtain(&mut connection, ask, end) else { return };
        self.note(Event::Granted(lease.lease));
        if ends == End::RunsOut {
            self.note(Event::MayEnd(lease.lease));
        }
        let mut connection = is_attached.then_some(connection);
        self.use_devices(&lease, share, ends);
        let until = Instant::now() + Duration::from_millis(self.dice.below(1500));
        while Instant::now() < until {
            connection = match connection {
                Some(connection) => Some(self.hear(connection, &lease)),
                None => {
                    thread::sleep(Duration::from_millis(50));
                    None
                }
            };
        }
        // Another program with the same lease.
        self.use_devices(&lease, share, ends);
        match ends {
            End::Released => self.give_back(connection, &lease, is_attached),
            End::Died => self.note(Event::MayEnd(lease.lease)),
            End::RunsOut => {}
        }
        if self.dice.below(3) == 0 {
            // Who has had a lease shows its proof again: a server may let it in only while nobody else has the devices.
            self.each_device(&lease, |rack, device| {
                rack.open(lease.lease, device, share);
            });
        }
    }

    fn each_device(&self, lease: &Lease, mut what: impl FnMut(&Rack, &str)) {
        for server in &lease.servers {
            let rack = self.racks.iter().find(|rack| rack.name == server.key).expect("it is one of the pool's");
            server.devices.iter().for_each(|device| what(rack, device));
        }
    }

    /// Uses the devices of a lease that is held.
    fn use_devices(&self, lease: &Lease, share: Share, ends: End) {
        self.each_device(lease, |rack, device| {
            if !rack.open(lease.lease, device, share) && ends != End::RunsOut {
                self.note(Event::IsOver(lease.lease, format!("{} does not let its holder in", rack.name)));
            }
        });
    }

    /// Hears what the broker says for a moment, and comes back to it when it is lost.
    fn hear(&self, mut connection: Connection, lease: &Lease) -> Connection {
        match connection.next_by(Instant::now() + Duration::from_millis(20)) {
            Ok(Some(Tell::Ended { lease, why })) => self.note(Event::IsOver(lease, format!("{}: {why}", self.name))),
            Ok(_) => {}
            Err(_) => return self.come_back(lease.lease),
        }
        connection
    }

    fn come_back(&self, lease: LeaseId) -> Connection {
        loop {
            let mut connection = self.connect();
            match connection.ask(&Ask::Attach { lease }, ANSWER) {
                Ok(Tell::Ended { why, .. }) | Err(BrokerError::Refused(why)) => {
                    self.note(Event::IsOver(lease, format!("{} comes back: {why}", self.name)));
                }
                Ok(_) => {}
                Err(BrokerError::Unreachable(_)) => continue,
            }
            return connection;
        }
    }

    /// Renews a lease, perhaps, and releases it.
    fn give_back(&mut self, connection: Option<Connection>, lease: &Lease, is_attached: bool) {
        let number = lease.lease;
        let mut connection = connection.unwrap_or_else(|| self.connect());
        if self.dice.below(2) == 0 {
            match connection.ask(&Ask::Renew { lease: number, for_ms: None }, ANSWER) {
                Err(BrokerError::Refused(why)) => {
                    self.note(Event::IsOver(number, format!("{} renews it: {why}", self.name)));
                }
                Err(BrokerError::Unreachable(_)) if is_attached => connection = self.come_back(number),
                Err(BrokerError::Unreachable(_)) => connection = self.connect(),
                Ok(_) => {}
            }
        }
        if self.dice.below(2) == 0 {
            self.each_device(lease, |rack, _| rack.close(number));
        }
        self.note(Event::MayEnd(number));
        let mut is_first = true;
        loop {
            match connection.ask(&Ask::Release { lease: number }, ANSWER) {
                // One that was asked before may have been done and not answered.
                Err(BrokerError::Refused(why)) if is_first => {
                    return self.note(Event::Wrong(format!("{} releases lease {number}: {why}", self.name)));
                }
                Err(BrokerError::Unreachable(_)) => connection = self.connect(),
                _ => return,
            }
            is_first = false;
        }
    }
}

/// Waits for a lease; `None`: the connection was lost, or this is to end.
fn obtain(connection: &mut Connection, ask: LeaseAsk, end: &AtomicBool) -> Option<Lease> {
    connection.say(&Ask::Lease(ask)).ok()?;
    while !end.load(Ordering::Relaxed) {
        match connection.next_by(Instant::now() + Duration::from_millis(50)) {
            Ok(Some(Tell::Granted(lease))) => return Some(*lease),
            // Before any server has registered, nobody has what is wanted.
            Ok(Some(Tell::Refused { .. })) | Err(_) => return None,
            Ok(_) => {}
        }
    }
    None
}

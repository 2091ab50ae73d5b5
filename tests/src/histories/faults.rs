//! A run: brokers, servers and clients, and what is done to the brokers meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ropeway_transport::Endpoint;

use super::parts::Parts;
use super::rack::Rack;
use super::user::User;
use super::{Dice, Event, History, faults_of};
use crate::broker::Broker;
use crate::process;
use crate::valve::Valve;

/// What is done to brokers in one run.
const TROUBLES: usize = 4;

const SERVERS: u64 = 3;
const USERS: u64 = 6;

/// Something that is done to a broker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// It is killed, and started again.
    Killed,
    /// It is told to end, and started again.
    Stopped,
    /// It is not run for a while.
    Paused,
    /// It does not reach etcd for a while; what is under way arrives late.
    CutOff,
    /// It does not reach etcd until another one leads, and some servers and clients do not reach it, while the others do.
    Parted,
}

/// Brokers of one pool.
pub struct Run {
    /// The brokers, and their ways to etcd, if they have any.
    pub brokers: Vec<(Broker, Vec<Valve>)>,
    /// What may be done to them.
    pub troubles: Vec<Trouble>,
    /// The machines, if they are not all this one.
    pub parts: Option<Parts>,
}

impl Run {
    /// Runs them with servers, clients and troubles at random; returns what has happened.
    ///
    /// # Panics
    /// When something happened that must not.
    pub fn run(mut self, seed: u64) -> Vec<Event> {
        let history = Arc::new(History::default());
        let (racks_end, users_end) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (for_racks, for_users) = (self.endpoints("racks", &["--registers"]), self.endpoints("users", &[]));
        let racks: Vec<_> = (0..SERVERS).map(|number| Rack::new(&format!("rack{number}"), &history)).collect();
        let parts = self.parts.as_ref();
        let start = |(number, rack): (u64, &Arc<Rack>)| {
            let begin = || rack.start(for_racks.clone(), Dice::new(seed, 100 + number), Arc::clone(&racks_end));
            parts.map_or_else(begin, |parts| parts.side(number).inside(begin))
        };
        let serving: Vec<_> = (0..).zip(&racks).map(start).collect();
        let start = |number| {
            let user = User {
                brokers: for_users.clone(),
                racks: racks.clone(),
                history: Arc::clone(&history),
                dice: Dice::new(seed, 200 + number),
                name: format!("user{number}"),
            };
            let begin = || user.start(Arc::clone(&users_end));
            match parts {
                Some(parts) => parts.side(number).inside(begin),
                None => begin(),
            }
        };
        let using: Vec<_> = (0..USERS).map(start).collect();
        let mut dice = Dice::new(seed, 0);
        for _ in 0..TROUBLES {
            thread::sleep(Duration::from_millis(500 + dice.below(1500)));
            self.trouble(&mut dice, &history, &racks);
        }
        thread::sleep(Duration::from_millis(1000));
        users_end.store(true, Ordering::Relaxed);
        let used = using.into_iter().map(thread::JoinHandle::join).filter(Result::is_err).count();
        racks_end.store(true, Ordering::Relaxed);
        let served = serving.into_iter().map(thread::JoinHandle::join).filter(Result::is_err).count();
        let events = history.events();
        let wrong = faults_of(&events);
        if !wrong.is_empty() || used + served > 0 {
            for (number, event) in events.iter().enumerate() {
                eprintln!("{number}: {event:?}");
            }
            panic!("seed {seed}: {}", wrong.join("\n"));
        }
        events
    }

    /// The addresses of all brokers with a new ticket.
    fn endpoints(&self, name: &str, args: &[&str]) -> Vec<Endpoint> {
        let first = &self.brokers[0].0;
        let ticket = first.ticket(name, args);
        let to = |(broker, _): &(Broker, Vec<Valve>)| {
            if !std::ptr::eq(broker, first) {
                first.copy_clients_to(broker);
            }
            first.as_ticket_of(&ticket, broker).parse().expect("it is a ticket")
        };
        self.brokers.iter().map(to).collect()
    }

    /// Does something to one of them.
    fn trouble(&mut self, dice: &mut Dice, history: &History, racks: &[Arc<Rack>]) {
        let trouble = self.troubles[dice.below(self.troubles.len() as u64) as usize];
        let leader = self.brokers.iter().position(|(broker, _)| broker.leads());
        let any = dice.below(self.brokers.len() as u64) as usize;
        // The one that leads, for the most part.
        let number = leader.filter(|_| dice.below(4) > 0 || trouble == Trouble::Parted).unwrap_or(any);
        // A broker that is cut off for less than two seconds still leads afterwards.
        let least = if trouble == Trouble::CutOff { 1500 } else { 100 };
        let time = Duration::from_millis(least + dice.below(3500));
        let told = if trouble == Trouble::Parted { String::new() } else { format!(" for {time:?}") };
        history.note(Event::Fault(format!("broker {number} is {trouble:?}{told}")));
        let (broker, valves) = &mut self.brokers[number];
        match trouble {
            Trouble::Killed | Trouble::Stopped => {
                if trouble == Trouble::Stopped {
                    broker.daemon().stop();
                }
                broker.kill();
                thread::sleep(time);
                broker.restart();
            }
            Trouble::Paused => {
                let pid = broker.daemon().pid();
                process::stop(pid);
                thread::sleep(time);
                process::resume(pid);
            }
            Trouble::Parted => {
                let parts = self.parts.as_ref().expect("there is a network to part");
                parts.part(&self.brokers, number, racks, dice);
            }
            Trouble::CutOff => {
                valves.iter().for_each(Valve::shut);
                thread::sleep(time);
                valves.iter().for_each(Valve::open);
            }
        }
        history.note(Event::Fault(format!("broker {number} is back")));
    }
}

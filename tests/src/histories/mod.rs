//! Histories of leases: brokers, whose processes are real, and servers and clients that speak with them and only write
//! down what they see; and what must hold of all that they have written down.

mod faults;
mod parts;
mod rack;
mod user;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use ropeway_lease::grant::{LeaseId, Share, WHOLE};

pub use faults::{Run, Trouble};
pub use parts::Parts;

/// Something that somebody has seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A client was granted a lease.
    Granted(LeaseId),
    /// A server has let the holder of a lease use so much of a device.
    Opened(LeaseId, String, Share),
    /// The holder of a lease does not use a device any more, and is not let in.
    Closed(LeaseId, String),
    /// A lease may end from now on: its holder gives it back, dies, or does not renew it.
    MayEnd(LeaseId),
    /// Somebody was told that a lease is over: who, and why.
    IsOver(LeaseId, String),
    /// Something that must never be.
    Wrong(String),
    /// A fault that was made.
    Fault(String),
}

/// What has happened, in its order.
#[derive(Debug, Default)]
pub struct History(Mutex<Vec<Event>>);

impl History {
    /// Writes down an event. What follows from it must not have begun yet.
    pub fn note(&self, event: Event) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    /// All events.
    pub fn events(&self) -> Vec<Event> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What is wrong with a history, with the number of the event that shows it.
pub fn faults_of(events: &[Event]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut users: BTreeMap<&str, BTreeMap<LeaseId, Share>> = BTreeMap::new();
    let (mut granted, mut may_end, mut over) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (number, event) in events.iter().enumerate() {
        match event {
            Event::Granted(lease) if !granted.insert(*lease) => {
                wrong.push(format!("{number}: lease {lease} was granted twice"));
            }
            Event::Granted(lease) if over.contains(lease) => {
                wrong.push(format!("{number}: lease {lease} was granted after it was over"));
            }
            Event::Opened(lease, device, share) => {
                let users = users.entry(device).or_default();
                users.insert(*lease, *share);
                if users.values().map(|share| u32::from(*share)).sum::<u32>() > u32::from(WHOLE) {
                    wrong.push(format!("{number}: more than all of {device} is used: {users:?}"));
                }
            }
            Event::Closed(lease, device) => drop(users.entry(device).or_default().remove(lease)),
            Event::MayEnd(lease) => drop(may_end.insert(*lease)),
            Event::IsOver(lease, who) => {
                over.insert(*lease);
                // A lease of which nobody has heard is nobody's loss.
                if granted.contains(lease) && !may_end.contains(lease) {
                    wrong.push(format!("{number}: lease {lease} was held, and is over: {who}"));
                }
            }
            Event::Wrong(why) => wrong.push(format!("{number}: {why}")),
            Event::Granted(_) | Event::Fault(_) => {}
        }
    }
    wrong
}

/// Numbers at random, the same ones for the same seed (SplitMix64).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// For a seed, and one of those who throw them.
    pub fn new(seed: u64, who: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ who.wrapping_mul(0xd1b5_4a32_d192_ed03))
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_must_not_be_is_found() {
        let [one, two] = [1, 2].map(LeaseId);
        let (opened, closed) =
            (|lease, share| Event::Opened(lease, "d".into(), share), |lease| Event::Closed(lease, "d".into()));
        let right = [
            Event::Granted(one),
            opened(one, 1000),
            opened(one, 1000),
            Event::MayEnd(one),
            closed(one),
            Event::IsOver(one, "s".into()),
            Event::Granted(two),
            opened(two, 500),
        ];
        assert_eq!(faults_of(&right), [""; 0]);
        let found = |events: &[Event]| faults_of(events).join("; ");
        assert!(found(&[opened(one, 1000), opened(two, 1)]).contains("1: more than all of d is used"));
        assert!(found(&[Event::Granted(one), Event::Granted(one)]).contains("1: lease 1 was granted twice"));
        let early = [Event::Granted(one), Event::IsOver(one, "s: gone".into()), Event::MayEnd(one)];
        assert!(found(&early).contains("1: lease 1 was held, and is over: s: gone"));
        let late = [Event::IsOver(one, "s".into()), Event::Granted(one)];
        assert!(found(&late).contains("1: lease 1 was granted after it was over"));
        assert!(found(&[Event::Wrong("x".into())]).contains("0: x"));
    }
}

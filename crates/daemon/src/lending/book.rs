//! The leases on this server's devices, as far as it knows.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use ropeway_lease::grant::{GrantedDevice, LeaseId};
use ropeway_lease::property::{Properties, Value};

use super::kept::Known;

/// Why a lease is over that its broker has not ended.
const EXPIRED: &str = "it was not renewed in time";

/// So many more seconds of busy devices are worth telling the broker.
const WORTH_TELLING: f64 = 0.05;

/// What is known.
#[derive(Default, Debug)]
pub(super) struct Book {
    /// This server's devices, once a worker has said which there are.
    pub(super) devices: Option<Vec<Properties>>,
    /// Of leases up to this number, `current` has all that are not over; nothing is known of later ones. `None` before
    /// the broker was reached.
    latest: Option<LeaseId>,
    /// Leases up to `latest` that were not over when this server was stopped; of no use once the broker is reached.
    before: BTreeSet<LeaseId>,
    /// Leases that are not over, and until when they last.
    current: BTreeMap<LeaseId, Instant>,
    /// Leases that the broker has ended, until it is told that nothing of them is left; and why.
    ending: BTreeMap<LeaseId, String>,
    /// The leases that were in `ending` when sessions were counted last.
    counted: BTreeSet<LeaseId>,
    /// The sessions of each lease.
    sessions: BTreeMap<LeaseId, u32>,
    /// For how many seconds each session of a lease has kept devices busy, those that have ended among them.
    busy: BTreeMap<LeaseId, BTreeMap<u64, f64>>,
    /// What of that the broker knows, all sessions of a lease together.
    told: BTreeMap<LeaseId, f64>,
    /// The names of devices that leases were let in with before it was known which devices there are.
    unproved: Vec<(LeaseId, Vec<GrantedDevice>)>,
    /// Leases on devices that are others now.
    mistaken: BTreeMap<LeaseId, String>,
    /// The leases whose number of sessions the broker does not know.
    changed: BTreeSet<LeaseId>,
}

impl Book {
    /// Takes in what was known of leases when this server was stopped.
    pub(super) fn recall(&mut self, known: Known) {
        self.latest = Some(known.latest);
        self.before = known.open.into_iter().collect();
    }

    /// What is known of leases; `None` before anything is.
    pub(super) fn known(&self) -> Option<Known> {
        let latest = self.latest?;
        let open: BTreeSet<LeaseId> = self.before.iter().chain(self.current.keys()).copied().collect();
        Some(Known { latest, open: open.into_iter().filter(|lease| *lease <= latest).collect() })
    }

    /// Takes in which devices there are.
    pub(super) fn know(&mut self, devices: Vec<Properties>) {
        self.devices = Some(devices);
        for (lease, granted) in std::mem::take(&mut self.unproved) {
            if let Err(why) = self.check_devices(lease, &granted) {
                self.mistaken.insert(lease, why);
            }
        }
    }

    /// Whether the devices of a lease are those that are here, as far as that is known: no session begins before.
    ///
    /// # Errors
    /// One is another.
    pub(super) fn check_devices(&mut self, lease: LeaseId, granted: &[GrantedDevice]) -> Result<(), String> {
        if self.devices.is_none() {
            self.unproved.push((lease, granted.to_vec()));
            return Ok(());
        }
        let other = granted.iter().find(|device| self.name_of(device.number) != Some(&device.name));
        other.map_or(Ok(()), |device| {
            let number = device.number;
            Err(format!(
                "device {number} of this server is another than lease {lease} says; ask the broker for another lease"
            ))
        })
    }

    /// The name of a device.
    fn name_of(&self, number: u32) -> Option<&String> {
        match self.devices.as_ref()?.get(number as usize)?.get("name") {
            Some(Value::Text(name)) => Some(name),
            _ => None,
        }
    }

    /// Whether sessions of a lease may begin; by what it says itself, it lasts for `left`.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn check(&mut self, lease: LeaseId, now: Instant, left: Duration) -> Result<(), String> {
        if let Some(why) = self.ended(lease, now) {
            return Err(why);
        }
        // It may be shown before the broker has told of it here, and while there is no broker.
        self.current.entry(lease).or_insert_with(|| now.checked_add(left).unwrap_or(now));
        Ok(())
    }

    /// Why a lease is over, if it is.
    pub(super) fn ended(&self, lease: LeaseId, now: Instant) -> Option<String> {
        let over = |why: &str| Some(format!("lease {lease} is over: {why}"));
        if let Some(why) = self.mistaken.get(&lease) {
            return Some(why.clone());
        }
        match (self.ending.get(&lease), self.current.get(&lease)) {
            (Some(why), _) => over(why),
            (None, Some(until)) if *until <= now => over(EXPIRED),
            (None, Some(_)) => None,
            (None, None) if self.before.contains(&lease) => None,
            (None, None) if self.latest.is_some_and(|latest| lease <= latest) => over("its broker has ended it"),
            (None, None) => None,
        }
    }

    /// The broker has said which leases there are.
    pub(super) fn registered(&mut self, latest: LeaseId, leases: Vec<(LeaseId, u64)>, now: Instant) {
        self.latest = Some(latest);
        self.before.clear();
        self.mistaken.clear();
        self.ending.clear();
        self.current = leases.into_iter().map(|(lease, ms)| (lease, now + Duration::from_millis(ms))).collect();
        self.changed.extend(self.sessions.keys());
    }

    /// The broker has said how long a lease lasts. It tells of leases here in the order of their numbers.
    pub(super) fn lasts(&mut self, lease: LeaseId, for_ms: u64, now: Instant) {
        self.latest = self.latest.max(Some(lease));
        self.current.insert(lease, now + Duration::from_millis(for_ms));
    }

    /// The broker has ended a lease.
    pub(super) fn end(&mut self, lease: LeaseId, why: String) {
        self.current.remove(&lease);
        self.before.remove(&lease);
        self.latest = self.latest.map(|latest| latest.max(lease));
        self.ending.insert(lease, why);
    }

    /// Takes in how many sessions each lease has; returns whether the broker has to hear of it.
    pub(super) fn reported(&mut self, sessions: BTreeMap<LeaseId, Vec<(u64, f64)>>) -> bool {
        let counts = sessions.iter().map(|(lease, all)| (*lease, all.len() as u32)).collect();
        for (lease, all) in sessions {
            self.busy.entry(lease).or_default().extend(all);
            let news = self.seconds(lease) - self.told.get(&lease).unwrap_or(&0.0);
            if news >= WORTH_TELLING {
                self.changed.insert(lease);
            }
        }
        let before = std::mem::replace(&mut self.sessions, counts);
        let all: BTreeSet<LeaseId> = before.keys().chain(self.sessions.keys()).copied().collect();
        self.changed.extend(all.into_iter().filter(|lease| before.get(lease) != self.sessions.get(lease)));
        self.counted = self.ending.keys().copied().collect();
        !self.changed.is_empty() || !self.counted.is_empty()
    }

    /// For how many seconds the sessions of a lease have kept devices busy.
    fn seconds(&self, lease: LeaseId) -> f64 {
        self.busy.get(&lease).map_or(0.0, |all| all.values().sum())
    }

    /// The leases with sessions.
    pub(super) fn leases(&self) -> Vec<LeaseId> {
        self.sessions.keys().copied().collect()
    }

    /// What the broker has to hear: how many sessions leases have, with the seconds for which these have kept devices
    /// busy, and which are over with nothing left.
    pub(super) fn news(&mut self) -> (Vec<(LeaseId, u32, f64)>, Vec<LeaseId>) {
        let changed = std::mem::take(&mut self.changed);
        let sessions = &self.sessions;
        let count = |lease: &LeaseId| sessions.get(lease).copied().unwrap_or(0);
        let using: Vec<_> = changed.iter().map(|lease| (*lease, count(lease), self.seconds(*lease))).collect();
        self.told.extend(using.iter().map(|(lease, _, seconds)| (*lease, *seconds)));
        let is_clear = |lease: &LeaseId| count(lease) == 0 && self.ending.contains_key(lease);
        let cleared: Vec<LeaseId> = self.counted.iter().copied().filter(is_clear).collect();
        for lease in &cleared {
            self.ending.remove(lease);
            self.counted.remove(lease);
            self.busy.remove(lease);
            self.told.remove(lease);
        }
        (using, cleared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(100);

    #[test]
    fn leases_are_believed_until_the_broker_says_otherwise() {
        let (mut book, now) = (Book::default(), Instant::now());
        let [one, two, three] = [1, 2, 3].map(LeaseId);
        assert_eq!(book.check(one, now, LONG), Ok(()), "the broker was never reached");
        assert!(book.ended(one, now + LONG).unwrap().contains("not renewed"));
        book.registered(two, vec![(two, 5_000)], now);
        assert!(book.check(one, now, LONG).unwrap_err().contains("lease 1 is over: its broker has ended it"));
        assert_eq!((book.check(two, now, LONG), book.check(three, now, LONG)), (Ok(()), Ok(())));
        assert!(book.ended(two, now + Duration::from_secs(5)).is_some());
        book.lasts(two, 60_000, now);
        assert!(book.ended(two, now + Duration::from_secs(5)).is_none());
        book.end(three, "for others".into());
        assert_eq!(book.check(three, now, LONG).unwrap_err(), "lease 3 is over: for others");
    }

    #[test]
    fn what_was_over_before_a_restart_is_over_after_it() {
        let (mut book, now) = (Book::default(), Instant::now());
        let [one, two, three, four] = [1, 2, 3, 4].map(LeaseId);
        assert_eq!(book.known(), None);
        book.registered(two, vec![(one, 5_000), (two, 5_000)], now);
        book.lasts(three, 5_000, now);
        book.end(one, "it was released".into());
        let known = book.known().unwrap();
        assert_eq!(known, Known { latest: three, open: vec![two, three] });
        let mut book = Book::default();
        book.recall(known.clone());
        assert_eq!(book.known(), Some(known));
        assert!(book.check(one, now, LONG).unwrap_err().contains("lease 1 is over: its broker has ended it"));
        assert_eq!([two, three, four].map(|lease| book.check(lease, now, LONG)), [Ok(()), Ok(()), Ok(())]);
        assert!(book.ended(two, now + LONG).unwrap().contains("not renewed"));
        book.registered(four, vec![(four, 5_000)], now);
        assert!(book.check(two, now, LONG).is_err() && book.check(four, now, LONG).is_ok());
    }

    #[test]
    fn a_lease_is_clear_once_its_sessions_were_told_and_are_gone() {
        let (mut book, now) = (Book::default(), Instant::now());
        let one = LeaseId(1);
        book.registered(one, vec![(one, 5_000)], now);
        assert!(book.reported(BTreeMap::from([(one, vec![(7, 0.0), (8, 0.0)])])));
        assert_eq!(book.news(), (vec![(one, 2, 0.0)], vec![]));
        assert!(!book.reported(BTreeMap::from([(one, vec![(7, 0.04), (8, 0.0)])])), "too little to tell");
        assert!(book.reported(BTreeMap::from([(one, vec![(7, 0.5), (8, 0.25)])])));
        assert_eq!(book.news(), (vec![(one, 2, 0.75)], vec![]));
        book.end(one, "it was released".into());
        assert_eq!(book.news(), (vec![], vec![]), "the server's loop has not looked yet");
        assert!(book.reported(BTreeMap::from([(one, vec![(7, 1.0)])])));
        assert_eq!(book.news(), (vec![(one, 1, 1.25)], vec![]), "a session that has ended still counts");
        assert!(book.reported(BTreeMap::new()));
        assert_eq!(book.news(), (vec![(one, 0, 1.25)], vec![one]));
        assert!(!book.reported(BTreeMap::new()));
        assert!(book.check(one, now, LONG).is_err(), "its proof still says that it lasts");
    }
}

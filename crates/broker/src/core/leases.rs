//! Leases: who has what, and until when.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use ropeway_lease::grant::{LeaseId, Share};
use serde::{Deserialize, Serialize};

use super::peer::Peer;
use super::pool::DeviceIndex;
use super::usage::{AccountIndex, Amount};

/// How much longer a lease is taken to last that lasts longer than was said.
const OVERTIME: Duration = Duration::from_secs(60);

/// What is lent of one device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The device.
    pub device: DeviceIndex,
    /// How much of its time.
    pub share: Share,
    /// How many bytes of its memory.
    pub memory: u64,
}

impl Part {
    /// What some parts come to.
    pub fn sum(parts: &[Self]) -> Amount {
        parts.iter().fold(Amount::default(), |sum, part| Amount {
            devices: sum.devices + u64::from(part.share),
            memory: sum.memory.saturating_add(part.memory),
        })
    }
}

/// What is written down of a lease.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LeaseRecord {
    /// Its name.
    pub lease: LeaseId,
    /// Whose it is.
    pub user: String,
    /// The program that holds it.
    pub program: String,
    /// The holder's public key, as text.
    pub key: String,
    /// How long it lasts after each renewal, in milliseconds.
    pub for_ms: u64,
    /// Whether it ends with its holder's connection.
    pub attached: bool,
    /// Whether it is over, and only servers do not know it yet.
    pub over: Option<String>,
    /// The devices: their servers' keys, numbers, names, shares and bytes of memory.
    pub devices: Vec<(String, u32, String, Share, u64)>,
    /// How important its request was.
    #[serde(default)]
    pub priority: i32,
    /// How long its request has said that the devices would be needed, in milliseconds.
    #[serde(default)]
    pub expected_ms: Option<u64>,
}

/// A lease.
#[derive(Clone, Debug)]
pub struct Held {
    /// What is written down.
    pub record: LeaseRecord,
    /// What it has; parts on servers that have cleared it are taken out.
    pub parts: Vec<Part>,
    /// When it began, or the broker did.
    pub since: Duration,
    /// When it is over without being renewed.
    pub until: Duration,
    /// When its holder is told that it lasts longer.
    pub renew_at: Duration,
    /// Whose it is, among all users.
    pub account: AccountIndex,
    /// When its holder has been told that it will be ended.
    pub notice: Option<Notice>,
    /// Whether it has gone before others that wait because its request has said how long it would take.
    pub has_passed: bool,
    /// The holder's connection.
    pub holder: Option<Peer>,
    /// When it ends because its holder has not come back.
    pub gone_at: Option<Duration>,
    /// On each server, by key: its sessions, and how long it has kept devices busy, in seconds.
    pub using: BTreeMap<String, (u32, f64)>,
}

/// That a lease is to end for a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notice {
    /// When it ends.
    pub at: Duration,
    /// The request that needs its devices.
    pub request: u64,
    /// Why: one sentence.
    pub why: String,
}

impl Held {
    /// When it is over as far as is known: what its request has said, or when it will not have been renewed. One that
    /// has said nothing is taken to last `assumed`.
    pub fn ends(&self, assumed: Duration, now: Duration) -> Duration {
        let renewed = (!self.record.attached).then_some(self.until);
        let said = self.record.expected_ms.map(|ms| self.since + Duration::from_millis(ms));
        let end = match (said, renewed) {
            _ if self.is_over() => now,
            (Some(said), Some(until)) => said.min(until),
            (said, until) => said.or(until).unwrap_or(self.since + assumed),
        };
        let end = self.notice.as_ref().map_or(end, |notice| end.min(notice.at));
        // Nobody knows how much longer it takes than was said.
        if end < now && !self.is_over() { now + OVERTIME } else { end }
    }

    /// Whether nobody has said when it is over.
    pub fn ends_anytime(&self) -> bool {
        self.record.attached && self.record.expected_ms.is_none() && self.notice.is_none() && !self.is_over()
    }

    /// What it has of devices and their memory.
    pub fn amount(&self) -> Amount {
        Part::sum(&self.parts)
    }

    /// When something is to be done about it.
    pub fn alarm(&self) -> Option<Duration> {
        self.alarms().min()
    }

    /// The next time after `now` at which something is to be done about it.
    pub fn alarm_after(&self, now: Duration) -> Option<Duration> {
        self.alarms().filter(|at| *at > now).min()
    }

    fn alarms(&self) -> impl Iterator<Item = Duration> {
        let renew = self.holder.map(|_| self.renew_at);
        let notice = self.notice.as_ref().map(|notice| notice.at);
        let overtime = self.has_passed.then_some(self.record.expected_ms).flatten();
        let overtime = overtime.map(|ms| self.since + Duration::from_millis(ms));
        let all = [Some(self.until), self.gone_at, renew, notice, overtime];
        all.into_iter().flatten().filter(|_| !self.is_over())
    }

    /// Whether it has taken longer than its request has said to go before others.
    pub fn is_overtime(&self, now: Duration) -> bool {
        let said = self.record.expected_ms.map(|ms| self.since + Duration::from_millis(ms));
        self.has_passed && said.is_some_and(|said| said <= now)
    }

    /// Whether it is being ended.
    pub fn is_over(&self) -> bool {
        self.record.over.is_some()
    }

    /// Its sessions on all servers.
    pub fn sessions(&self) -> u32 {
        self.using.values().map(|(sessions, _)| sessions).sum()
    }
}

/// All leases, those that are being ended among them.
#[derive(Default, Debug)]
pub struct Leases {
    all: BTreeMap<LeaseId, Held>,
    /// Those with devices of a server, by its key.
    on_server: HashMap<String, BTreeSet<LeaseId>>,
    /// Those of a user.
    of_user: HashMap<AccountIndex, BTreeSet<LeaseId>>,
}

impl Leases {
    /// Adds one.
    pub fn insert(&mut self, held: Held) {
        let lease = held.record.lease;
        for (key, ..) in &held.record.devices {
            self.on_server.entry(key.clone()).or_default().insert(lease);
        }
        self.of_user.entry(held.account).or_default().insert(lease);
        self.all.insert(lease, held);
    }

    /// Removes one.
    pub fn remove(&mut self, lease: LeaseId) {
        let Some(held) = self.all.remove(&lease) else { return };
        for (key, ..) in &held.record.devices {
            self.left_server(key, lease);
        }
        if let Some(of) = self.of_user.get_mut(&held.account) {
            of.remove(&lease);
            if of.is_empty() {
                self.of_user.remove(&held.account);
            }
        }
    }

    /// A lease has nothing of a server any more.
    pub fn left_server(&mut self, key: &str, lease: LeaseId) {
        if let Some(on) = self.on_server.get_mut(key) {
            on.remove(&lease);
            if on.is_empty() {
                self.on_server.remove(key);
            }
        }
    }

    /// A lease.
    pub fn get(&self, lease: LeaseId) -> Option<&Held> {
        self.all.get(&lease)
    }

    /// A lease, to change what is not looked for by.
    pub fn get_mut(&mut self, lease: LeaseId) -> Option<&mut Held> {
        self.all.get_mut(&lease)
    }

    /// All of them, the earlier first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Held> {
        self.all.values()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Those with devices of a server.
    pub fn on_server(&self, key: &str) -> impl Iterator<Item = &Held> {
        self.on_server.get(key).into_iter().flatten().filter_map(|lease| self.all.get(lease))
    }

    /// Those of a user.
    pub fn of_user(&self, account: AccountIndex) -> impl ExactSizeIterator<Item = LeaseId> + '_ {
        const NONE: &BTreeSet<LeaseId> = &BTreeSet::new();
        self.of_user.get(&account).unwrap_or(NONE).iter().copied()
    }
}

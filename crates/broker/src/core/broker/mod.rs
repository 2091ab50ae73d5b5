//! The broker: what it is asked, what it answers, and what it writes down.

#[cfg(test)]
mod check;
mod holding;
mod lists;
mod pass;
mod preemption;
mod requests;
mod servers;

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use ropeway_lease::grant::{Grant, LeaseId};
use ropeway_lease::messages::{Ask, LeasedServer, OLDEST, Registration, Tell, VERSION};

use super::alarms::Alarms;
use super::leases::{Held, LeaseRecord, Leases, Part};
use super::peer::{Peer, User};
use super::pool::{Pool, ServerIndex};
use super::queue::Queue;
use super::rules::Rules;
use super::usage::{Accounts, UsageRecord};
use super::wants::Wants;

use pass::{Kept, Plan};

/// How often it is written down what those use who have something.
const MINUTE: Duration = Duration::from_secs(60);

/// What a broker's operator decides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// How long an attached lease lasts while its broker cannot be reached.
    pub lasts: Duration,
    /// How long the holder of an attached lease has to come back after its connection has broken.
    pub returns: Duration,
    /// The same after the broker has been started again.
    pub recovery: Duration,
    /// The longest time for which a lease without a connection is given.
    pub longest: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lasts: Duration::from_secs(600),
            returns: Duration::from_secs(1),
            recovery: Duration::from_secs(15),
            longest: Duration::from_secs(30 * 24 * 3600),
        }
    }
}

/// What follows from what has come. Effects are carried out in their order; nothing is said before what comes before it
/// is written down.
#[derive(Clone, PartialEq, Debug)]
pub enum Effect {
    /// Write down a lease, instead of what was written of it before.
    Keep(Box<LeaseRecord>),
    /// Cross out a lease. This need not be on disk before anything is said.
    Forget(LeaseId),
    /// Write down a server, instead of what was written of it before.
    KeepServer(Box<Registration>),
    /// Write down what a user has used, instead of what was written of it before. This need not be on disk before
    /// anything is said.
    KeepUsage(Box<UsageRecord>),
    /// Say something.
    Say(Peer, Tell),
    /// Say that a lease is granted, with its proof.
    Grant(Peer, Box<Granted>),
    /// Say that a lease lasts longer, with its new proof.
    Renew(Peer, Box<Granted>),
    /// Close a connection, after what is said before.
    Close(Peer),
}

/// What a proof says, and of whom.
#[derive(Clone, PartialEq, Debug)]
pub struct Granted {
    /// What it gives.
    pub grant: Grant,
    /// The holder's public key, as text.
    pub key: String,
    /// How long it lasts from now.
    pub lasts: Duration,
    /// Its servers, for the holder.
    pub servers: Vec<LeasedServer>,
}

/// What is known of a connection.
#[derive(Debug)]
struct Connection {
    user: User,
    /// Its program, once it has said hello.
    program: Option<String>,
    /// The request that waits on it.
    request: Option<u64>,
    /// The attached leases that it holds.
    leases: BTreeSet<LeaseId>,
    /// The server that has registered on it.
    server: Option<ServerIndex>,
}

/// When something is to be done though nothing comes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Alarm {
    /// About a lease.
    Lease(LeaseId),
    /// It is written down what is used.
    Usage,
    /// A request has waited long, or devices begin to be kept or are kept no longer.
    Pass,
}

/// A broker's decisions. Times count from its start.
#[derive(Debug)]
pub struct Broker {
    settings: Settings,
    pool: Pool,
    wants: Wants,
    accounts: Accounts,
    leases: Leases,
    queue: Queue,
    connections: HashMap<Peer, Connection>,
    latest: LeaseId,
    effects: Vec<Effect>,
    alarms: Alarms<Alarm>,
    /// Whether something has become free, or somebody waits who has not been looked at.
    is_due: bool,
    /// When the queue may be looked through again.
    next_pass: Duration,
    /// For requests that wait: when it will be their turn, and the devices that are kept for them.
    plans: Vec<Plan>,
    /// The devices that are kept for users and groups.
    kept: Vec<Kept>,
    /// The pool's generation for which these were chosen.
    kept_for: Option<u64>,
}

impl Broker {
    /// A broker with what was written down before.
    pub fn new(
        settings: Settings,
        servers: Vec<Registration>,
        leases: Vec<LeaseRecord>,
        latest: LeaseId,
        now: Duration,
    ) -> Self {
        let mut broker = Self {
            settings,
            pool: Pool::default(),
            wants: Wants::default(),
            accounts: Accounts::new(Rules::default()),
            leases: Leases::default(),
            queue: Queue::default(),
            connections: HashMap::new(),
            latest,
            effects: Vec::new(),
            alarms: Alarms::default(),
            is_due: false,
            next_pass: Duration::ZERO,
            plans: Vec::new(),
            kept: Vec::new(),
            kept_for: None,
        };
        broker.alarms.set(Alarm::Usage, Some(now + MINUTE));
        for server in servers {
            broker.pool.register(server, None);
        }
        for record in leases {
            broker.restore(record, now);
        }
        broker
    }

    /// The pool, for who looks at it.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The leases, those that are being ended among them.
    pub fn leases(&self) -> impl Iterator<Item = &Held> {
        self.leases.iter()
    }

    /// What a user has used, as the queue sees it.
    #[cfg(test)]
    pub fn used(&mut self, user: &str, now: Duration) -> (f64, f64) {
        self.accounts.used(user, now)
    }

    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Says what the time is, since the beginning of 1970: to be said at the start, and then often enough for a clock
    /// that jumps.
    pub fn set_clock(&mut self, now: Duration, wall: Duration) {
        let before = self.accounts.wall(now);
        self.accounts.set_clock(now, wall);
        // What is kept for a time is kept for another one.
        self.is_due |= !self.kept.is_empty() && before.abs_diff(wall) > Duration::from_secs(1);
    }

    /// Takes in what was written down of what users have used.
    pub fn restore_usage(&mut self, used: Vec<UsageRecord>, now: Duration) {
        used.into_iter().for_each(|record| self.accounts.restore(record, now));
    }

    /// Takes in other rules. Returns, for each reservation that cannot be kept, why: one sentence.
    pub fn set_rules(&mut self, rules: Rules, now: Duration) -> Vec<String> {
        self.accounts.set_rules(rules, now);
        self.is_due = true;
        self.next_pass = now;
        self.keep_devices()
    }

    /// Takes in what was written down of a lease. Its time begins anew: nobody knows how long the broker was away.
    fn restore(&mut self, record: LeaseRecord, now: Duration) {
        let parts = self.parts_of(&record);
        for part in &parts {
            self.pool.lend(part.device, record.lease, part.share, part.memory);
        }
        let lasts = Duration::from_millis(record.for_ms);
        self.latest = self.latest.max(record.lease);
        let gone_at = (record.attached && record.over.is_none()).then_some(now + self.settings.recovery);
        let account = self.accounts.user(&record.user, now);
        if record.over.is_none() {
            self.accounts.takes(account, Part::sum(&parts), now);
        }
        let held = Held {
            parts,
            account,
            notice: None,
            has_passed: false,
            since: now,
            until: now + lasts,
            renew_at: now + lasts / 3,
            holder: None,
            gone_at,
            using: Default::default(),
            record,
        };
        let lease = held.record.lease;
        self.leases.insert(held);
        self.set_alarm(lease);
    }

    /// The parts of a lease on devices that are still there.
    fn parts_of(&self, record: &LeaseRecord) -> Vec<Part> {
        let part = |(server, number, name, share, memory): &(String, u32, String, u16, u64)| {
            let device = self.pool.device_of(self.pool.find(server)?, *number, name)?;
            Some(Part { device, share: *share, memory: *memory })
        };
        record.devices.iter().filter_map(part).collect()
    }

    /// Somebody has connected.
    pub fn connected(&mut self, peer: Peer, user: User) {
        let connection = Connection { user, program: None, request: None, leases: BTreeSet::new(), server: None };
        self.connections.insert(peer, connection);
    }

    /// A connection is lost.
    pub fn disconnected(&mut self, peer: Peer, now: Duration) {
        let Some(connection) = self.connections.remove(&peer) else { return };
        if let Some(request) = connection.request {
            self.take_out(request);
        }
        for lease in connection.leases {
            if let Some(held) = self.leases.get_mut(lease).filter(|held| held.holder == Some(peer)) {
                held.holder = None;
                held.gone_at = Some(now + self.settings.returns);
            }
            self.set_alarm(lease);
        }
        if let Some(server) = connection.server
            && self.pool.server(server).online == Some(peer)
        {
            self.pool.went_offline(server);
        }
    }

    /// Takes in a message.
    pub fn ask(&mut self, peer: Peer, ask: Ask, now: Duration) {
        let Some(connection) = self.connections.get_mut(&peer) else { return };
        let user = connection.user.clone();
        match ask {
            Ask::Hello { version, release: _, program } => {
                if version < OLDEST {
                    let why = format!(
                        "it speaks version {version} of the broker's messages, and {OLDEST} is the oldest that this broker understands; install a newer release of Ropeway there"
                    );
                    self.say(peer, Tell::Refused { why });
                    self.effects.push(Effect::Close(peer));
                    return;
                }
                connection.program = Some(program);
                let release = env!("CARGO_PKG_VERSION").to_owned();
                self.say(peer, Tell::Welcome { version: VERSION, release, user: user.name });
            }
            Ask::Beat => {}
            _ if connection.program.is_none() => {
                self.refuse(peer, "it has not said hello");
                self.effects.push(Effect::Close(peer));
            }
            Ask::Lease(ask) => self.request(peer, ask, now),
            Ask::Cancel => {
                if let Some(request) = connection.request.take() {
                    self.take_out(request);
                }
                self.say(peer, Tell::Done);
            }
            Ask::Attach { lease } => self.attach(peer, &user, lease, now),
            Ask::Renew { lease, for_ms } => self.renew(peer, &user, lease, for_ms, now),
            Ask::Release { lease } => match self.owned(lease, &user) {
                Ok(_) => {
                    self.end(lease, "it was released", now);
                    self.say(peer, Tell::Done);
                }
                Err(why) => self.refuse(peer, &why),
            },
            Ask::Leases { all } => {
                let tell = self.lease_lines(all, &user.name, now);
                self.say(peer, tell);
            }
            Ask::Queue => {
                let tell = self.queue_lines(now);
                self.say(peer, tell);
            }
            Ask::Devices => {
                let tell = self.device_lines();
                self.say(peer, tell);
            }
            Ask::Pool { from, properties } => {
                let tell = self.pool_lines(from, &properties, &user.name);
                self.say(peer, tell);
            }
            Ask::Register(about) if user.registers => self.register(peer, about, now),
            Ask::Register(_) => {
                self.refuse(
                    peer,
                    &format!(
                        "the ticket of '{}' is not for servers; make one with `ropeway ticket new --registers`",
                        user.name
                    ),
                );
                self.effects.push(Effect::Close(peer));
            }
            Ask::Using { lease, sessions, device_seconds } => {
                let Some(key) = self.server_key(peer) else { return };
                if let Some(held) = self.leases.get_mut(lease) {
                    held.using.insert(key, (sessions, device_seconds));
                }
            }
            Ask::Cleared { lease } => self.cleared(peer, lease),
        }
    }

    /// Does what is to be done at this time, and says what has come of everything since the last time.
    pub fn decide(&mut self, now: Duration) -> Vec<Effect> {
        while let Some(number) = self.queue.expired(now) {
            self.give_up(number, "what is wanted has not become free in the time that it was to be waited for");
        }
        let mut noticed = Vec::new();
        while let Some(alarm) = self.alarms.due(now) {
            match alarm {
                Alarm::Lease(lease) => noticed.extend(self.look_at_lease(lease, now)),
                Alarm::Usage => self.keep_usage(now),
                Alarm::Pass => self.is_due = true,
            }
        }
        if self.is_due && now >= self.next_pass {
            self.is_due = false;
            self.pass(now);
        }
        for lease in noticed {
            self.end_noticed(lease, now);
        }
        std::mem::take(&mut self.effects)
    }

    /// When [`Broker::decide`] has something to do even if nothing comes.
    pub fn deadline(&self) -> Option<Duration> {
        let pass = self.is_due.then_some(self.next_pass);
        [self.alarms.next(), self.queue.deadline(), pass].into_iter().flatten().min()
    }

    /// Writes down what is used by those who have something.
    fn keep_usage(&mut self, now: Duration) {
        for user in self.accounts.active() {
            let record = self.accounts.record(user, now);
            self.effects.extend(record.map(|record| Effect::KeepUsage(Box::new(record))));
        }
        // Those whose hours of a week are used up may have some again.
        self.is_due |= !self.queue.is_empty();
        self.alarms.set(Alarm::Usage, Some(now + MINUTE));
    }

    /// Sees to it that something is done about a lease in time.
    fn set_alarm(&mut self, lease: LeaseId) {
        let at = self.leases.get(lease).and_then(Held::alarm);
        self.alarms.set(Alarm::Lease(lease), at);
    }

    fn say(&mut self, peer: Peer, tell: Tell) {
        self.effects.push(Effect::Say(peer, tell));
    }

    fn refuse(&mut self, peer: Peer, why: &str) {
        self.say(peer, Tell::Refused { why: why.to_owned() });
    }

    /// The key of the server that has registered on a connection.
    fn server_key(&self, peer: Peer) -> Option<String> {
        let server = self.connections.get(&peer)?.server?;
        Some(self.pool.server(server).about.key.clone())
    }

    /// A lease of this user's that is not over.
    fn owned(&self, lease: LeaseId, user: &User) -> Result<&Held, String> {
        let held = self.leases.get(lease).filter(|held| held.record.user == user.name);
        let held = held.ok_or_else(|| format!("'{}' has no lease {lease}", user.name))?;
        match &held.record.over {
            Some(why) => Err(format!("lease {lease} is over: {why}")),
            None => Ok(held),
        }
    }
}

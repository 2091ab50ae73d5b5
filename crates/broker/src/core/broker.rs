//! The broker: what it is asked, what it answers, and what it writes down.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use ropeway_lease::grant::{Grant, GrantedDevice, GrantedServer, LeaseId};
use ropeway_lease::messages::{
    Ask, DeviceLine, LeaseAsk, LeaseLine, LeasedServer, OLDEST, QueueLine, Registration, Tell, VERSION,
};

use super::leases::{Held, LeaseRecord, Part};
use super::peer::{Peer, User};
use super::placement::{place, possible};
use super::pool::{DeviceIndex, Pool, ServerIndex};
use super::queue::{Queue, Request};

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
    leases: Vec<LeaseId>,
    /// The server that has registered on it.
    server: Option<ServerIndex>,
}

/// A broker's decisions. Times count from its start.
#[derive(Debug)]
pub struct Broker {
    settings: Settings,
    pool: Pool,
    leases: BTreeMap<LeaseId, Held>,
    queue: Queue,
    connections: HashMap<Peer, Connection>,
    latest: LeaseId,
    effects: Vec<Effect>,
    /// Whether something has become free, or somebody waits who has not been looked at.
    is_due: bool,
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
            leases: BTreeMap::new(),
            queue: Queue::default(),
            connections: HashMap::new(),
            latest,
            effects: Vec::new(),
            is_due: false,
        };
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
        self.leases.values()
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
        let held = Held {
            parts,
            since: now,
            until: now + lasts,
            renew_at: now + lasts / 3,
            holder: None,
            gone_at,
            using: BTreeMap::new(),
            record,
        };
        self.leases.insert(held.record.lease, held);
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
        let connection = Connection { user, program: None, request: None, leases: Vec::new(), server: None };
        self.connections.insert(peer, connection);
    }

    /// A connection is lost.
    pub fn disconnected(&mut self, peer: Peer, now: Duration) {
        let Some(connection) = self.connections.remove(&peer) else { return };
        if let Some(request) = connection.request {
            self.queue.remove(request);
        }
        for lease in connection.leases {
            if let Some(held) = self.leases.get_mut(&lease).filter(|held| held.holder == Some(peer)) {
                held.holder = None;
                held.gone_at = Some(now + self.settings.returns);
            }
        }
        if let Some(server) = connection.server
            && self.pool.server(server).online == Some(peer)
        {
            self.pool.went_offline(server);
        }
    }

    /// Nobody has been told of a lease that was granted.
    pub fn undelivered(&mut self, lease: LeaseId, now: Duration) {
        self.end(lease, "its client was gone before it was granted", now);
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
                    self.queue.remove(request);
                }
                self.say(peer, Tell::Done);
            }
            Ask::Attach { lease } => self.attach(peer, &user, lease),
            Ask::Renew { lease, for_ms } => self.renew(peer, &user, lease, for_ms, now),
            Ask::Release { lease } => match self.owned(lease, &user) {
                Ok(_) => {
                    self.end(lease, "it was released", now);
                    self.say(peer, Tell::Done);
                }
                Err(why) => self.refuse(peer, &why),
            },
            Ask::Leases { all } => {
                let leases = self.leases.values().filter(|held| all || held.record.user == user.name);
                let leases = leases.map(|held| self.line_of(held, now)).collect();
                self.say(peer, Tell::Leases { leases });
            }
            Ask::Queue => {
                let waiting = self.queue_lines(now);
                self.say(peer, Tell::Queue { waiting });
            }
            Ask::Devices => {
                let devices = self.device_lines();
                self.say(peer, Tell::Devices { devices });
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
                if let Some(held) = self.leases.get_mut(&lease) {
                    held.using.insert(key, (sessions, device_seconds));
                }
            }
            Ask::Cleared { lease } => self.cleared(peer, lease),
        }
    }

    /// Does what is to be done at this time, and says what has come of everything since the last time.
    pub fn decide(&mut self, now: Duration) -> Vec<Effect> {
        self.expire(now);
        self.renew_attached(now);
        if self.is_due {
            self.is_due = false;
            self.pass(now);
        }
        self.expire_requests(now);
        std::mem::take(&mut self.effects)
    }

    /// When [`Broker::decide`] has something to do even if nothing comes.
    pub fn deadline(&self) -> Option<Duration> {
        let live = self.leases.values().filter(|held| !held.is_over());
        let leases = live.map(|held| {
            let renew = held.holder.map(|_| held.renew_at);
            [Some(held.until), held.gone_at, renew].into_iter().flatten().min().unwrap_or(held.until)
        });
        leases.chain(self.queue.deadline()).min()
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
        let held = self.leases.get(&lease).filter(|held| held.record.user == user.name);
        let held = held.ok_or_else(|| format!("'{}' has no lease {lease}", user.name))?;
        match &held.record.over {
            Some(why) => Err(format!("lease {lease} is over: {why}")),
            None => Ok(held),
        }
    }

    /// Takes in a request.
    fn request(&mut self, peer: Peer, ask: LeaseAsk, now: Duration) {
        let Some(connection) = self.connections.get(&peer) else { return };
        if connection.request.is_some() {
            return self.refuse(peer, "a request waits on this connection already");
        }
        if let Err(why) = possible(&mut self.pool, &ask.want) {
            return self.refuse(peer, &why);
        }
        let (user, program) = (connection.user.name.clone(), connection.program.clone().unwrap_or_default());
        let until = ask.wait_ms.map(|wait| now + Duration::from_millis(wait));
        let make = |number| Request { number, user, program, peer, ask, since: now, told: false, until };
        let (number, _) = self.queue.add(make);
        if let Some(connection) = self.connections.get_mut(&peer) {
            connection.request = Some(number);
        }
        // Those before it go first, and only then it is told that it waits.
        self.is_due = true;
    }

    /// Looks through the queue, and grants what can be granted.
    fn pass(&mut self, now: Duration) {
        let mut granted = Vec::new();
        for request in self.queue.in_order() {
            match place(&mut self.pool, &request.ask.want) {
                Some(parts) => {
                    self.latest = LeaseId(self.latest.0 + 1);
                    for part in &parts {
                        self.pool.lend(part.device, self.latest, part.share, part.memory);
                    }
                    granted.push((request.number, self.latest, parts));
                }
                // Whoever comes first is served first: nothing goes past it that might hold it up.
                None => break,
            }
        }
        for (number, lease, parts) in granted {
            if let Some(request) = self.queue.remove(number) {
                self.grant(request, lease, parts, now);
            }
        }
        self.tell_waiting(now);
    }

    /// Tells those that have come since the last time that they wait, or that they will not get anything now.
    fn tell_waiting(&mut self, now: Duration) {
        for (before, peer, number, until) in self.queue.untold() {
            if until.is_some_and(|until| until <= now) {
                self.give_up(number, "not enough of what is wanted is free now");
            } else {
                self.say(peer, Tell::Waiting { before, why: "for devices that others have".to_owned() });
            }
        }
    }

    /// Takes a request out of the queue, and says why.
    fn give_up(&mut self, number: u64, why: &str) {
        let Some(request) = self.queue.remove(number) else { return };
        if let Some(connection) = self.connections.get_mut(&request.peer) {
            connection.request = None;
        }
        self.refuse(request.peer, why);
    }

    /// Grants a request what has been lent to it.
    fn grant(&mut self, request: Request, lease: LeaseId, parts: Vec<Part>, now: Duration) {
        let Request { user, program, peer, ask, .. } = request;
        let attached = ask.for_ms.is_none();
        let for_ms = ask.for_ms.unwrap_or(u64::MAX).min(self.longest(attached).as_millis() as u64);
        let devices = parts.iter().map(|part| {
            let device = self.pool.device(part.device);
            let server = self.pool.server(device.server).about.key.clone();
            (server, device.number, device.name.clone(), part.share, part.memory)
        });
        let record = LeaseRecord {
            lease,
            user,
            program,
            key: ask.key,
            for_ms,
            attached,
            over: None,
            devices: devices.collect(),
        };
        let lasts = Duration::from_millis(for_ms);
        let holder = attached.then_some(peer);
        let held = Held {
            record: record.clone(),
            parts,
            since: now,
            until: now + lasts,
            renew_at: now + lasts / 3,
            holder,
            gone_at: None,
            using: BTreeMap::new(),
        };
        let granted = self.granted(&held, lasts);
        self.leases.insert(lease, held);
        if let Some(connection) = self.connections.get_mut(&peer) {
            connection.request = None;
            if attached {
                connection.leases.push(lease);
            }
        }
        self.effects.push(Effect::Keep(Box::new(record)));
        self.tell_servers(lease, &Tell::Lasts { lease, for_ms });
        self.effects.push(Effect::Grant(peer, Box::new(granted)));
    }

    fn longest(&self, attached: bool) -> Duration {
        if attached { self.settings.lasts } else { self.settings.longest }
    }

    /// What the proof of a lease says.
    fn granted(&self, held: &Held, lasts: Duration) -> Granted {
        let mut servers: Vec<GrantedServer> = Vec::new();
        let mut told: Vec<LeasedServer> = Vec::new();
        for part in &held.parts {
            let device = self.pool.device(part.device);
            let about = &self.pool.server(device.server).about;
            if servers.last().is_none_or(|server| server.key != about.key)
                && !servers.iter().any(|server| server.key == about.key)
            {
                servers.push(GrantedServer { key: about.key.clone(), devices: Vec::new() });
                let (name, address, key) = (about.name.clone(), about.address.clone(), about.key.clone());
                told.push(LeasedServer { name, address, key, devices: Vec::new() });
            }
            let Some(at) = servers.iter().position(|server| server.key == about.key) else { continue };
            // What is not shared is bounded by the device alone.
            let memory = (part.share < ropeway_lease::grant::WHOLE).then_some(part.memory);
            let (number, name, share) = (device.number, device.name.clone(), part.share);
            servers[at].devices.push(GrantedDevice { number, name, share, memory });
            told[at].devices.push(device.name.clone());
        }
        let grant = Grant { lease: held.record.lease, user: held.record.user.clone(), servers };
        Granted { grant, key: held.record.key.clone(), lasts, servers: told }
    }

    /// The servers on which a lease still has something, and their connections.
    fn servers_of(&self, lease: LeaseId) -> Vec<(ServerIndex, Option<Peer>)> {
        let Some(held) = self.leases.get(&lease) else { return Vec::new() };
        let mut servers: Vec<_> = held.parts.iter().map(|part| self.pool.device(part.device).server).collect();
        servers.sort_unstable();
        servers.dedup();
        servers.into_iter().map(|server| (server, self.pool.server(server).online)).collect()
    }

    /// Says something to the servers of a lease that are connected.
    fn tell_servers(&mut self, lease: LeaseId, tell: &Tell) {
        for (_, online) in self.servers_of(lease) {
            if let Some(peer) = online {
                self.say(peer, tell.clone());
            }
        }
    }

    /// A lease's holder is back.
    fn attach(&mut self, peer: Peer, user: &User, lease: LeaseId) {
        if let Err(why) = self.owned(lease, user) {
            return self.say(peer, Tell::Ended { lease, why });
        }
        let Some(held) = self.leases.get_mut(&lease).filter(|held| held.record.attached) else {
            return self.refuse(peer, &format!("lease {lease} does not depend on a connection"));
        };
        held.holder = Some(peer);
        held.gone_at = None;
        // It gets a new proof at once: it may have missed one.
        held.renew_at = Duration::ZERO;
        if let Some(connection) = self.connections.get_mut(&peer) {
            connection.leases.push(lease);
        }
        self.say(peer, Tell::Done);
    }

    /// A lease is to last longer.
    fn renew(&mut self, peer: Peer, user: &User, lease: LeaseId, for_ms: Option<u64>, now: Duration) {
        let attached = match self.owned(lease, user) {
            Ok(held) => held.record.attached,
            Err(why) => return self.refuse(peer, &why),
        };
        let longest = self.longest(attached).as_millis() as u64;
        let Some(held) = self.leases.get_mut(&lease) else { return };
        let for_ms = for_ms.unwrap_or(held.record.for_ms).min(longest);
        if held.record.for_ms != for_ms {
            held.record.for_ms = for_ms;
            let record = held.record.clone();
            self.effects.push(Effect::Keep(Box::new(record)));
        }
        self.prolong(lease, Some(peer), now);
    }

    /// Renews the attached leases whose holders are there.
    fn renew_attached(&mut self, now: Duration) {
        let due = |held: &&Held| !held.is_over() && held.holder.is_some() && held.renew_at <= now;
        let due: Vec<_> = self.leases.values().filter(due).map(|held| (held.record.lease, held.holder)).collect();
        for (lease, holder) in due {
            self.prolong(lease, holder, now);
        }
    }

    /// Makes a lease last as long as it does after a renewal, from now on, and tells `peer` and its servers.
    fn prolong(&mut self, lease: LeaseId, peer: Option<Peer>, now: Duration) {
        let Some(held) = self.leases.get_mut(&lease) else { return };
        let lasts = Duration::from_millis(held.record.for_ms);
        (held.until, held.renew_at) = (now + lasts, now + lasts / 3);
        let for_ms = held.record.for_ms;
        let held = held.clone();
        let granted = self.granted(&held, lasts);
        self.tell_servers(lease, &Tell::Lasts { lease, for_ms });
        if let Some(peer) = peer {
            self.effects.push(Effect::Renew(peer, Box::new(granted)));
        }
    }

    /// Ends a lease: its servers are told, and what they have said to be clear of it is free.
    fn end(&mut self, lease: LeaseId, why: &str, _now: Duration) {
        let Some(held) = self.leases.get_mut(&lease).filter(|held| !held.is_over()) else { return };
        held.record.over = Some(why.to_owned());
        let (record, holder) = (held.record.clone(), held.holder.take());
        self.effects.push(Effect::Keep(Box::new(record)));
        if let Some(holder) = holder {
            if let Some(connection) = self.connections.get_mut(&holder) {
                connection.leases.retain(|has| *has != lease);
            }
            self.say(holder, Tell::Ended { lease, why: why.to_owned() });
        }
        self.tell_servers(lease, &Tell::End { lease, why: why.to_owned() });
        self.forget_if_clear(lease);
    }

    /// On this connection's server, nothing of a lease is left.
    fn cleared(&mut self, peer: Peer, lease: LeaseId) {
        let Some(server) = self.connections.get(&peer).and_then(|connection| connection.server) else { return };
        if self.pool.server(server).online != Some(peer) {
            return;
        }
        self.pool.lost_stray(server, lease);
        self.is_due = true;
        let key = self.pool.server(server).about.key.clone();
        let Some(held) = self.leases.get_mut(&lease) else { return };
        held.using.entry(key.clone()).or_default().0 = 0;
        if !held.is_over() {
            return;
        }
        let pool = &self.pool;
        let here: Vec<Part> = held.parts.extract_if(.., |part| pool.device(part.device).server == server).collect();
        // A broker that is started again must not take them for lent to this lease: others may have them by then.
        held.record.devices.retain(|(has, ..)| *has != key);
        if !here.is_empty() && !held.parts.is_empty() {
            self.effects.push(Effect::Keep(Box::new(held.record.clone())));
        }
        for part in here {
            self.pool.give_back(part.device, lease);
        }
        self.forget_if_clear(lease);
    }

    /// Crosses out a lease that is over and has nothing any more.
    fn forget_if_clear(&mut self, lease: LeaseId) {
        if self.leases.get(&lease).is_some_and(|held| held.is_over() && held.parts.is_empty()) {
            self.leases.remove(&lease);
            self.effects.push(Effect::Forget(lease));
        }
    }

    /// Gives up the requests that have waited long enough.
    fn expire_requests(&mut self, now: Duration) {
        for number in self.queue.expired(now) {
            self.give_up(number, "what is wanted has not become free in the time that it was to be waited for");
        }
    }

    /// Ends the leases that have lasted long enough.
    fn expire(&mut self, now: Duration) {
        let live = self.leases.values().filter(|held| !held.is_over());
        let over: Vec<_> = live
            .filter_map(|held| {
                let why = match held.gone_at {
                    _ if held.until <= now => "it was not renewed in time",
                    Some(at) if at <= now && self.is_heard_of(held) => "its holder is gone",
                    _ => return None,
                };
                Some((held.record.lease, why))
            })
            .collect();
        for (lease, why) in over {
            self.end(lease, why, now);
        }
        // Where no server is heard either, it may be the broker that is cut off: that ends nobody's lease.
        for held in self.leases.values_mut() {
            if let Some(at) = held.gone_at.as_mut().filter(|at| **at <= now) {
                *at = now + self.settings.returns;
            }
        }
    }

    /// Whether a server of a lease is connected.
    fn is_heard_of(&self, held: &Held) -> bool {
        let online = |part: &Part| self.pool.server(self.pool.device(part.device).server).online.is_some();
        held.parts.is_empty() || held.parts.iter().any(online)
    }

    /// Takes in a server.
    fn register(&mut self, peer: Peer, about: Registration, now: Duration) {
        let Some(connection) = self.connections.get(&peer) else { return };
        if connection.server.is_some() {
            return self.refuse(peer, "a server has registered on this connection already");
        }
        let before = self.pool.find(&about.key).and_then(|server| self.pool.server(server).online);
        let (strays, about) = (about.leases.clone(), Registration { leases: Vec::new(), ..about });
        let (server, is_new) = self.pool.register(about.clone(), Some(peer));
        if let Some(before) = before {
            // The server has connected again before its old connection was known to be lost.
            self.effects.push(Effect::Close(before));
        }
        if let Some(connection) = self.connections.get_mut(&peer) {
            connection.server = Some(server);
        }
        if is_new {
            self.effects.push(Effect::KeepServer(Box::new(about.clone())));
            self.end_what_is_gone(server, now);
        }
        let has_some = |held: &&Held| held.record.devices.iter().any(|(key, ..)| *key == about.key);
        let (mut current, mut over) = (Vec::new(), Vec::new());
        for held in self.leases.values().filter(has_some) {
            match &held.record.over {
                None => current.push((held.record.lease, held.until.saturating_sub(now).as_millis() as u64)),
                Some(why) => over.push((held.record.lease, why.clone())),
            }
        }
        for lease in strays {
            if !current.iter().any(|(known, _)| *known == lease) {
                self.pool.has_stray(server, lease);
                if !over.iter().any(|(known, _)| *known == lease) {
                    over.push((lease, "the broker does not know it any more".to_owned()));
                }
            }
        }
        self.say(peer, Tell::Registered { latest: self.latest, leases: current });
        for (lease, why) in over {
            self.say(peer, Tell::End { lease, why });
        }
        self.is_due = true;
    }

    /// Ends the leases on devices that a server does not have any more.
    fn end_what_is_gone(&mut self, server: ServerIndex, now: Duration) {
        let devices = self.pool.server(server).devices.clone();
        let is_gone = |part: &Part| self.pool.device(part.device).server == server && !devices.contains(&part.device.0);
        let gone: Vec<_> =
            self.leases.values().filter(|held| held.parts.iter().any(is_gone)).map(|held| held.record.lease).collect();
        for lease in gone {
            let name = self.pool.server(server).about.name.clone();
            self.end(lease, &format!("the devices of {name} are others now"), now);
        }
    }

    fn line_of(&self, held: &Held, now: Duration) -> LeaseLine {
        let devices = held.parts.iter().map(|part| {
            let device = self.pool.device(part.device);
            let server = self.pool.server(device.server).about.name.clone();
            (server, device.number, device.name.clone(), part.share)
        });
        LeaseLine {
            lease: held.record.lease,
            user: held.record.user.clone(),
            program: held.record.program.clone(),
            age_ms: now.saturating_sub(held.since).as_millis() as u64,
            lasts_ms: (!held.is_over()).then(|| held.until.saturating_sub(now).as_millis() as u64),
            attached: held.record.attached,
            devices: devices.collect(),
            sessions: held.sessions(),
        }
    }

    fn queue_lines(&self, now: Duration) -> Vec<QueueLine> {
        let line = |request: &Request| QueueLine {
            request: request.number,
            user: request.user.clone(),
            program: request.program.clone(),
            want: request.ask.want.clone(),
            priority: request.ask.priority,
            age_ms: now.saturating_sub(request.since).as_millis() as u64,
            why: "for devices that others have".to_owned(),
        };
        self.queue.in_order().map(line).collect()
    }

    fn device_lines(&self) -> Vec<DeviceLine> {
        let line = |index: DeviceIndex| {
            let device = self.pool.device(index);
            let server = self.pool.server(device.server);
            DeviceLine {
                server: server.about.name.clone(),
                number: device.number,
                name: device.name.clone(),
                online: server.online.is_some(),
                free: device.free,
                leases: device.leases.iter().map(|(lease, ..)| *lease).collect(),
            }
        };
        self.pool.devices().map(line).collect()
    }
}

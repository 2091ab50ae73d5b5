//! A broker without its program: what is asked of it, at which time, and what it says.

mod history;
mod leases;
mod placement;
mod preemption;
mod queue;
mod quotas;

use std::collections::BTreeMap;
use std::time::Duration;

use ropeway_lease::grant::LeaseId;
use ropeway_lease::messages::{Ask, LeaseAsk, Registration, Tell};
use ropeway_lease::property::Properties;

use super::*;

fn gpu(gigabytes: u64) -> Properties {
    let json = format!(r#"{{"type":["gpu"],"name":"G{gigabytes}","global_mem_size":{}}}"#, gigabytes << 30);
    serde_json::from_str(&json).unwrap()
}

fn at(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// A broker, and what it has written down and said.
struct House {
    broker: Broker,
    kept: BTreeMap<LeaseId, LeaseRecord>,
    servers: BTreeMap<String, Registration>,
    usage: BTreeMap<String, UsageRecord>,
    rules: Rules,
    said: Vec<(Peer, Tell)>,
    granted: Vec<(Peer, LeaseId)>,
    next: u64,
    /// The latest time that was said.
    now: Duration,
}

impl House {
    fn new() -> Self {
        let broker = Broker::new(Settings::default(), Vec::new(), Vec::new(), LeaseId(0), Duration::ZERO);
        Self {
            broker,
            kept: BTreeMap::new(),
            servers: BTreeMap::new(),
            usage: BTreeMap::new(),
            rules: Rules::default(),
            said: Vec::new(),
            granted: Vec::new(),
            next: 0,
            now: Duration::ZERO,
        }
    }

    /// One with the rules of a `pool.toml`.
    fn ruled(rules: &str) -> Self {
        let mut house = Self::new();
        house.rule(rules, 0.0);
        house
    }

    fn rule(&mut self, rules: &str, now: f64) {
        self.rules = Rules::parse(rules).unwrap();
        assert_eq!(self.broker.set_rules(self.rules.clone(), at(now)), [""; 0]);
    }

    fn restart(&mut self, now: f64) {
        let latest = self.kept.keys().copied().chain(self.granted.iter().map(|(_, lease)| *lease)).max();
        let (servers, leases) = (self.servers.values().cloned().collect(), self.kept.values().cloned().collect());
        self.broker = Broker::new(Settings::default(), servers, leases, latest.unwrap_or(LeaseId(0)), at(now));
        self.broker.restore_usage(self.usage.values().cloned().collect(), at(now));
        let _ = self.broker.set_rules(self.rules.clone(), at(now));
        self.now = at(now);
        self.said.clear();
    }

    fn connect(&mut self, user: &str) -> Peer {
        self.next += 1;
        let peer = Peer(self.next);
        self.broker.connected(peer, User { name: user.into(), registers: user.starts_with("rack") });
        self.ask(peer, 0.0, Ask::Hello { version: 1, release: "0".into(), program: "test".into() });
        peer
    }

    fn ask(&mut self, peer: Peer, now: f64, ask: Ask) -> Vec<Tell> {
        self.run_until(now);
        self.broker.ask(peer, ask, self.now);
        let now = self.now;
        self.carry_out(now).into_iter().filter(|(to, _)| *to == peer).map(|(_, tell)| tell).collect()
    }

    /// Has everything done that is to be done before a time, to which no time before it comes again.
    fn run_until(&mut self, now: f64) {
        let mut steps = 0;
        while let Some(next) = self.broker.deadline().filter(|next| *next < at(now)) {
            self.now = self.now.max(next);
            self.carry_out(self.now);
            steps += 1;
            assert!(steps < 100_000, "there is always something to be done at {next:?}");
        }
        self.now = self.now.max(at(now));
    }

    /// Has everything done until a time, and returns what is said at that time.
    fn decide(&mut self, now: f64) -> Vec<(Peer, Tell)> {
        self.run_until(now);
        self.carry_out(self.now)
    }

    /// Carries out what the broker wants, and returns what it has said.
    fn carry_out(&mut self, now: Duration) -> Vec<(Peer, Tell)> {
        let mut said = Vec::new();
        for effect in self.broker.decide(now) {
            match effect {
                Effect::Keep(record) => drop(self.kept.insert(record.lease, *record)),
                Effect::Forget(lease) => assert!(self.kept.remove(&lease).is_some()),
                Effect::KeepServer(about) => drop(self.servers.insert(about.key.clone(), *about)),
                Effect::KeepUsage(used) => drop(self.usage.insert(used.user.clone(), *used)),
                Effect::Say(peer, tell) => said.push((peer, tell)),
                Effect::Grant(peer, granted) => {
                    assert!(self.kept.contains_key(&granted.grant.lease), "it was written down before");
                    self.granted.push((peer, granted.grant.lease));
                }
                Effect::Renew(peer, granted) => said.push((
                    peer,
                    Tell::Renewed {
                        lease: granted.grant.lease,
                        certificate: String::new(),
                        lasts_ms: granted.lasts.as_millis() as u64,
                    },
                )),
                Effect::Close(peer) => self.broker.disconnected(peer, now),
            }
        }
        self.said.extend(said.iter().cloned());
        said
    }

    fn serve(&mut self, key: &str, devices: &[u64]) -> Peer {
        let peer = self.connect(&format!("rack-{key}"));
        self.register(peer, key, devices, &[]);
        peer
    }

    fn register(&mut self, peer: Peer, key: &str, devices: &[u64], leases: &[u64]) -> Vec<Tell> {
        self.ask(
            peer,
            0.0,
            Ask::Register(Registration {
                name: key.into(),
                key: key.into(),
                address: format!("tls://{key}"),
                devices: devices.iter().map(|memory| gpu(*memory)).collect(),
                leases: leases.iter().map(|lease| LeaseId(*lease)).collect(),
            }),
        )
    }

    fn want(&mut self, peer: Peer, now: f64, want: &str) -> Result<LeaseId, Vec<Tell>> {
        self.want_for(peer, now, want, None)
    }

    fn want_for(&mut self, peer: Peer, now: f64, want: &str, for_ms: Option<u64>) -> Result<LeaseId, Vec<Tell>> {
        self.want_as(peer, now, want, |ask| ask.for_ms = for_ms)
    }

    /// Asks for devices; `change` says more than that they are wanted.
    fn want_as(
        &mut self,
        peer: Peer,
        now: f64,
        want: &str,
        change: impl FnOnce(&mut LeaseAsk),
    ) -> Result<LeaseId, Vec<Tell>> {
        let mut ask = LeaseAsk {
            want: want.parse().unwrap(),
            key: format!("key of {peer:?}"),
            for_ms: None,
            wait_ms: None,
            priority: 0,
            expected_ms: None,
        };
        change(&mut ask);
        let before = self.granted.len();
        let told = self.ask(peer, now, Ask::Lease(ask));
        match self.granted[before..].iter().find(|(to, _)| *to == peer) {
            Some((_, lease)) => Ok(*lease),
            None => Err(told),
        }
    }
}

//! What a broker decides, from requests to leases and back.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use ropeway_lease::grant::{LeaseId, WHOLE};
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
    said: Vec<(Peer, Tell)>,
    granted: Vec<(Peer, LeaseId)>,
    next: u64,
}

impl House {
    fn new() -> Self {
        let broker = Broker::new(Settings::default(), Vec::new(), Vec::new(), LeaseId(0), Duration::ZERO);
        let (kept, servers) = (BTreeMap::new(), BTreeMap::new());
        Self { broker, kept, servers, said: Vec::new(), granted: Vec::new(), next: 0 }
    }

    fn restart(&mut self, now: f64) {
        let latest = self.kept.keys().copied().chain(self.granted.iter().map(|(_, lease)| *lease)).max();
        let (servers, leases) = (self.servers.values().cloned().collect(), self.kept.values().cloned().collect());
        self.broker = Broker::new(Settings::default(), servers, leases, latest.unwrap_or(LeaseId(0)), at(now));
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
        self.broker.ask(peer, ask, at(now));
        self.decide(now).into_iter().filter(|(to, _)| *to == peer).map(|(_, tell)| tell).collect()
    }

    /// Carries out what the broker wants, and returns what it has said.
    fn decide(&mut self, now: f64) -> Vec<(Peer, Tell)> {
        let mut said = Vec::new();
        for effect in self.broker.decide(at(now)) {
            match effect {
                Effect::Keep(record) => drop(self.kept.insert(record.lease, *record)),
                Effect::Forget(lease) => assert!(self.kept.remove(&lease).is_some()),
                Effect::KeepServer(about) => drop(self.servers.insert(about.key.clone(), *about)),
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
                Effect::Close(peer) => self.broker.disconnected(peer, at(now)),
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
        let ask = LeaseAsk {
            want: want.parse().unwrap(),
            key: format!("key of {peer:?}"),
            for_ms,
            wait_ms: None,
            priority: 0,
            expected_ms: None,
        };
        let before = self.granted.len();
        let told = self.ask(peer, now, Ask::Lease(ask));
        match self.granted[before..].iter().find(|(to, _)| *to == peer) {
            Some((_, lease)) => Ok(*lease),
            None => Err(told),
        }
    }
}

#[test]
fn devices_are_lent_and_come_back_once_the_server_is_clear() {
    let mut house = House::new();
    let rack = house.serve("a", &[80, 80]);
    let [alice, bob] = ["alice", "bob"].map(|user| house.connect(user));
    let first = house.want(alice, 1.0, "2 gpu").unwrap();
    assert!(matches!(&house.want(bob, 1.0, "gpu").unwrap_err()[..], [Tell::Waiting { before: 0, .. }]));
    assert_eq!(
        house.ask(alice, 2.0, Ask::Release { lease: first }),
        [Tell::Ended { lease: first, why: "it was released".into() }, Tell::Done]
    );
    assert_eq!(house.granted.len(), 1, "the server has not said that it is clear");
    assert!(matches!(house.said.last(), Some((_, Tell::Done))));
    assert!(house.said.contains(&(rack, Tell::End { lease: first, why: "it was released".into() })));
    house.ask(rack, 2.1, Ask::Cleared { lease: first });
    assert_eq!(house.granted.last(), Some(&(bob, LeaseId(2))));
    assert_eq!(house.kept.keys().copied().collect::<Vec<_>>(), [LeaseId(2)]);
}

#[test]
fn what_nobody_has_is_named() {
    let mut house = House::new();
    let alice = house.connect("alice");
    let refused = |house: &mut House, want: &str| match &house.want(alice, 1.0, want).unwrap_err()[..] {
        [Tell::Refused { why }] => why.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(&mut house, "gpu"), "no server has registered its devices yet");
    house.serve("a", &[80, 40]);
    house.serve("b", &[40]);
    assert_eq!(refused(&mut house, "cpu"), "no device has type=cpu");
    assert_eq!(refused(&mut house, "gpu, memory>=100G"), "no device has global_mem_size>=100G");
    assert_eq!(
        refused(&mut house, "gpu, memory>=80G, name=G40"),
        "no device has all of type=gpu, global_mem_size>=80G, name=G40"
    );
    assert_eq!(
        refused(&mut house, "2 gpu, memory>=80G"),
        "2 devices are wanted with type=gpu, global_mem_size>=80G, and there are 1"
    );
    assert_eq!(refused(&mut house, "3 gpu on one server"), "no server has 3 devices with type=gpu; there are 3 in all");
    assert_eq!(
        refused(&mut house, "3 gpu on different servers"),
        "fewer than 3 servers have a device with type=gpu; there are 3 in all"
    );
    assert_eq!(refused(&mut house, "2 gpu and 2 gpu"), "4 devices are wanted with type=gpu, and there are 3");
    assert!(house.want(alice, 1.0, "2 gpu on one server and gpu").is_ok());
}

#[test]
fn shares_of_a_device_go_to_several() {
    let mut house = House::new();
    house.serve("a", &[80, 80]);
    let users: Vec<_> = (0..5).map(|user| house.connect(&format!("user {user}"))).collect();
    for user in &users[..4] {
        house.want(*user, 1.0, "gpu, share=0.25").unwrap();
    }
    let lines = house.broker.pool().devices().map(|index| house.broker.pool().device(index).free).collect::<Vec<_>>();
    assert_eq!(lines, [0, WHOLE], "one device is filled before the next is begun");
    assert!(house.want(users[4], 1.0, "gpu, share=0.5, memory=50G").is_ok());
    let last = house.connect("last");
    assert!(house.want(last, 1.0, "gpu, share=0.5, memory=50G").is_err(), "its memory is taken");
}

#[test]
fn a_holder_that_is_gone_loses_its_lease_and_one_that_comes_back_does_not() {
    let mut house = House::new();
    let rack = house.serve("a", &[80]);
    let alice = house.connect("alice");
    let lease = house.want(alice, 1.0, "gpu").unwrap();
    house.broker.disconnected(alice, at(2.0));
    let again = house.connect("alice");
    let told = house.ask(again, 2.5, Ask::Attach { lease });
    assert!(matches!(&told[..], [Tell::Done, Tell::Renewed { .. }]), "{told:?}");
    assert!(house.decide(10.0).is_empty());
    house.broker.disconnected(again, at(10.0));
    assert_eq!(house.broker.deadline(), Some(at(11.0)));
    let why = "its holder is gone".to_owned();
    assert_eq!(house.decide(11.0), [(rack, Tell::End { lease, why })]);
    // Where the broker hears nobody, it may be cut off itself.
    house.ask(rack, 12.0, Ask::Cleared { lease });
    let bob = house.connect("bob");
    let lease = house.want(bob, 12.0, "gpu").unwrap();
    house.broker.disconnected(bob, at(20.0));
    house.broker.disconnected(rack, at(20.0));
    assert!(house.decide(25.0).is_empty());
    let rack = house.connect("rack-a");
    let told = house.register(rack, "a", &[80], &[lease.0]);
    assert!(matches!(&told[..], [Tell::Registered { leases, .. }] if leases[0].0 == lease), "{told:?}");
}

#[test]
fn a_broker_that_is_started_again_lends_nothing_twice() {
    let mut house = House::new();
    house.serve("a", &[80]);
    let alice = house.connect("alice");
    let held = house.want_for(alice, 1.0, "gpu", Some(3_600_000)).unwrap();
    house.restart(0.0);
    let rack = house.connect("rack-a");
    let told = house.register(rack, "a", &[80], &[held.0, 77]);
    let strange = Tell::End { lease: LeaseId(77), why: "the broker does not know it any more".into() };
    assert_eq!(told, [Tell::Registered { latest: held, leases: vec![(held, 3_600_000)] }, strange]);
    let bob = house.connect("bob");
    assert!(matches!(&house.want(bob, 1.0, "gpu").unwrap_err()[..], [Tell::Waiting { .. }]));
    let alice = house.connect("alice");
    house.ask(alice, 2.0, Ask::Release { lease: held });
    house.ask(rack, 2.0, Ask::Cleared { lease: held });
    assert!(house.granted.len() == 1, "a session of a lease that is over is still there");
    house.ask(rack, 3.0, Ask::Cleared { lease: LeaseId(77) });
    assert_eq!(house.granted.last(), Some(&(bob, LeaseId(2))));
}

#[test]
fn leases_end_when_they_are_not_renewed() {
    let mut house = House::new();
    let rack = house.serve("a", &[80]);
    let alice = house.connect("alice");
    let lease = house.want_for(alice, 1.0, "gpu", Some(10_000)).unwrap();
    house.broker.disconnected(alice, at(1.0));
    let alice = house.connect("alice");
    house.ask(alice, 9.0, Ask::Renew { lease, for_ms: Some(20_000) });
    assert!(house.decide(28.9).is_empty());
    let why = "it was not renewed in time".to_owned();
    assert_eq!(house.decide(29.0), [(rack, Tell::End { lease, why })]);
    let told = house.ask(alice, 30.0, Ask::Renew { lease, for_ms: None });
    assert_eq!(told, [Tell::Refused { why: "lease 1 is over: it was not renewed in time".into() }]);
    let bob = house.connect("bob");
    let told = house.ask(bob, 30.0, Ask::Release { lease });
    assert_eq!(told, [Tell::Refused { why: "'bob' has no lease 1".into() }]);
}

#[test]
fn only_some_tickets_are_for_servers() {
    let mut house = House::new();
    let alice = house.connect("alice");
    let told = house.register(alice, "a", &[80], &[]);
    assert!(matches!(&told[..], [Tell::Refused { why }] if why.contains("not for servers")));
    assert_eq!(house.broker.pool().devices().count(), 0);
}

/// What happens in a history.
#[derive(Clone, Debug)]
enum Step {
    Want(u8, u8),
    Release(u8),
    Drop(u8),
    Clear(u8),
    Offline(u8),
    Online(u8),
    Wait(u8),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..6u8, 0..6u8).prop_map(|(user, want)| Step::Want(user, want)),
        4 => (0..20u8).prop_map(Step::Release),
        2 => (0..6u8).prop_map(Step::Drop),
        6 => (0..3u8).prop_map(Step::Clear),
        1 => (0..3u8).prop_map(Step::Offline),
        2 => (0..3u8).prop_map(Step::Online),
        2 => (1..5u8).prop_map(Step::Wait),
        1 => Just(Step::Restart),
    ]
}

const WANTS: [&str; 6] = [
    "gpu",
    "2 gpu",
    "gpu, share=0.3",
    "2 gpu on one server, share=0.5",
    "2 gpu on different servers",
    "gpu, memory>=80G and gpu, share=0.7",
];

/// What a server knows: what has been told to it, which never is less than what its clients may use.
#[derive(Default)]
struct Rack {
    peer: Option<Peer>,
    /// The leases that are let in there.
    lets_in: BTreeMap<LeaseId, Vec<(u32, u16)>>,
    /// The leases that it was told to end.
    ending: Vec<LeaseId>,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    /// Whatever happens, in whatever order: no server ever lets in leases with more than all of a device.
    #[test]
    fn no_device_is_ever_lent_twice(steps in proptest::collection::vec(step(), 1..120)) {
        let mut house = House::new();
        let mut racks: [Rack; 3] = Default::default();
        let mut users: [Option<Peer>; 6] = Default::default();
        let mut now = 0.0;
        for step in steps {
            let (granted_before, said_before) = (house.granted.len(), house.said.len());
            match step {
                Step::Want(user, want) => {
                    let name = format!("user {user}");
                    let peer = *users[usize::from(user)].get_or_insert_with(|| house.connect(&name));
                    let for_ms = (user % 2 == 0).then_some(4_000);
                    let _ = house.want_for(peer, now, WANTS[usize::from(want)], for_ms);
                }
                Step::Release(which) => {
                    let leases: Vec<_> = house.kept.values().cloned().collect();
                    if let Some(record) = leases.get(usize::from(which) % leases.len().max(1)) {
                        let peer = house.connect(&record.user);
                        house.ask(peer, now, Ask::Release { lease: record.lease });
                        house.broker.disconnected(peer, at(now));
                    }
                }
                Step::Drop(user) => {
                    if let Some(peer) = users[usize::from(user)].take() {
                        house.broker.disconnected(peer, at(now));
                    }
                }
                Step::Clear(rack) => {
                    let rack = &mut racks[usize::from(rack)];
                    if let Some(peer) = rack.peer
                        && let Some(lease) = rack.ending.pop()
                    {
                        rack.lets_in.remove(&lease);
                        house.ask(peer, now, Ask::Cleared { lease });
                    }
                }
                Step::Offline(rack) => {
                    if let Some(peer) = racks[usize::from(rack)].peer.take() {
                        house.broker.disconnected(peer, at(now));
                    }
                }
                Step::Online(index) => {
                    let key = format!("s{index}");
                    if racks[usize::from(index)].peer.is_none() {
                        let leases: Vec<_> = racks[usize::from(index)].lets_in.keys().map(|lease| lease.0).collect();
                        let peer = house.connect(&format!("rack-{key}"));
                        racks[usize::from(index)].peer = Some(peer);
                        house.register(peer, &key, &[80, 40], &leases);
                    }
                }
                Step::Wait(seconds) => now += f64::from(seconds),
                Step::Restart => {
                    house.restart(now);
                    users = Default::default();
                    racks.iter_mut().for_each(|rack| rack.peer = None);
                }
            }
            house.decide(now);
            // A lease that has been granted is let in by its servers from then on.
            for (_, lease) in &house.granted[granted_before..] {
                for (server, number, _, share, _) in &house.kept[lease].devices {
                    let rack = &mut racks[server[1..].parse::<usize>().unwrap()];
                    rack.lets_in.entry(*lease).or_default().push((*number, *share));
                }
            }
            let said: Vec<_> = house.said.get(said_before..).unwrap_or(&house.said).to_vec();
            for (peer, tell) in said {
                let Some(rack) = racks.iter_mut().find(|rack| rack.peer == Some(peer)) else { continue };
                if let Tell::End { lease, .. } = tell
                    && !rack.ending.contains(&lease)
                {
                    rack.ending.push(lease);
                }
            }
            for rack in &racks {
                let mut shares = [0; 2];
                for (number, share) in rack.lets_in.values().flatten() {
                    shares[*number as usize] += share;
                }
                prop_assert!(shares.iter().all(|share| *share <= WHOLE), "{:?}", rack.lets_in);
            }
        }
    }
}

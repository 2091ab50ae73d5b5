//! Whatever happens, in whatever order.

use std::collections::BTreeMap;

use proptest::prelude::*;
use ropeway_lease::grant::{LeaseId, WHOLE};
use ropeway_lease::messages::{Ask, Tell};

use super::{House, at};
use crate::core::peer::Peer;

/// What happens in a history.
#[derive(Clone, Debug)]
enum Step {
    /// Who, what, how important, and for how long.
    Want(u8, u8, i32, Option<u8>),
    Cancel(u8),
    Rules(u8),
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
        8 => (0..6u8, 0..6u8, -1..3i32, proptest::option::of(1..9u8))
            .prop_map(|(user, want, priority, expected)| Step::Want(user, want, priority * 5, expected)),
        1 => (0..6u8).prop_map(Step::Cancel),
        1 => (0..3u8).prop_map(Step::Rules),
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

/// Nobody ever has more than this.
const LIMITS: &str =
    "[default]\ndevices = 2.5\nwaiting = 3\n[groups.two]\nmembers = ['user 0', 'user 1']\ndevices = 3\n";

/// Rules that come and go: as by default, preemption, and devices that are kept.
const RULES: [&str; 3] = [
    "",
    "[queue]\npreempt = 5\ngrace = '2s'\naging = '20s'\nassumed = '10s'\nplanned = 2\n[users.'user 4']\ndevices = 2.5\npreemptible = false\n",
    "[reservations.kept]\nwant = '3 gpu, memory>=80G'\nusers = ['user 5']\nfrom = 1970-01-01T00:00:10Z\nuntil = 1970-01-01T00:00:30Z\n",
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
        let (mut now, mut rules) = (0.0, 0);
        house.rule(LIMITS, 0.0);
        for step in steps {
            let just_ruled = matches!(step, Step::Rules(_) | Step::Online(_) | Step::Wait(_));
            let (granted_before, said_before) = (house.granted.len(), house.said.len());
            match step {
                Step::Want(user, want, priority, expected) => {
                    let name = format!("user {user}");
                    let peer = *users[usize::from(user)].get_or_insert_with(|| house.connect(&name));
                    let for_ms = (user % 2 == 0).then_some(4_000);
                    let _ = house.want_as(peer, now, WANTS[usize::from(want)], |ask| {
                        ask.for_ms = for_ms;
                        ask.priority = priority;
                        ask.expected_ms = expected.map(|seconds| u64::from(seconds) * 1000);
                        ask.wait_ms = (want == 1).then_some(3000);
                    });
                }
                Step::Cancel(user) => {
                    if let Some(peer) = users[usize::from(user)] {
                        house.ask(peer, now, Ask::Cancel);
                    }
                }
                Step::Rules(which) => {
                    rules = usize::from(which);
                    house.rules = crate::core::Rules::parse(&format!("{LIMITS}{}", RULES[rules])).unwrap();
                    // Its devices may not be there yet.
                    let _ = house.broker.set_rules(house.rules.clone(), at(now));
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
            house.broker.check(at(now));
            for user in 0..6 {
                let name = format!("user {user}");
                let mine = house.broker.leases().filter(|held| !held.is_over() && held.record.user == name);
                let devices: u64 = mine.map(|held| held.amount().devices).sum();
                prop_assert!(devices <= 2500, "{name} has {devices}");
            }
            // A lease that has been granted is let in by its servers from then on.
            for (_, lease) in &house.granted[granted_before..] {
                let is_kept = rules == 2 && house.servers.len() == 3 && (10.0..30.0).contains(&now) && !just_ruled;
                let record = &house.kept[lease];
                prop_assert!(!is_kept || record.user == "user 5" || record.devices.iter().all(|device| device.1 == 1));
                for (server, number, _, share, _) in &record.devices {
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

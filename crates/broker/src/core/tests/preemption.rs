//! Leases that end for requests of higher priority.

use proptest::prelude::*;
use ropeway_lease::grant::LeaseId;
use ropeway_lease::messages::{Ask, Tell};

use super::{House, at};
use crate::core::peer::Peer;

const RULES: &str = "[queue]\npreempt = 10\ngrace = '30s'\n[users.vip]\npreemptible = false\n";

/// The leases that have had notice.
fn noticed(house: &House) -> Vec<LeaseId> {
    let notices = house.said.iter().filter_map(|(_, tell)| match tell {
        Tell::Notice { lease, .. } => Some(*lease),
        _ => None,
    });
    notices.collect()
}

fn hold(house: &mut House, user: &str, now: f64, want: &str, priority: i32) -> (Peer, LeaseId) {
    let peer = house.connect(user);
    let lease = house.want_as(peer, now, want, |ask| ask.priority = priority).unwrap();
    (peer, lease)
}

fn ask(house: &mut House, user: &str, now: f64, want: &str, priority: i32) -> Peer {
    let peer = house.connect(user);
    house.want_as(peer, now, want, |ask| ask.priority = priority).unwrap_err();
    peer
}

#[test]
fn the_youngest_gets_notice_and_ends_after_the_grace_time() {
    let mut house = House::ruled(RULES);
    let rack = house.serve("a", &[80; 3]);
    let [_, _, (holder, youngest)] =
        [("a", 0.0), ("b", 1.0), ("c", 2.0)].map(|(user, now)| hold(&mut house, user, now, "gpu", 0));
    house.said.clear();
    let urgent = ask(&mut house, "d", 10.0, "gpu", 10);
    let why = "its devices are needed for a request of priority 10".to_owned();
    assert!(house.said.contains(&(holder, Tell::Notice { lease: youngest, in_ms: 30_000, why: why.clone() })));
    assert_eq!(noticed(&house), [youngest]);
    assert!(house.decide(39.9).is_empty(), "nobody else gets notice meanwhile");
    let ended =
        [(holder, Tell::Ended { lease: youngest, why: why.clone() }), (rack, Tell::End { lease: youngest, why })];
    assert_eq!(house.decide(40.0), ended);
    house.ask(rack, 40.5, Ask::Cleared { lease: youngest });
    assert_eq!(house.granted.last().map(|(peer, _)| *peer), Some(urgent));
}

#[test]
fn a_holder_that_comes_back_is_told_again_how_long_it_has() {
    let mut house = House::ruled(RULES);
    house.serve("a", &[80]);
    let (holder, lease) = hold(&mut house, "a", 0.0, "gpu", 0);
    house.broker.disconnected(holder, at(9.5));
    // Nobody hears it.
    ask(&mut house, "b", 10.0, "gpu", 10);
    let again = house.connect("a");
    let told = house.ask(again, 10.25, Ask::Attach { lease });
    let why = "its devices are needed for a request of priority 10".to_owned();
    assert_eq!(told[..2], [Tell::Done, Tell::Notice { lease, in_ms: 29_750, why }]);
}

#[test]
fn nobody_is_ended_without_a_rule_or_a_difference_or_against_the_rules() {
    let mut house = House::new();
    house.serve("a", &[80]);
    hold(&mut house, "a", 0.0, "gpu", 0);
    ask(&mut house, "b", 1.0, "gpu", 1_000_000);
    assert_eq!(noticed(&house), []);
    let mut house = House::ruled(RULES);
    house.serve("a", &[80]);
    hold(&mut house, "vip", 0.0, "gpu", 0);
    ask(&mut house, "b", 1.0, "gpu", 100);
    assert_eq!(noticed(&house), []);
    let mut house = House::ruled(RULES);
    house.serve("a", &[80]);
    hold(&mut house, "a", 0.0, "gpu", 1);
    ask(&mut house, "b", 1.0, "gpu", 10);
    assert_eq!(noticed(&house), []);
}

#[test]
fn as_few_as_possible_end_and_none_that_has_more_than_is_needed() {
    let mut house = House::ruled(RULES);
    house.serve("a", &[80; 8]);
    let (_, pair) = hold(&mut house, "a", 0.0, "2 gpu", 0);
    let (_, four) = hold(&mut house, "b", 1.0, "4 gpu", 0);
    let (_, one) = hold(&mut house, "c", 2.0, "gpu", 0);
    let (_, other) = hold(&mut house, "d", 3.0, "gpu", 0);
    let cases: [(&str, &[LeaseId]); 4] =
        [("gpu", &[other]), ("2 gpu", &[pair]), ("4 gpu", &[four]), ("3 gpu", &[four])];
    for (round, (want, ends)) in (1..).zip(cases) {
        let now = f64::from(round) * 40.0;
        let urgent = ask(&mut house, "urgent", now, want, 50);
        assert_eq!(noticed(&house), ends, "{want}");
        // Without the request, the lease stays.
        house.broker.disconnected(urgent, at(now + 1.0));
        house.said.clear();
        house.decide(now + 31.0);
        assert_eq!(house.said, []);
        assert_eq!(house.broker.leases().filter(|held| held.notice.is_some()).count(), 0);
    }
    assert!(house.kept.contains_key(&one));
}

#[test]
fn what_ends_by_itself_is_waited_for() {
    let mut house = House::ruled(RULES);
    house.serve("a", &[80; 2]);
    hold(&mut house, "a", 0.0, "gpu", 0);
    let peer = house.connect("b");
    house.want_as(peer, 0.0, "gpu", |ask| ask.expected_ms = Some(60_000)).unwrap();
    ask(&mut house, "urgent", 40.0, "gpu", 50);
    assert_eq!(noticed(&house), []);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    /// Those that end are enough, none of them could stay, and they are as few as can be.
    #[test]
    fn never_more_than_needed(
        leases in proptest::collection::vec((1..4usize, 0..3i32), 1..7),
        devices in 4..9usize,
        wanted in 1..5usize,
    ) {
        let mut house = House::ruled(RULES);
        house.serve("a", &vec![80; devices]);
        let (mut free, mut lower) = (devices, Vec::new());
        for (number, (count, priority)) in leases.into_iter().enumerate() {
            if count <= free {
                let (_, lease) = hold(&mut house, &format!("u{number}"), number as f64, &format!("{count} gpu"), priority * 5);
                free -= count;
                if priority == 0 {
                    lower.push((lease, count));
                }
            }
        }
        prop_assume!(free < wanted && wanted <= devices);
        ask(&mut house, "urgent", 100.0, &format!("{wanted} gpu"), 10 - 1 + 1);
        let ended = noticed(&house);
        let of = |chosen: &[LeaseId]| lower.iter().filter(|(lease, _)| chosen.contains(lease)).map(|(_, count)| count).sum::<usize>();
        prop_assert!(ended.iter().all(|lease| lower.iter().any(|(has, _)| has == lease)));
        // The smallest number of leases that suffices, of all sets of them.
        let fewest = (0..1u32 << lower.len()).filter(|set| {
            let count: usize = (0..lower.len()).filter(|bit| set & (1 << bit) != 0).map(|bit| lower[bit].1).sum();
            count + free >= wanted
        }).map(u32::count_ones).min();
        match fewest {
            None => prop_assert!(ended.is_empty()),
            Some(fewest) => {
                prop_assert!(of(&ended) + free >= wanted);
                prop_assert_eq!(ended.len(), fewest as usize);
                for lease in &ended {
                    let others: Vec<_> = ended.iter().copied().filter(|other| other != lease).collect();
                    prop_assert!(of(&others) + free < wanted);
                }
            }
        }
    }
}

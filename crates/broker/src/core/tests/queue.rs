//! Who goes first, who waits for how long, and who may go past.

use std::time::Duration;

use proptest::prelude::*;
use ropeway_lease::grant::LeaseId;
use ropeway_lease::messages::{Ask, QueueLine, Tell};

use super::{House, at};
use crate::core::peer::Peer;

fn queue(house: &mut House, now: f64) -> Vec<QueueLine> {
    let peer = house.connect("who looks");
    match &house.ask(peer, now, Ask::Queue)[..] {
        [Tell::Queue { waiting, total }] => {
            assert_eq!(*total, house.broker.waiting() as u64);
            waiting.clone()
        }
        other => panic!("{other:?}"),
    }
}

fn users(house: &mut House, now: f64) -> Vec<String> {
    queue(house, now).into_iter().map(|line| line.user).collect()
}

/// Ends a lease, and says for its server that it is clear.
fn give_back(house: &mut House, rack: Peer, user: &str, lease: LeaseId, now: f64) {
    let peer = house.connect(user);
    house.ask(peer, now, Ask::Release { lease });
    house.ask(rack, now, Ask::Cleared { lease });
}

#[test]
fn the_more_important_goes_first_then_who_has_used_less_then_the_earlier() {
    let mut house = House::new();
    let rack = house.serve("a", &[80, 80]);
    // Bob has had a device for an hour, Carol for two.
    let [bob, carol] = ["bob", "carol"].map(|user| house.connect(user));
    let (bobs, carols) = (house.want(bob, 0.0, "gpu").unwrap(), house.want(carol, 0.0, "gpu").unwrap());
    give_back(&mut house, rack, "bob", bobs, 3600.0);
    give_back(&mut house, rack, "carol", carols, 7200.0);
    let zoe = house.connect("zoe");
    let all = house.want(zoe, 7200.0, "2 gpu").unwrap();
    for (user, priority) in [("carol", 0), ("bob", 0), ("bob", 0), ("alice", 0), ("carol", 1), ("bob", -1)] {
        let peer = house.connect(user);
        house.want_as(peer, 7201.0, "2 gpu", |ask| ask.priority = priority).unwrap_err();
    }
    assert_eq!(users(&mut house, 7202.0), ["carol", "alice", "bob", "bob", "carol", "bob"]);
    let numbers: Vec<_> = queue(&mut house, 7202.0).into_iter().map(|line| line.request).collect();
    assert_eq!(numbers, [8, 7, 5, 6, 4, 9]);
    give_back(&mut house, rack, "zoe", all, 7203.0);
    assert_eq!(house.kept.values().map(|record| record.user.as_str()).collect::<Vec<_>>(), ["carol"]);
}

#[test]
fn users_that_have_used_as_much_get_devices_in_turn() {
    let mut house = House::new();
    let rack = house.serve("a", &[80; 6]);
    let zoe = house.connect("zoe");
    let all = house.want(zoe, 0.0, "6 gpu").unwrap();
    for user in ["alice", "alice", "alice", "alice", "bob", "bob", "carol"] {
        let peer = house.connect(user);
        house.want(peer, 1.0, "gpu").unwrap_err();
    }
    give_back(&mut house, rack, "zoe", all, 1.0);
    let holders: Vec<_> = house.kept.values().map(|record| record.user.clone()).collect();
    assert_eq!(holders, ["alice", "bob", "carol", "alice", "bob", "alice"]);
}

#[test]
fn who_has_twice_the_weight_gets_twice_as_much() {
    let mut house = House::ruled("[groups.big]\nmembers = ['alice', 'ann']\nweight = 2\n[users.ann]\nweight = 3");
    let rack = house.serve("a", &[80; 12]);
    let zoe = house.connect("zoe");
    let all = house.want(zoe, 0.0, "12 gpu").unwrap();
    for user in ["alice", "ann", "bob"] {
        for _ in 0..12 {
            let peer = house.connect(user);
            house.want(peer, 1.0, "gpu").unwrap_err();
        }
    }
    give_back(&mut house, rack, "zoe", all, 1.0);
    let count = |user: &str| house.kept.values().filter(|record| record.user == user).count();
    assert_eq!((count("alice"), count("ann"), count("bob")), (2, 6, 4));
}

#[test]
fn memory_counts_where_it_is_the_larger_share() {
    let mut house = House::new();
    house.serve("a", &[100, 100]);
    // Alice's lease is a tenth of a device, and all of its memory; Bob's is half of a device, and little memory.
    let [alice, bob] = ["alice", "bob"].map(|user| house.connect(user));
    house.want(alice, 0.0, "gpu, share=0.1, memory=100G").unwrap();
    house.want(bob, 0.0, "gpu, share=0.5, memory=1G").unwrap();
    for user in ["alice", "bob"] {
        let peer = house.connect(user);
        house.want(peer, 100.0, "2 gpu").unwrap_err();
    }
    assert_eq!(users(&mut house, 101.0), ["bob", "alice"]);
}

#[test]
fn what_was_used_is_kept_and_halves() {
    let mut house = House::ruled("[queue]\nhalf_life = '1h'");
    let rack = house.serve("a", &[64, 64]);
    house.broker.set_clock(at(0.0), Duration::from_secs(1_000_000));
    let alice = house.connect("alice");
    let lease = house.want(alice, 0.0, "2 gpu").unwrap();
    // It is written down every minute, and when the lease ends.
    house.decide(60.0);
    assert!((house.usage["alice"].device_seconds - 120.0).abs() < 2.0);
    give_back(&mut house, rack, "alice", lease, 90.0);
    assert!((house.usage["alice"].device_seconds - 180.0).abs() < 2.0);
    assert!((house.usage["alice"].memory_seconds - 180.0 * 64.0).abs() < 128.0);
    assert_eq!((house.usage["alice"].at, house.usage["alice"].days[&11]), (1_000_090, 180.0));
    let used = house.broker.used("alice", at(90.0 + 3600.0));
    assert!((used.0 - house.usage["alice"].device_seconds / 2.0).abs() < 0.1, "{used:?}");
    // A broker that is started again two hours later, by whatever its own time is.
    house.restart(0.0);
    house.broker = crate::core::Broker::new(Default::default(), Vec::new(), Vec::new(), LeaseId(9), at(0.0));
    house.broker.set_clock(at(0.0), Duration::from_secs(1_000_090 + 7200));
    let _ = house.broker.set_rules(house.rules.clone(), at(0.0));
    house.broker.restore_usage(house.usage.values().cloned().collect(), at(0.0));
    let again = house.broker.used("alice", at(0.0));
    assert!((again.0 - house.usage["alice"].device_seconds / 4.0).abs() < 0.1, "{again:?}");
}

#[test]
fn short_ones_go_past_and_long_ones_do_not() {
    let mut house = House::new();
    let rack = house.serve("a", &[80; 4]);
    let zoe = house.connect("zoe");
    let first = house.want_as(zoe, 0.0, "3 gpu", |ask| ask.expected_ms = Some(100_000)).unwrap();
    let big = house.connect("big");
    let told = house.want(big, 1.0, "4 gpu").unwrap_err();
    assert!(
        matches!(&told[..], [Tell::Waiting { before: 0, why }] if why == "for devices that others have"),
        "{told:?}"
    );
    assert_eq!(queue(&mut house, 10.0)[0].in_ms, Some(90_000));
    // It would last beyond the time at which the other's turn comes, or does not say.
    let [long, silent, short] = ["long", "silent", "short"].map(|user| house.connect(user));
    let told = house.want_as(long, 10.0, "gpu", |ask| ask.expected_ms = Some(90_001)).unwrap_err();
    assert!(
        matches!(&told[..], [Tell::Waiting { before: 1, why }] if why == "because what is free is kept for others"),
        "{told:?}"
    );
    house.want(silent, 10.0, "gpu").unwrap_err();
    let passed = house.want_as(short, 10.0, "gpu", |ask| ask.expected_ms = Some(90_000)).unwrap();
    // It keeps its word, and the big one's turn comes.
    give_back(&mut house, rack, "short", passed, 95.0);
    give_back(&mut house, rack, "zoe", first, 99.0);
    assert_eq!(house.granted.last().map(|(peer, _)| *peer), Some(big));
}

#[test]
fn who_goes_past_and_takes_longer_is_ended() {
    let mut house = House::ruled("[queue]\ngrace = '5s'");
    let rack = house.serve("a", &[80; 2]);
    let zoe = house.connect("zoe");
    let first = house.want_as(zoe, 0.0, "gpu", |ask| ask.expected_ms = Some(50_000)).unwrap();
    let big = house.connect("big");
    house.want(big, 1.0, "2 gpu").unwrap_err();
    let short = house.connect("short");
    let passed = house.want_as(short, 2.0, "gpu", |ask| ask.expected_ms = Some(40_000)).unwrap();
    house.said.clear();
    house.decide(42.0);
    let why = "it went before a request that waits, and takes longer than it was expected to".to_owned();
    assert_eq!(house.said, [(short, Tell::Notice { lease: passed, in_ms: 5000, why: why.clone() })]);
    assert!(house.decide(46.9).is_empty());
    let told = house.decide(47.0);
    assert_eq!(
        told,
        [(short, Tell::Ended { lease: passed, why: why.clone() }), (rack, Tell::End { lease: passed, why })]
    );
    house.ask(rack, 47.0, Ask::Cleared { lease: passed });
    give_back(&mut house, rack, "zoe", first, 48.0);
    assert_eq!(house.granted.last().map(|(peer, _)| *peer), Some(big));
}

#[test]
fn other_devices_are_not_kept() {
    let mut house = House::new();
    house.serve("a", &[80; 2]);
    house.serve("b", &[40; 2]);
    let [zoe, big, other, last] = ["zoe", "big", "other", "last"].map(|user| house.connect(user));
    house.want(zoe, 0.0, "gpu, memory>=80G").unwrap();
    house.want(big, 1.0, "2 gpu, memory>=80G").unwrap_err();
    assert!(house.want(other, 2.0, "gpu").is_ok(), "nobody waits for these");
    assert!(house.want(last, 2.0, "2 gpu").is_err(), "one of them is free");
}

#[test]
fn who_has_waited_too_long_goes_before_the_more_important() {
    let mut house = House::ruled("[queue]\naging = '1h'");
    let rack = house.serve("a", &[80; 2]);
    let zoe = house.connect("zoe");
    let mut lease = house.want(zoe, 0.0, "gpu").unwrap();
    let big = house.connect("big");
    house.want_as(big, 1.0, "2 gpu", |ask| ask.priority = -5).unwrap_err();
    // Small ones of higher priority come all the time, and each has come before the last one's end.
    let mut now = 10.0;
    while now < 7200.0 {
        let peer = house.connect("zoe");
        let mine = house.want(peer, now, "gpu");
        give_back(&mut house, rack, "zoe", lease, now + 50.0);
        let Some((to, next)) = house.granted.last().copied() else { panic!() };
        if to == big {
            break;
        }
        lease = mine.unwrap_or(next);
        now += 100.0;
    }
    assert_eq!(house.granted.last().map(|(peer, _)| *peer), Some(big));
    assert!((3600.0..3900.0).contains(&now), "{now}");
}

#[test]
fn who_does_not_wait_gets_what_is_free_or_nothing() {
    let mut house = House::new();
    house.serve("a", &[80]);
    let [alice, bob, carol] = ["alice", "bob", "carol"].map(|user| house.connect(user));
    house.want_as(alice, 1.0, "gpu", |ask| ask.wait_ms = Some(0)).unwrap();
    let told = house.want_as(bob, 1.0, "gpu", |ask| ask.wait_ms = Some(0)).unwrap_err();
    assert_eq!(told, [Tell::Refused { why: "not enough of what is wanted is free now".into() }]);
    house.want_as(carol, 2.0, "gpu", |ask| ask.wait_ms = Some(5000)).unwrap_err();
    assert!(house.decide(6.9).is_empty());
    let why = "what is wanted has not become free in the time that it was to be waited for".to_owned();
    assert_eq!(house.decide(7.0), [(carol, Tell::Refused { why })]);
    assert_eq!(house.broker.waiting(), 0);
}

#[test]
fn a_long_list_is_cut_and_says_how_long_it_is() {
    let mut house = House::new();
    house.serve("a", &[80; 2]);
    let zoe = house.connect("zoe");
    house.want(zoe, 0.0, "2 gpu").unwrap();
    for number in 0..1100 {
        let peer = house.connect(&format!("user {number}"));
        let _ = house.want(peer, 1.0 + f64::from(number), "gpu");
    }
    house.decide(2000.0);
    let lines = queue(&mut house, 3000.0);
    assert_eq!((lines.len(), house.broker.waiting()), (1000, 1100));
    let waiting = Tell::Queue { waiting: lines, total: 1100 };
    assert!(ropeway_lease::messages::encode(&waiting).is_ok());
}

#[test]
fn what_a_request_waits_for_is_said() {
    let mut house = House::ruled("[users.bob]\ndevices = 2");
    house.serve("a", &[80; 2]);
    let rack = house.serve("b", &[40; 2]);
    let [bob, bobs] = ["bob", "bob"].map(|user| house.connect(user));
    house.want(bob, 0.0, "gpu, memory>=80G").unwrap();
    house.want(bobs, 1.0, "2 gpu").unwrap_err();
    house.broker.disconnected(rack, at(2.0));
    let [alice, carol] = ["alice", "carol"].map(|user| house.connect(user));
    house.want(alice, 3.0, "gpu, memory<=40G").unwrap_err();
    house.want(carol, 3.0, "2 gpu, memory>=80G").unwrap_err();
    let whys: Vec<_> = queue(&mut house, 4.0).into_iter().map(|line| (line.user, line.why)).collect();
    let expected = [
        ("alice", "for servers that are not connected"),
        ("carol", "for devices that others have"),
        ("bob", "because user 'bob' has 1 devices, and may have 2 at one time"),
    ];
    assert_eq!(whys, expected.map(|(user, why)| (user.to_owned(), why.to_owned())));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]
    /// A big request waits no longer than the leases last that were there before it, however many small ones come, if
    /// all last as long as they have said.
    #[test]
    fn nobody_who_goes_past_delays_the_first(
        running in proptest::collection::vec((1..4usize, 1..60u32), 1..5),
        small in proptest::collection::vec((1..3usize, 1..80u32, 1..20u32), 0..60),
    ) {
        let mut house = House::new();
        let rack = house.serve("a", &[80; 6]);
        let (mut ends, mut now) = (Vec::new(), 0.0);
        let mut last_of_first = 0.0_f64;
        for (number, (count, length)) in running.into_iter().enumerate() {
            let user = format!("first {number}");
            let peer = house.connect(&user);
            let ask = house.want_as(peer, 0.0, &format!("{count} gpu"), |ask| ask.expected_ms = Some(u64::from(length) * 1000));
            if let Ok(lease) = ask {
                last_of_first = last_of_first.max(f64::from(length));
                ends.push((f64::from(length), user, lease));
            } else {
                house.ask(peer, 0.0, Ask::Cancel);
            }
        }
        let big = house.connect("big");
        // As no user has used anything, whoever comes later has to wait behind it, but for going past.
        let has_begun = |house: &House| house.granted.iter().any(|(peer, _)| *peer == big);
        let _ = house.want(big, 0.0, "6 gpu");
        for (number, (count, length, pause)) in small.into_iter().enumerate() {
            let next = now + f64::from(pause);
            ends.sort_by(|a, b| a.0.total_cmp(&b.0));
            while ends.first().is_some_and(|(end, ..)| *end <= next) {
                let (end, user, lease) = ends.remove(0);
                give_back(&mut house, rack, &user, lease, end);
                let are_others = ends.iter().any(|(other, ..)| *other <= end);
                prop_assert!(
                    end < last_of_first || are_others || has_begun(&house),
                    "it waits at {end}, and was to wait until {last_of_first}"
                );
            }
            if has_begun(&house) {
                break;
            }
            now = next;
            let user = format!("small {number}");
            let peer = house.connect(&user);
            let length = f64::from(length);
            let asked = house.want_as(peer, now, &format!("{count} gpu"), |ask| ask.expected_ms = Some((length * 1000.0) as u64));
            match asked {
                Ok(lease) => ends.push((now + length, user, lease)),
                Err(_) => drop(house.ask(peer, now, Ask::Cancel)),
            }
        }
    }
}

//! What users and groups may have, and what is kept for them.

use std::time::Duration;

use ropeway_lease::messages::{Ask, Tell};

use super::{House, at};

fn refused(told: Vec<Tell>) -> String {
    match &told[..] {
        [Tell::Refused { why }] => why.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_has_as_much_as_is_allowed_waits_and_holds_up_nobody() {
    let mut house = House::ruled(
        "[default]\ndevices = 2\n[users.alice]\nmemory = '100G'\n[groups.lab]\nmembers = ['bob', 'carol']\ndevices = 3",
    );
    let rack = house.serve("a", &[80; 8]);
    let [alice, again, bob, carol, carols, zoe] =
        ["alice", "alice", "bob", "carol", "carol", "zoe"].map(|user| house.connect(user));
    let first = house.want(alice, 0.0, "gpu").unwrap();
    let told = house.want(again, 1.0, "gpu").unwrap_err();
    let why = "because user 'alice' has as much of devices' memory as is allowed at one time";
    assert_eq!(told, [Tell::Waiting { before: 0, why: why.into() }]);
    house.want(bob, 1.0, "2 gpu").unwrap();
    house.want(carol, 1.0, "gpu").unwrap();
    let told = house.want(carols, 1.0, "gpu").unwrap_err();
    let why = "because group 'lab' has 3 devices, and may have 3 at one time";
    assert!(matches!(&told[..], [Tell::Waiting { why: said, .. }] if said == why), "{told:?}");
    assert!(house.want(zoe, 2.0, "2 gpu").is_ok());
    house.ask(alice, 3.0, Ask::Release { lease: first });
    house.ask(rack, 3.0, Ask::Cleared { lease: first });
    assert_eq!(house.granted.last().map(|(peer, _)| *peer), Some(again));
}

#[test]
fn what_is_never_allowed_is_refused_with_the_rule() {
    let mut house = House::ruled(
        "[users.alice]\ndevices = 1.5\nmemory = '100G'\nwaiting = 1\npriority = 5\n[groups.g]\nmembers = ['bob']\npriority = 0",
    );
    house.serve("a", &[80; 2]);
    let alice = house.connect("alice");
    let why = refused(house.want(alice, 0.0, "2 gpu").unwrap_err());
    assert_eq!(why, "2 devices are wanted, and user 'alice' may have 1.5 at one time");
    let why = refused(house.want(alice, 0.0, "2 gpu, share=0.7, memory=60G").unwrap_err());
    assert_eq!(why, "120.0G of memory is wanted, and user 'alice' may have 100.0G at one time");
    let why = refused(house.want_as(alice, 0.0, "gpu", |ask| ask.priority = 6).unwrap_err());
    assert_eq!(why, "the priority is 6, and user 'alice' may give 5 at most");
    let bob = house.connect("bob");
    let why = refused(house.want_as(bob, 0.0, "gpu", |ask| ask.priority = 1).unwrap_err());
    assert_eq!(why, "the priority is 1, and group 'g' may give 0 at most");
    house.want(bob, 0.0, "2 gpu").unwrap();
    house.want(alice, 1.0, "gpu").unwrap_err();
    let again = house.connect("alice");
    let why = refused(house.want(again, 1.0, "gpu").unwrap_err());
    assert_eq!(why, "user 'alice' has as many requests that wait as are allowed: 1");
}

#[test]
fn hours_of_a_week_are_used_up_and_come_again() {
    let mut house = House::ruled("[users.alice]\ndevice_hours = 2");
    house.broker.set_clock(at(0.0), Duration::from_secs(20_000 * 86_400));
    let rack = house.serve("a", &[80; 2]);
    let alice = house.connect("alice");
    let lease = house.want(alice, 0.0, "2 gpu").unwrap();
    house.ask(alice, 3600.0, Ask::Release { lease });
    house.ask(rack, 3600.0, Ask::Cleared { lease });
    let told = house.want(alice, 3601.0, "gpu").unwrap_err();
    let why = "because user 'alice' has used the 2 hours of devices that are allowed in seven days";
    assert_eq!(told, [Tell::Waiting { before: 0, why: why.into() }]);
    for day in 1..7 {
        house.decide(f64::from(day) * 86_400.0);
        assert_eq!(house.granted.len(), 1, "day {day}");
    }
    house.decide(7.0 * 86_400.0);
    assert_eq!(house.granted.len(), 2);
}

#[test]
fn devices_are_kept_for_a_time() {
    let rules =
        "[groups.lab]\nmembers = ['bob']\n[reservations.course]\nwant = '2 gpu, memory>=80G'\nusers = ['alice']\n
        groups = ['lab']\nfrom = '1970-01-12T00:00:00Z'\nuntil = '1970-01-12T02:00:00Z'";
    let mut house = House::new();
    house.serve("a", &[80, 80, 40]);
    // An hour before it.
    let begins = 3600.0;
    house.broker.set_clock(at(0.0), Duration::from_secs(11 * 86_400 - 3600));
    house.rule(rules, 0.0);
    let [zoe, other, long, alice, bob] = ["zoe", "zoe", "zoe", "alice", "bob"].map(|user| house.connect(user));
    let told = house.want(zoe, 0.0, "gpu, memory>=80G").unwrap_err();
    assert_eq!(told, [Tell::Waiting { before: 0, why: "because what is free is kept for others".into() }]);
    assert!(house.want(other, 0.0, "gpu").is_ok(), "one is not kept");
    let short = house.want_as(long, 0.0, "gpu, memory>=80G", |ask| ask.expected_ms = Some(3_600_000)).unwrap();
    let free = house.broker.leases().find(|held| held.record.lease == short).unwrap().parts[0].device;
    house.decide(begins);
    assert_eq!(house.granted.len(), 2);
    assert!(house.want(alice, begins, "gpu").is_ok(), "hers");
    house.want(bob, begins, "gpu").unwrap_err();
    house.ask(long, begins + 1.0, Ask::Release { lease: short });
    let server = house.broker.pool().server(house.broker.pool().device(free).server).online.unwrap();
    house.ask(server, begins + 1.0, Ask::Cleared { lease: short });
    assert_eq!(house.granted.last().map(|(peer, _)| *peer), Some(bob));
    // Once it is over, everybody may have them.
    house.ask(bob, begins + 2.0, Ask::Release { lease: house.granted.last().unwrap().1 });
    house.ask(server, begins + 2.0, Ask::Cleared { lease: house.granted.last().unwrap().1 });
    assert_eq!(house.granted.len(), 4);
    assert_eq!(house.broker.deadline().map(|at| at <= super::at(begins + 7200.0)), Some(true));
    house.decide(begins + 7200.0);
    assert_eq!(house.granted.last().map(|(peer, _)| *peer), Some(zoe));
}

#[test]
fn a_reservation_that_cannot_be_kept_is_said() {
    let mut house = House::new();
    house.serve("a", &[80, 80]);
    let rules = |count: u32| {
        let text = format!(
            "[reservations.a]\nwant='{count} gpu'\nusers=['x']\nfrom=1970-01-12T00:00:00Z\nuntil=1970-01-12T02:00:00Z\n
             [reservations.b]\nwant='gpu'\nusers=['x']\nfrom=1970-01-12T01:00:00Z\nuntil=1970-01-12T03:00:00Z"
        );
        crate::core::Rules::parse(&text).unwrap()
    };
    assert_eq!(house.broker.set_rules(rules(1), at(0.0)), [""; 0]);
    let wrong = "the devices of reservation 'b' are not there, or are kept for others: 1 device, type=gpu";
    assert_eq!(house.broker.set_rules(rules(2), at(0.0)), [wrong]);
}

#[test]
fn other_rules_count_what_is_lent_already() {
    let mut house = House::new();
    house.serve("a", &[80; 4]);
    let [alice, again] = ["alice", "alice"].map(|user| house.connect(user));
    house.want(alice, 0.0, "2 gpu").unwrap();
    house.rule("[groups.lab]\nmembers = ['alice']\ndevices = 2", 1.0);
    house.want(again, 2.0, "gpu").unwrap_err();
    house.rule("[groups.lab]\nmembers = ['alice']\ndevices = 3", 3.0);
    house.decide(3.0);
    assert_eq!(house.granted.len(), 2);
}

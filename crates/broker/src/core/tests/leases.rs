//! From requests to leases and back.

use ropeway_lease::grant::{LeaseId, WHOLE};
use ropeway_lease::messages::{Ask, Tell};

use super::{House, at};

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
fn the_pool_is_told_with_what_others_have_of_it() {
    let mut house = House::new();
    house.serve("a", &[80, 40]);
    let gone = house.serve("b", &[16]);
    let [alice, bob] = ["alice", "bob"].map(|user| house.connect(user));
    house.want(alice, 1.0, "gpu, server=a, device=1, share=0.25").unwrap();
    house.want(bob, 1.0, "gpu, server=a, device=1, share=0.5").unwrap();
    house.broker.disconnected(gone, at(2.0));
    let mut pool = |from| {
        let properties = vec!["global_mem_size".to_owned(), "colour".to_owned()];
        match &house.ask(alice, 3.0, Ask::Pool { from, properties })[..] {
            [Tell::Pool { servers, next: None }] => servers.clone(),
            other => panic!("{other:?}"),
        }
    };
    let servers = pool(0);
    let told = servers.iter().map(|server| {
        let others: Vec<_> = server.devices.iter().map(|device| device.others).collect();
        (server.key.as_str(), server.online, others)
    });
    assert_eq!(told.collect::<Vec<_>>(), [("a", true, vec![0, 500]), ("b", false, vec![0])]);
    let properties = &servers[0].devices[1].properties;
    assert_eq!(properties.keys().collect::<Vec<_>>(), ["global_mem_size"]);
    assert_eq!(pool(1), servers[1..]);
    assert_eq!(pool(9), []);
    // Those that one message cannot hold come with the next one.
    for number in 0..1100 {
        house.serve(&format!("more{number}"), &[80]);
    }
    let mut ask = |from| match house.ask(bob, 4.0, Ask::Pool { from, properties: Vec::new() }).remove(0) {
        Tell::Pool { servers, next } => (servers.len(), next),
        other => panic!("{other:?}"),
    };
    assert_eq!(ask(0), (1000, Some(1000)));
    assert_eq!(ask(1000), (102, None));
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

//! What etcd carries out of a broker that does not lead any more: nothing, however late it comes.

use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use ropeway_broker::core::LeaseRecord;
use ropeway_broker::store::{Campaign, Candidate, Change, EtcdFiles, Standing, Store, Term};
use ropeway_lease::grant::LeaseId;
use ropeway_lease::messages::Registration;
use ropeway_tests::etcd::Etcd;
use ropeway_tests::valve::Valve;
use ropeway_tests::wait_for;

const LONG: Duration = Duration::from_secs(30);

fn campaign(store: &str, address: &str) -> (Campaign, Receiver<Standing>) {
    let (report, standings) = channel();
    let (etcd, files) = (store.parse().unwrap(), EtcdFiles::default());
    let candidate = Candidate { etcd, files, address: address.to_owned(), key: "the pool's key".to_owned() };
    (Campaign::start(candidate, move |standing| report.send(standing).is_ok()).unwrap(), standings)
}

/// The term that begins next.
fn leads(standings: &Receiver<Standing>) -> Term {
    let deadline = Instant::now() + LONG;
    loop {
        match standings.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Standing::Leads(term)) => return *term,
            Ok(Standing::StandsBy(_)) => {}
            Err(error) => panic!("it does not lead: {error}"),
        }
    }
}

/// Waits until a broker stands by, and knows that this one leads.
fn hears_of(standings: &Receiver<Standing>, leader: &str) {
    let deadline = Instant::now() + LONG;
    loop {
        match standings.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Standing::StandsBy(Some(found))) if found == leader => return,
            Ok(_) => {}
            Err(error) => panic!("it does not hear that {leader} leads: {error}"),
        }
    }
}

fn keep(lease: u64, program: &str) -> Change {
    Change::Keep(Box::new(LeaseRecord {
        lease: LeaseId(lease),
        user: "alice".into(),
        program: program.into(),
        key: "k".into(),
        for_ms: 5,
        attached: true,
        over: None,
        devices: vec![("s".into(), 1, "G".into(), 1000, 7)],
        priority: 0,
        expected_ms: None,
    }))
}

#[test]
fn a_broker_that_does_not_lead_any_more_writes_nothing() {
    let etcd = Etcd::start();
    let valves: Vec<_> = etcd.addresses().iter().map(|address| Valve::to(address)).collect();
    let ways: Vec<_> = valves.iter().map(Valve::address).collect();
    let (_one, of_one) = campaign(&format!("etcd://{}", ways.join(",")), "one:1");
    // On a machine that is very busy it may lose the lead at once, and get it again.
    let mut first = wait_for("leader that writes", LONG, || {
        let mut term = leads(&of_one);
        term.store.read().ok()?;
        term.store.write(&[keep(1, "kept"), keep(2, "kept")], true).ok()?;
        term.store.write(&[Change::Forget(LeaseId(2))], false).ok()?;
        Some(term)
    });

    let (_two, of_two) = campaign(&etcd.url(), "two:1");
    hears_of(&of_two, "one:1");
    valves.iter().for_each(Valve::shut);
    // It is on its way, to each member, when another broker takes over.
    let tenure = first.tenure.clone();
    let late = thread::spawn(move || {
        let outcome = first.store.write(&[keep(1, "late"), keep(3, "late")], true);
        (first, outcome)
    });
    let begin = Instant::now();
    let mut second = leads(&of_two);
    println!("another broker leads {:.2} s after the first was cut off", begin.elapsed().as_secs_f64());
    assert!(!tenure.holds(), "the first has to know before");
    let written = second.store.read().unwrap();
    assert_eq!((written.leases.len(), written.latest), (1, LeaseId(2)));
    second.store.write(&[keep(3, "kept")], true).unwrap();
    valves.iter().for_each(Valve::open);
    let (mut first, outcome) = late.join().unwrap();
    outcome.unwrap_err();
    // What it says now is refused, not only not answered.
    let refused = wait_for("a refusal", LONG, || {
        let why = first.store.write(&[keep(1, "late"), keep(4, "late")], true).unwrap_err().to_string();
        why.contains("another broker").then_some(why)
    });
    assert_eq!(refused, "another broker of this pool leads");
    let written = second.store.read().unwrap();
    let programs: Vec<_> = written.leases.iter().map(|record| (record.lease.0, record.program.as_str())).collect();
    assert_eq!((programs, written.latest), (vec![(1, "kept"), (3, "kept")], LeaseId(3)));
    second.store.write(&[keep(4, "kept")], true).unwrap();
    assert!(second.tenure.holds());
    hears_of(&of_one, "two:1");
}

#[test]
fn long_lists_take_several_transactions() {
    let etcd = Etcd::start();
    let (_campaign, standings) = campaign(&etcd.url(), "one:1");
    let mut term = leads(&standings);
    assert_eq!(term.store.read().unwrap().leases.len(), 0);
    let leases: Vec<_> = (1..=1000).map(|lease| keep(lease, "kept")).collect();
    term.store.write(&leases, true).unwrap();
    // Of 64 KiB each.
    let server = |number: u32| {
        Change::KeepServer(Box::new(Registration {
            name: "x".repeat(1 << 16),
            key: format!("server {number}"),
            address: "a".into(),
            devices: Vec::new(),
            leases: Vec::new(),
        }))
    };
    term.store.write(&(0..50).map(server).collect::<Vec<_>>(), true).unwrap();
    // The last of several changes of one lease counts.
    term.store
        .write(&[keep(7, "first"), Change::Forget(LeaseId(7)), keep(7, "last"), Change::Forget(LeaseId(8))], true)
        .unwrap();
    let written = term.store.read().unwrap();
    assert_eq!((written.leases.len(), written.servers.len(), written.latest), (999, 50, LeaseId(1000)));
    assert_eq!((written.leases[6].program.as_str(), written.leases[7].lease), ("last", LeaseId(9)));
}

//! Histories at random: servers and clients of a broker that is killed and paused, or of several on etcd, which are cut
//! off from it as well, and parted from some servers and clients. No device is lent twice, and what was granted stays granted.
//!
//! `make histories SEEDS=200` runs so many seeds instead of the few of `make test`.

use std::time::Instant;

use ropeway_tests::broker::Broker;
use ropeway_tests::etcd::Etcd;
use ropeway_tests::histories::{Event, Parts, Run, Trouble};
use ropeway_tests::net::Net;
use ropeway_tests::valve::Valve;

/// Brokers of a pool.
const BROKERS: usize = 3;

/// How long a holder may be away: here, threads of a busy machine are.
const RETURNS: [&str; 2] = ["--returns", "5s"];

/// The seeds: those of the environment, as "200" or "17-40", or so many.
fn seeds(count: u64) -> std::ops::RangeInclusive<u64> {
    let Ok(given) = std::env::var("ROPEWAY_SEEDS") else { return 1..=count };
    let number = |text: &str| {
        text.parse().unwrap_or_else(|_| panic!("ROPEWAY_SEEDS='{given}' is no number of seeds, and no range"))
    };
    given.split_once('-').map_or_else(|| 1..=number(&given), |(first, last)| number(first)..=number(last))
}

fn report(seed: u64, events: &[Event], begin: Instant) {
    let count = |is: fn(&Event) -> bool| events.iter().filter(|event| is(event)).count();
    let granted = count(|event| matches!(event, Event::Granted(_)));
    let opened = count(|event| matches!(event, Event::Opened(..)));
    let faults: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Fault(what) if !what.ends_with("back") => Some(what.as_str()),
            _ => None,
        })
        .collect();
    let took = begin.elapsed().as_secs();
    println!("seed {seed}: {granted} leases, {opened} sessions, {took} s; {}", faults.join(", "));
    assert!(granted > 0, "seed {seed}: nothing was lent");
}

#[test]
fn one_broker_that_is_killed_and_paused_lends_nothing_twice() {
    for seed in seeds(10) {
        let broker = Broker::start_with(&RETURNS);
        let troubles = vec![Trouble::Killed, Trouble::Killed, Trouble::Stopped, Trouble::Paused];
        let begin = Instant::now();
        let run = Run { brokers: vec![(broker, Vec::new())], troubles, parts: None };
        report(seed, &run.run(seed), begin);
    }
}

#[test]
fn brokers_on_etcd_that_are_killed_paused_and_cut_off_lend_nothing_twice() {
    let etcd = Etcd::start();
    for seed in seeds(10) {
        let mut brokers: Vec<(Broker, Vec<Valve>)> = Vec::new();
        for _ in 0..BROKERS {
            let valves: Vec<_> = etcd.addresses().iter().map(|address| Valve::to(address)).collect();
            let members: Vec<_> = valves.iter().map(Valve::address).collect();
            let store = format!("etcd://{}/seed{seed}", members.join(","));
            let options = [&RETURNS[..], &["--store", &store]].concat();
            let broker = match brokers.first() {
                None => Broker::start_with(&options),
                Some((first, _)) => first.start_another_with(None, &options),
            };
            brokers.push((broker, valves));
        }
        let troubles = vec![Trouble::Killed, Trouble::Stopped, Trouble::Paused, Trouble::CutOff];
        let begin = Instant::now();
        report(seed, &Run { brokers, troubles, parts: None }.run(seed), begin);
    }
}

#[test]
fn a_broker_that_is_cut_off_from_etcd_but_not_from_everybody_lends_nothing_more() {
    let Some(net) = Net::or_skip(Parts::HOSTS) else { return };
    let parts = || Parts::of(&net);
    let etcd = Etcd::start_on(&parts().etcd.iter().collect::<Vec<_>>());
    for seed in seeds(4) {
        let store = format!("{}/seed{seed}", etcd.url());
        let options = [&RETURNS[..], &["--store", &store]].concat();
        let mut brokers: Vec<(Broker, Vec<Valve>)> = Vec::new();
        for host in &parts().brokers {
            let broker = match brokers.first() {
                None => Broker::start_on_with(host, &options),
                Some((first, _)) => first.start_another_with(Some(host), &options),
            };
            brokers.push((broker, Vec::new()));
        }
        let troubles = vec![Trouble::Parted, Trouble::Parted, Trouble::Killed, Trouble::Paused];
        let begin = Instant::now();
        report(seed, &Run { brokers, troubles, parts: Some(parts()) }.run(seed), begin);
    }
}

//! Several brokers of one pool, on a real etcd of three members: one leads, and another takes over.

use std::process::Command;
use std::time::{Duration, Instant};

use ropeway_tests::broker::Broker;
use ropeway_tests::etcd::Etcd;
use ropeway_tests::net::{Host, Net};
use ropeway_tests::places::{c_program, ropeway};
use ropeway_tests::program::Running;
use ropeway_tests::server::Server;
use ropeway_tests::{process, wait_for};

const LONG: Duration = Duration::from_secs(30);

/// What a fail-over may take on a busy machine; it is three seconds on one that has time.
const FAIL_OVER: Duration = Duration::from_secs(15);

/// Brokers of one pool.
struct Pool {
    brokers: Vec<Broker>,
}

impl Pool {
    fn start(etcd: &Etcd, count: usize) -> Self {
        let first = Broker::start_with(&["--store", &etcd.url()]);
        let mut brokers: Vec<_> = (1..count).map(|_| first.start_another(None)).collect();
        brokers.insert(0, first);
        Self { brokers }
    }

    /// A ticket with all brokers.
    fn ticket(&self, name: &str, args: &[&str]) -> String {
        let first = &self.brokers[0];
        let ticket = first.ticket(name, args);
        self.brokers[1..].iter().for_each(|broker| first.copy_clients_to(broker));
        let all: Vec<_> = self.brokers.iter().map(|broker| first.as_ticket_of(&ticket, broker)).collect();
        all.join(",")
    }

    /// The one that leads.
    fn leader(&self) -> usize {
        wait_for("leader", LONG, || self.brokers.iter().position(Broker::leads))
    }

    /// A server with this many devices.
    fn server(&self, devices: usize) -> Server {
        self.brokers[0].server_for(&self.ticket("rack", &["--registers"]), devices)
    }
}

/// A program that holds a device of the pool.
fn holding(pool: &Pool, ticket: &str) -> Running {
    let mut program = pool.brokers[0].program(ticket, "cpu", c_program("held"), &[]).start();
    assert_eq!(program.line(), "ready");
    program
}

/// Gets and gives back another device, and says how long that took after something was done to the pool's brokers.
fn next_grant(broker: &Broker, ticket: &str, at: Option<&Host>, after: &str, begin: Instant) {
    let program = broker.program(ticket, "cpu", "clinfo", &["-l"]);
    let program = if let Some(host) = at { program.on(host) } else { program };
    assert_eq!(program.run().success().listed(), 1);
    let took = begin.elapsed();
    println!("{after}: the next program had its device after {:.2} s", took.as_secs_f64());
    assert!(took < FAIL_OVER);
}

/// The program computes, `turn` times with this, and its lease is the only one, also once holders had to be back.
fn is_held(program: &mut Running, broker: &Broker, turn: &str) {
    program.say("compute");
    assert_eq!(program.line(), turn);
    assert_eq!(broker.lease_count(), 1);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(broker.lease_count(), 1);
}

#[test]
fn another_broker_takes_over_from_one_that_is_killed() {
    let etcd = Etcd::start();
    let mut pool = Pool::start(&etcd, 3);
    let server = pool.server(2);
    let alice = pool.ticket("alice", &[]);
    let mut program = holding(&pool, &alice);
    for turn in ["1", "2"] {
        let leader = pool.leader();
        pool.brokers[leader].kill();
        let others = &pool.brokers[(leader + 1) % 3];
        next_grant(others, &alice, None, "a broker was killed", Instant::now());
        is_held(&mut program, others, turn);
        pool.brokers[leader].restart();
    }
    // One that is told to end gives the lead away.
    let leader = pool.leader();
    pool.brokers[leader].daemon().stop();
    pool.brokers[leader].kill();
    let other = &pool.brokers[(leader + 1) % 3];
    next_grant(other, &alice, None, "a broker was told to end", Instant::now());
    is_held(&mut program, other, "3");
    // A request that waits is made again.
    pool.brokers[leader].restart();
    let leader = pool.leader();
    let waiting = pool.brokers[leader].program(&alice, "2 cpu", "clinfo", &["-l"]).start();
    wait_for("a request that waits", LONG, || pool.brokers[leader].says(&["queue"]).contains("clinfo").then_some(()));
    pool.brokers[leader].kill();
    let other = &pool.brokers[(leader + 1) % 3];
    wait_for("the request again", LONG, || other.says(&["queue"]).contains("clinfo").then_some(()));
    program.finish().success();
    let outcome = waiting.finish().success();
    assert_eq!(outcome.listed(), 2, "{outcome:?}");
    assert!(outcome.stderr.contains("the request is made again"), "{outcome:?}");
    other.expect_leases(0);
    drop(server);
}

#[test]
fn a_broker_that_was_paused_finds_that_another_leads() {
    let etcd = Etcd::start();
    let mut pool = Pool::start(&etcd, 2);
    let _server = pool.server(2);
    let alice = pool.ticket("alice", &[]);
    let mut program = holding(&pool, &alice);
    let leader = pool.leader();
    let pid = pool.brokers[leader].daemon().pid();
    process::stop(pid);
    let other = &pool.brokers[1 - leader];
    next_grant(other, &alice, None, "a broker was paused", Instant::now());
    process::resume(pid);
    pool.brokers[leader].daemon().expect_log("this broker does not lead any more");
    pool.brokers[leader].daemon().expect_log("this broker stands by");
    assert_eq!(pool.leader(), 1 - leader);
    // Who knows this broker only finds the other one.
    let paused = &pool.brokers[leader];
    is_held(&mut program, paused, "1");
    program.finish().success();
    paused.expect_leases(0);
}

#[test]
fn a_broker_that_is_cut_off_from_etcd_does_not_lead() {
    let Some(net) = Net::or_skip(6) else { return };
    let host = |number| net.host(number);
    let etcd = Etcd::start_on(&[host(3), host(4), host(5)]);
    let first = Broker::start_on_with(host(0), &["--store", &etcd.url()]);
    let second = first.start_another(Some(host(1)));
    let mut pool = Pool { brokers: vec![first, second] };
    let rack = pool.ticket("rack", &["--registers"]);
    let _server = pool.brokers[0].server_for_on(&rack, host(2), 2);
    let alice = pool.ticket("alice", &[]);
    let mut program = pool.brokers[0].program(&alice, "cpu", c_program("held"), &[]).on(host(2)).start();
    assert_eq!(program.line(), "ready");
    let leader = pool.leader();
    let begin = Instant::now();
    (3..6).for_each(|member| host(leader).part_from(host(member)));
    pool.brokers[leader].daemon().expect_log("this broker does not lead any more");
    let other = &pool.brokers[1 - leader];
    next_grant(other, &alice, Some(host(2)), "a broker was cut off from etcd", begin);
    is_held(&mut program, other, "1");
    program.finish().success();
    other.expect_leases(0);
}

#[test]
fn a_member_of_etcd_that_is_killed_costs_nobody_a_lease() {
    let mut etcd = Etcd::start();
    let pool = Pool::start(&etcd, 2);
    let _server = pool.server(2);
    let alice = pool.ticket("alice", &[]);
    let mut program = holding(&pool, &alice);
    let leader = etcd.leader();
    etcd.kill(leader);
    next_grant(&pool.brokers[0], &alice, None, "the leading member of etcd was killed", Instant::now());
    is_held(&mut program, &pool.brokers[0], "1");
    program.finish().success();
    pool.brokers[0].expect_leases(0);
}

#[test]
fn brokers_of_one_pool_have_one_key() {
    let etcd = Etcd::start();
    let _pool = Pool::start(&etcd, 1);
    let state = tempfile::tempdir().unwrap();
    let broker = |store: &str| {
        let mut command = Command::new(ropeway());
        command.args(["broker", "--listen", "tls://127.0.0.1:0", "--store", store, "--state"]).arg(state.path());
        let told = command.output().unwrap();
        assert!(!told.status.success(), "{told:?}");
        String::from_utf8(told.stderr).unwrap()
    };
    let told = broker(&etcd.url());
    assert!(told.contains("the brokers of this pool have another key; copy the file server.key"), "{told}");
    // Nobody listens there.
    let told = broker("etcd://127.0.0.1:1");
    assert!(told.contains("etcd at 127.0.0.1:1"), "{told}");
    let told = broker("redis://x");
    assert!(told.contains("a store is etcd://HOST:PORT,HOST:PORT"), "{told}");
}
